"""The whole suite."""

from __future__ import annotations

from headway.testing.store_contract.instances import InstancesContract
from headway.testing.store_contract.meetings import MeetingsContract
from headway.testing.store_contract.units import UnitsContract
from headway.testing.store_contract.upkeep import UpkeepContract
from headway.testing.store_contract.work import WorkContract


class StoreContract(UnitsContract, MeetingsContract, InstancesContract, WorkContract, UpkeepContract):
    """All that a store promises."""
