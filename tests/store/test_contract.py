"""Every store keeps the contract."""

from headway.testing.store_contract.suite import StoreContract


class TestStore(StoreContract):
    """The contract, on each place of the folder's conftest."""
