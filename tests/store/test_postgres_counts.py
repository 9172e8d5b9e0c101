"""StateCounts on PostgreSQL, where the log can be read only up to the oldest transaction under way."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from headway.store.postgres.instances import COUNTS
from headway.store.postgres.store import PostgresStore
from headway.store.queries import EventQuery
from headway.store.rows import StateCount
from tests.store.contract.place import AT, LONG_AGO, NEVER
from tests.store.contract.test_counts import begun, grouped, moved, read_on, totals
from tests.store.postgres_clients import someone

pytestmark = pytest.mark.mission("CON-TELL", "ENG-17")

SECOND = timedelta(seconds=1)


@pytest.fixture
def store(postgres_address: str, runner: asyncio.Runner) -> Iterator[PostgresStore]:
    """A store on a database of its own."""
    store = PostgresStore(postgres_address)
    runner.run(store.open())
    yield store
    runner.run(store.close())


async def test_what_the_log_cannot_show_yet_is_not_counted(
    store: PostgresStore, postgres_address: str
) -> None:
    """Steps after the oldest transaction under way are taken back, in counts and in `oldest`."""
    for n in range(4):
        await store.run(begun(f"i{n}", since=AT + n * SECOND))
    before = await store.instances.counts("acme")
    async with someone(postgres_address) as other:
        transaction = other.transaction()
        await transaction.start()
        await other.fetchval("SELECT pg_current_xact_id()")
        await store.run(moved("i0"))
        await store.run(moved("i0"))
        await store.run(moved("i1", by=3))
        await store.run(moved("i2", by=0, version=2))
        await store.run(begun("late", since=NEVER))
        held = await store.instances.counts("acme")
        page = await store.events.page(EventQuery(after=held.cursor))
        assert not page.events
        assert page.held_back
        assert (
            {*held.items}
            == {*before.items}
            == {StateCount("expense", 1, "draft", ended=False, count=4, oldest=AT)}
        )
        assert await grouped(store) != totals(held)
        await transaction.rollback()
    assert await read_on(store, held) == await read_on(store, before) == await grouped(store)
    assert totals(await store.instances.counts("acme")) == await grouped(store)


async def test_what_is_pruned_behind_an_open_transaction_still_counts(
    store: PostgresStore, postgres_address: str
) -> None:
    """Until the log can show that it is gone."""
    for name in ("i1", "i2"):
        await store.run(begun(name, since=LONG_AGO))
        await store.run(moved(name, by=3))
    async with someone(postgres_address) as other:
        transaction = other.transaction()
        await transaction.start()
        await other.fetchval("SELECT pg_current_xact_id()")
        assert await store.instances.prune(NEVER, 1) == 1
        held = await store.instances.counts("acme")
        assert totals(held) == {("expense", 1, "paid"): 2}
        await transaction.rollback()
    assert await read_on(store, held) == await grouped(store) == {("expense", 1, "paid"): 1}


async def test_counts_read_the_index_and_the_end_of_the_log(store: PostgresStore) -> None:
    """Also by a plan that was made while the tables were empty."""
    plan = "\n".join(line for (line,) in await store._database.fetch(f"EXPLAIN {COUNTS}", "acme"))
    for index in ("instance_by_states", "instance_ended_by_states", "history_pkey", "outbox_live"):
        assert index in plan, plan
    assert "Seq Scan" not in plan, plan
