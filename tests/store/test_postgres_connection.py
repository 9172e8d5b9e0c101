"""A connection that is lost is told as a store that is away, whatever the driver says."""

import pytest

from headway.errors import StoreUnavailableError
from headway.store.postgres.connection import Connection, Connections


@pytest.mark.mission("ENG-3")
async def test_a_connection_lost_within_a_transaction_is_a_store_that_is_away(postgres_address: str) -> None:
    """That it cannot be rolled back any more does not take the place of what has happened."""
    connections = Connections(postgres_address, 1)
    connections.open()
    with connections.call():
        async with connections.connection() as connection:
            with pytest.raises(StoreUnavailableError):
                await _lose(connection)
    await connections.close()


async def _lose(connection: Connection) -> None:
    async with connection.transaction():
        connection._raw.terminate()
        await connection.fetch("SELECT 1")
