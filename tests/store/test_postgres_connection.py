"""A connection that is lost is told as a store that is away, whatever the driver says."""

import asyncio

import pytest

from headway import Final, State, Statechart
from headway.errors import StoreUnavailableError
from headway.node import Node
from headway.store.postgres.connection import Connection, Connections
from headway.worker import Handlers, Work
from tests.store.postgres_clients import someone

CONNECTED = """
SELECT count(*) FROM pg_stat_activity WHERE application_name = 'headway' AND datname = current_database()
"""


class Order(Statechart):
    """An order that is packed."""

    packing, packed, failed = State(initial=True, run="pack"), Final(), Final()
    done = packing.on_done.to(packed)
    broken = packing.on_error.to(failed)


handlers = Handlers()


@handlers
async def pack(work: Work) -> str:
    """Packs."""
    return work.instance


@pytest.mark.mission("ENG-17")
async def test_a_node_under_load_has_six_connections(postgres_address: str) -> None:
    """Four for calls, one that listens, one that holds the name; they are kept."""
    async with Node(postgres_address, [Order], handlers=handlers, name="mill") as node, asyncio.timeout(60):
        tenant = node.tenant()
        orders = [f"o-{number}" for number in range(200)]
        await asyncio.gather(*(tenant.create(Order, order) for order in orders))
        await asyncio.gather(*(tenant.until(order) for order in orders))
        async with someone(postgres_address) as observer:
            assert await observer.fetchval(CONNECTED) == 6


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
