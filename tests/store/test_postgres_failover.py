"""A failover of PostgreSQL: a standby takes the place of the primary, and nodes follow."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headway import Final, Retry, State, Statechart
from headway.errors import StoreUnavailableError
from headway.node import Node
from headway.store import migrate
from headway.store.postgres.store import PostgresStore, postgres_database
from headway.worker import Handlers, Work
from tests.store.contract.acts import KEY, counted, writing
from tests.store.contract.place import instance
from tests.store.postgres_clients import opened, someone
from tests.store.postgres_server import PostgresServer, Standby
from tests.store.test_postgres_messages import SOCKET, Proxy

pytestmark = pytest.mark.mission("ENG-3", "ENG-9", "ENG-10", "ENG-17")
FOLLOWING = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
READ_ONLY = "SET default_transaction_read_only = on"


class Errand(Statechart):
    """Waits a moment, then works."""

    waiting = State(initial=True)
    working = State(run="work", retry=Retry(times=None, base="100ms"))
    done = Final()
    go = waiting.to(working)
    wake = waiting.after("1s").to(working)
    finish = working.on_done.to(done)


handlers = Handlers()


@handlers
async def work(_work: Work) -> str:
    """Does nothing."""
    return "done"


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    """A server of the test's own, which does not come back."""
    with PostgresServer() as server:
        yield server


@asynccontextmanager
async def synchronous_standby(primary: PostgresServer) -> AsyncIterator[Standby]:
    """A standby for whose disk each commit of the primary waits."""
    with Standby(primary) as standby:
        async with someone(primary.address()) as admin, asyncio.timeout(60):
            await admin.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            await admin.execute("SELECT pg_reload_conf()")
            while not await admin.fetchval(FOLLOWING):
                pass
        yield standby


async def test_a_node_goes_on_when_a_standby_takes_over(primary: PostgresServer) -> None:
    """With both hosts in its address; what was acknowledged is there, timers and work go on."""
    database = primary.new_database()
    async with postgres_database(database) as empty:
        await migrate.up(empty)
    async with synchronous_standby(primary) as standby:
        address = database.replace(
            str(primary.folder), f"{primary.folder},{standby.folder}&target_session_attrs=read-write"
        )
        async with Node(address, [Errand], handlers=handlers, name="mill") as node, asyncio.timeout(60):
            tenant = node.tenant()
            names = [f"e-{number}" for number in range(20)]
            for name in names:
                (await tenant.create(Errand, name)).unwrap()
            primary.kill()
            with pytest.raises(StoreUnavailableError):
                await tenant.send("e-0", Errand.go())
            standby.promote()
            for name in names:
                assert (await tenant.until(name)).states == ("done",)


async def test_a_connection_that_became_read_only_is_replaced(postgres_address: str) -> None:
    """As on a primary that was made a standby without its connections being cut: nothing is lost by it."""
    async with opened(postgres_address) as store:
        await store.run(writing(created=[instance(snapshot="0")]))
        await demote(store)
        await store.run(counted(1))
        await demote(store)
        await store.leases.hold([("", "timers")], "me", 1_000)
        row = await store.instances.get(KEY)
    assert row
    assert row.snapshot == "1"


async def test_a_connection_that_does_not_answer_is_replaced(
    postgres_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a split network: a call waits no longer than a statement may take, and goes on elsewhere."""
    monkeypatch.setattr("headway.store.postgres.connection.LONGEST_STATEMENT", 0.5)
    async with (
        Proxy(postgres_address, tmp_path) as proxy,
        opened(proxy.address) as store,
        asyncio.timeout(60),
    ):
        await store.run(writing(created=[instance(snapshot="0")]))
        for number in range(1, 4):
            proxy.freeze()
            await store.run(counted(1))
            proxy.freeze()
            row = await store.instances.get(KEY)
            assert row
            assert row.snapshot == str(number)


async def test_a_server_that_takes_connections_and_never_answers_is_soon_given_up(
    postgres_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call does not try again when it has waited for as long as connecting may take."""
    for module in ("connection", "database"):
        monkeypatch.setattr(f"headway.store.postgres.{module}.PATIENCE", 0.05)
    came: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_unix_server(lambda _reader, writer: came.append(writer), tmp_path / SOCKET)
    store = PostgresStore(re.sub(r"host=[^&]+", f"host={tmp_path}", postgres_address))
    with pytest.raises(StoreUnavailableError, match="nothing was changed"):
        await store.open()
    assert len(came) == 1
    came[0].close()
    silent.close()


async def demote(store: PostgresStore) -> None:
    """Let all connections refuse changes from now on."""
    for raw in store._database.connections._free:
        await raw.execute(READ_ONLY)
