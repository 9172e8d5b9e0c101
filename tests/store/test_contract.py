"""Every store keeps the contract."""

import pytest

from tests.store.contract.suite import StoreContract


class TestStore(StoreContract):
    """The contract, on each place of the folder's conftest."""


@pytest.mark.mission("ENG-17")
def test_no_part_of_the_contract_hides_a_test_of_another() -> None:
    """Tests of one name in two parts would run only once."""
    names = [name for part in StoreContract.__mro__ for name in vars(part) if name.startswith("test_")]
    assert sorted(names) == sorted({*names})
