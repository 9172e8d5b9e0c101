"""Faults: the database goes away, is locked, full or shared, and what nobody can store comes in."""

import asyncio
import sqlite3
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headway import Event, Final, Refusal, Retry, State, Statechart
from headway.engine.engine import Engine
from headway.engine.orders import Receipt
from headway.errors import (
    InputError,
    SchemaError,
    StoreFullError,
    StoreUnavailableError,
    UnknownChartError,
)
from headway.node import Node
from headway.store import migrate
from headway.store.address import database_at, store_at
from headway.store.sqlite.store import SqliteStore
from headway.testing import FakeClock, Harness
from headway.worker import Handlers, Work
from tests.store.postgres_server import PostgresServer


class Errand(Statechart):
    """Waits a moment, then works."""

    waiting = State(initial=True)
    working = State(run="work", retry=Retry(times=None, base="100ms"))
    done = Final()
    go = waiting.to(working)
    wake = waiting.after("300ms").to(working)
    note = waiting.stay()
    finish = working.on_done.to(done)


class Turnstile(Statechart):
    """Can be pushed for ever."""

    shut, open_ = State(initial=True), State()
    push = shut.to(open_) | open_.to(shut)
    hold = shut.stay() | open_.stay()


handlers = Handlers()


@handlers
async def work(_work: Work) -> str:
    """Does nothing, well."""
    return "done"


@pytest.mark.mission("ENG-3", "ENG-9", "ENG-10")
async def test_a_node_goes_on_when_the_database_is_back(
    postgres_server: PostgresServer, postgres_address: str
) -> None:
    """Senders hear whether their event may be in; timers and work go on by themselves."""
    async with Node(postgres_address, [Errand], handlers=handlers) as node:
        tenant = node.tenant()
        for name in ("a", "b"):
            (await tenant.create(Errand, name)).unwrap()
        postgres_server.kill()
        try:
            with pytest.raises(StoreUnavailableError) as raised:
                await tenant.send("a", Errand.note())
            assert "changed" in str(raised.value) or "committed" in str(raised.value)
            with pytest.raises(StoreUnavailableError):
                await tenant.get("a")
        finally:
            postgres_server.start()
        for name in ("a", "b"):
            assert (await tenant.until(name)).states == ("done",)


async def test_a_database_that_is_not_there_is_named_at_the_start(tmp_path: Path) -> None:
    """A server that does not answer, a folder that is none, a file without a schema, no address at all."""
    nobody = Engine(store_at("postgresql://nobody@127.0.0.1:1/none"), [Errand])
    with pytest.raises(StoreUnavailableError, match="nothing was changed"):
        await nobody.open()
    with pytest.raises(StoreUnavailableError):
        await Node(f"sqlite:///{tmp_path}/no/such/folder/x.db", [Errand]).open()
    (tmp_path / "empty.db").touch()
    with pytest.raises(SchemaError, match="headway db up"):
        await Node(f"sqlite:///{tmp_path}/empty.db", [Errand]).open()
    with pytest.raises(InputError, match="no database"):
        Node("mysql://root@host/x")


async def migrated(path: Path) -> str:
    """The address of a migrated file."""
    address = f"sqlite:///{path}/headway.db"
    async with database_at(address, create=True) as opened:
        await migrate.up(opened)
    return address


async def test_a_locked_file_is_an_error_and_then_forgotten(tmp_path: Path) -> None:
    """Whoever waits too long for another process hears that nothing was changed, and may send again."""
    await migrated(tmp_path)
    store = SqliteStore(str(tmp_path / "headway.db"), patience="10ms")
    async with Engine(store, [Turnstile]) as engine:
        await engine.create("t", "i", Turnstile)
        other = sqlite3.connect(tmp_path / "headway.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="nothing was changed"):
            await engine.send("t", "i", Turnstile.push())
        other.execute("ROLLBACK")
        other.close()
        assert isinstance(await engine.send("t", "i", Turnstile.push()), Receipt)


async def test_a_full_disk_is_an_error_and_then_forgotten(tmp_path: Path) -> None:
    """Nothing of the event stays, and what there was can be read."""
    async with Engine(store_at(await migrated(tmp_path)), [Turnstile]) as engine:
        await engine.create("t", "i", Turnstile)
        store: Any = engine.store
        [(pages,)] = await store._database.writer.call(lambda held: held.fetch("PRAGMA page_count"))
        await store._database.writer.call(lambda held: held.fetch(f"PRAGMA max_page_count = {pages}"))
        large = Turnstile.hold({"text": "x" * 100_000})
        with pytest.raises(StoreFullError):
            await engine.send("t", "i", large)
        seq = (await engine.get("t", "i")).seq
        await store._database.writer.call(lambda held: held.fetch("PRAGMA max_page_count = 1000000"))
        receipt = await engine.send("t", "i", Turnstile.push())
        assert isinstance(receipt, Receipt)
        assert receipt.seq == seq + 1


@pytest.mark.mission("ENG-4")
async def test_two_engines_on_one_database_lose_nothing(database: str, clock: FakeClock) -> None:
    """Each push of either goes through once, in one order that the history tells."""
    async with Harness(Turnstile, database=database, clock=clock) as harness:
        await harness.tenant.create(Turnstile, "gate")
        async with Engine(store_at(database, clock=clock), [Turnstile]) as other:
            engines = (harness.node.engine, other)
            pushes = [each.send("default", "gate", Turnstile.push()) for each in engines for _ in range(40)]
            answers = await asyncio.gather(*pushes)
        assert sorted(answer.seq for answer in answers if isinstance(answer, Receipt)) == [*range(2, 82)]
        lines = await harness.tenant.history("gate", limit=200)
        assert [line.seq for line in lines] == [*range(1, 82)]
        assert all(before.after == after.before for before, after in pairwise(lines))


async def test_what_cannot_be_stored_fails_alone(database: str, clock: FakeClock) -> None:
    """Values that are no JSON, and text that a database cannot hold, cost their neighbours nothing."""
    async with Harness(Turnstile, database=database, clock=clock) as harness:
        tenant = harness.tenant
        for name in ("a", "b", "c", "d"):
            await tenant.create(Turnstile, name)
        answers = await asyncio.gather(
            tenant.send("a", Turnstile.hold({"value": object()})),
            tenant.send("b", Turnstile.hold({"value": float("nan")})),
            tenant.send("c", Turnstile.hold({"text": "a\ud800b"})),
            tenant.send("d", Turnstile.push()),
            tenant.create(Turnstile, "nul\0name"),
            return_exceptions=True,
        )
        assert isinstance(answers[3], Receipt)
        for answer in answers[:3]:
            assert isinstance(answer, (InputError, Refusal)), answer
        assert isinstance(answers[4], (InputError, Receipt))
        assert (await tenant.get("a")).seq == 1


async def test_an_instance_of_a_version_that_is_gone_is_told_apart(database: str, clock: FakeClock) -> None:
    """Whoever drops a chart of which instances live hears which one is missing."""
    async with Harness(Turnstile, database=database, clock=clock) as harness:
        await harness.tenant.create(Turnstile, "gate")
    async with Harness(Errand, database=database, clock=clock) as harness:
        with pytest.raises(UnknownChartError, match="Turnstile v1"):
            await harness.tenant.send("gate", Event("push"))
