"""Behind PgBouncer: what works with session pooling, and what fails with transaction pooling."""

import asyncio
from collections.abc import Iterator

import pytest

from headway import Final, State, Statechart
from headway.errors import StoreError
from headway.node import Node
from headway.store.postgres.connection import SETTINGS
from headway.worker import Handlers, Work
from tests.store.pgbouncer import PROGRAM, PgBouncer
from tests.store.postgres_clients import opened
from tests.store.test_postgres_messages import Ear

pytestmark = [
    pytest.mark.mission("ENG-17"),
    pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed"),
]
ORDERS = 50


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


@pytest.fixture
def session_pooling(postgres_address: str) -> Iterator[str]:
    """The address of a PgBouncer with session pooling."""
    with PgBouncer(postgres_address, "session") as pooler:
        yield pooler.address


@pytest.fixture
def transaction_pooling(postgres_address: str) -> Iterator[str]:
    """The address of a PgBouncer with transaction pooling."""
    with PgBouncer(postgres_address, "transaction") as pooler:
        yield pooler.address


async def packed(address: str, name: str) -> set[str]:
    """The states in which orders have ended on a node."""
    async with Node(address, [Order], handlers=handlers, name=name) as node, asyncio.timeout(60):
        tenant = node.tenant()
        names = [f"{name}-{number}" for number in range(ORDERS)]
        await asyncio.gather(*(tenant.create(Order, order) for order in names))
        return {str((await tenant.until(order)).state) for order in names}


async def test_nodes_run_behind_a_pooler_of_sessions(session_pooling: str) -> None:
    """With PgBouncer's defaults; a restarted node gets its name, which the first has given up."""
    assert await packed(session_pooling, "one") == {"packed"}
    async with Node(session_pooling, [Order], name="one") as again:
        assert (await again.tenant().until("one-0")).states == ("packed",)


async def test_a_connection_behind_a_pooler_of_sessions_has_its_settings(session_pooling: str) -> None:
    """A pooler does not pass on what a client says at the start, so it is said afterwards."""
    async with opened(session_pooling) as store:
        rows = await store._database.fetch("SELECT name, setting FROM pg_settings")
    found = dict(rows)
    found["idle_in_transaction_session_timeout"] = (
        f"{int(found['idle_in_transaction_session_timeout']) // 1000}s"
    )
    assert {name: found[name] for name in SETTINGS} == SETTINGS


async def test_notifications_arrive_behind_a_pooler_of_sessions(session_pooling: str) -> None:
    """LISTEN keeps its session."""
    async with opened(session_pooling) as store, opened(session_pooling) as other, asyncio.timeout(60):
        ear = Ear()
        await store.listen(ear)
        await other.announce(["timers"])
        assert await ear.heard.get() == "timers"


async def test_a_pooler_of_transactions_is_not_supported(transaction_pooling: str) -> None:
    """Prepared statements are lost between transactions: calls fail, instead of being lost."""
    with pytest.raises(StoreError, match="prepared statement"):
        await packed(transaction_pooling, "one")
