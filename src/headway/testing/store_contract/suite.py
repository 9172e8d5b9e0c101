"""The whole suite."""

from __future__ import annotations

from headway.testing.store_contract.asks import AsksContract
from headway.testing.store_contract.charts import ChartsContract
from headway.testing.store_contract.events import EventsContract
from headway.testing.store_contract.instances import InstancesContract
from headway.testing.store_contract.leases import LeasesContract
from headway.testing.store_contract.letters import LettersContract
from headway.testing.store_contract.limits import LimitsContract
from headway.testing.store_contract.live import LiveContract
from headway.testing.store_contract.meetings import MeetingsContract
from headway.testing.store_contract.messages import ConsumersContract, MessagesContract
from headway.testing.store_contract.units import UnitsContract
from headway.testing.store_contract.upkeep import PruningContract, TimersContract
from headway.testing.store_contract.work import WorkContract


class Basics(UnitsContract, MeetingsContract, InstancesContract, ChartsContract):
    """Units, and what they leave behind."""


class StoreContract(
    Basics,
    TimersContract,
    WorkContract,
    LimitsContract,
    AsksContract,
    LeasesContract,
    MessagesContract,
    ConsumersContract,
    LettersContract,
    EventsContract,
    LiveContract,
    PruningContract,
):
    """All that a store promises."""
