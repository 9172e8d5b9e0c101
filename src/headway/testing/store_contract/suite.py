"""The whole suite."""

from __future__ import annotations

from headway.testing.store_contract.asks import AsksContract
from headway.testing.store_contract.charts import ChartsContract
from headway.testing.store_contract.commands import CommandsContract
from headway.testing.store_contract.durations import DurationsContract
from headway.testing.store_contract.events import EventsContract
from headway.testing.store_contract.instances import InstancesContract
from headway.testing.store_contract.leases import LeasesContract
from headway.testing.store_contract.letters import LettersContract
from headway.testing.store_contract.limits import LimitsContract
from headway.testing.store_contract.live import LiveContract
from headway.testing.store_contract.meetings import MeetingsContract
from headway.testing.store_contract.messages import ConsumersContract, MessagesContract
from headway.testing.store_contract.names import NamesContract
from headway.testing.store_contract.units import UnitsContract
from headway.testing.store_contract.upkeep import PruningContract, TimersContract
from headway.testing.store_contract.versions import NodesContract, VersionsContract
from headway.testing.store_contract.work import WorkContract


class Basics(UnitsContract, CommandsContract, MeetingsContract, InstancesContract, ChartsContract):
    """Units, and what they leave behind."""


class StoreContract(
    Basics,
    TimersContract,
    WorkContract,
    LimitsContract,
    VersionsContract,
    NodesContract,
    AsksContract,
    LeasesContract,
    NamesContract,
    MessagesContract,
    ConsumersContract,
    LettersContract,
    EventsContract,
    LiveContract,
    PruningContract,
    DurationsContract,
):
    """All that a store promises."""
