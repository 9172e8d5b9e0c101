"""The whole suite."""

from __future__ import annotations

from tests.store.contract.asks import AsksContract
from tests.store.contract.charts import ChartsContract
from tests.store.contract.commands import CommandsContract
from tests.store.contract.durations import DurationsContract
from tests.store.contract.events import EventsContract
from tests.store.contract.instances import InstancesContract
from tests.store.contract.leases import LeasesContract
from tests.store.contract.letters import LettersContract
from tests.store.contract.limits import LimitsContract
from tests.store.contract.live import LiveContract
from tests.store.contract.meetings import MeetingsContract
from tests.store.contract.messages import ConsumersContract, MessagesContract
from tests.store.contract.names import NamesContract
from tests.store.contract.units import UnitsContract
from tests.store.contract.upkeep import PruningContract, TimersContract
from tests.store.contract.versions import NodesContract, VersionsContract
from tests.store.contract.work import WorkContract


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
