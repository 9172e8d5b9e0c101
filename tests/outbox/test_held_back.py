"""A transaction that stays open holds the log back on PostgreSQL: that is seen and said."""

import asyncio
from collections.abc import Iterator

import pytest

from headway.engine.engine import Engine
from headway.engine.tail import Tail
from headway.store.postgres.store import PostgresStore
from headway.testing import FakeClock
from tests.engine.tailing import Visit, visit
from tests.outbox.world import Reader, publish, relay_to
from tests.store.postgres_clients import someone

pytestmark = pytest.mark.mission("ENG-5", "ENG-15", "ENG-16")


@pytest.fixture
def store(postgres_address: str, clock: FakeClock, runner: asyncio.Runner) -> Iterator[PostgresStore]:
    """An opened store whose time is the test's."""
    store = PostgresStore(postgres_address, clock=clock)
    runner.run(store.open())
    yield store
    runner.run(store.close())


async def test_what_is_held_back_counts_as_waiting(
    store: PostgresStore, postgres_address: str, clock: FakeClock
) -> None:
    """The lag of a relay that can do nothing is not zero, and it has missed nothing afterwards."""
    reader = Reader()
    relay = relay_to(store, reader)
    await relay.take_up()
    async with someone(postgres_address) as other:
        async with other.transaction():
            await other.fetch("SELECT pg_current_xact_id()")
            await publish(store, "a", "one")
            clock.advance("1h")
            await relay.turn()
            assert not reader.names
            assert await relay.lag() == pytest.approx(3_600, abs=1)
            assert await relay.lag("somebody else") == 0
        await relay.turn()
    assert reader.names == ["one"]
    assert await relay.lag() == 0


async def test_a_log_that_is_held_back_for_long_is_told_of_once(
    store: PostgresStore,
    postgres_address: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not while it goes on, and again only when it has gone on in between."""
    monkeypatch.setattr("headway.engine.tail.LONG_HELD_BACK", 0.0)
    engine = Engine(store, [Visit])
    await engine.open()
    tail = Tail(engine)
    async with tail.follow(), someone(postgres_address) as other:
        for said in (1, 2):
            await visit(engine, f"a{said}")
            await tail.turn()
            async with other.transaction():
                await other.fetch("SELECT pg_current_xact_id()")
                await visit(engine, f"b{said}")
                for _ in range(5):
                    await tail.turn()
            assert len(caplog.messages) == said
            await tail.turn()
    assert "holds the log back" in caplog.text
