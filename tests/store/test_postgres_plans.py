"""How the PostgreSQL store finds its rows, also by plans that were made while there were none."""

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from headway.codec import replace
from headway.store import migrate
from headway.store.postgres import asks as postgres_asks
from headway.store.postgres import instances as postgres_instances
from headway.store.postgres import leases as postgres_leases
from headway.store.postgres import work as postgres_work
from headway.store.postgres import writes as postgres_writes
from headway.store.postgres.history import page_of_events
from headway.store.postgres.letters import page_of_letters
from headway.store.postgres.messages import SETTLE, settling
from headway.store.postgres.reads import reading
from headway.store.postgres.store import PostgresStore, postgres_database
from headway.store.postgres.timers import NEXT_TIMER
from headway.store.queries import (
    EventQuery,
    InstanceQuery,
    LetterQuery,
    Settlement,
    WorkQuery,
)
from headway.store.rows import Cursor
from headway.store.unit import Reads
from tests.store.contract.acts import KEY, counted, found, writing
from tests.store.contract.place import HISTORY, LONG_AGO, NEVER, instance, letter
from tests.store.contract.test_events import THERE
from tests.store.contract.test_events_live import FILTERS, LATER, STEPS, log_from, said, take_steps
from tests.store.contract.test_letters import due, keep
from tests.store.postgres_clients import opened, someone
from tests.store.postgres_server import PostgresServer

pytestmark = pytest.mark.mission("ENG-3", "ENG-17")

PRIMARY_KEYS = re.compile(r"\w+_pkey|outbox_live|letter_waiting")
"""With those that are in their place for the live messages in the log of events and for letters in line."""
INDEX_USED = re.compile(r"(?:Index Scan(?: Backward)?|Index Only Scan(?: Backward)?) (?:using|on) (\w+)")
ATTEMPTS = [("acme", "w1", 1)]
LISTS: list[Any] = [[] for _ in postgres_writes.WRITES]

BY_KEY: dict[str, tuple[str, list[Any]]] = {
    "what a unit reads": reading(
        Reads(instances={KEY}, requests={KEY}, counters={KEY}, records={("acme", "plan", "p1")}), lock=False
    ),
    "what a unit locks": reading(Reads(instances={KEY}, counters={KEY}), lock=True),
    "what a unit writes": (
        postgres_writes.statement((*postgres_writes.WRITES,)),
        [datetime.now(UTC), 0, *LISTS],
    ),
    "an instance": (postgres_instances.ONE_INSTANCE, [*KEY]),
    "an ask": (postgres_asks.ONE_ASK, [*KEY]),
    "a lease": (postgres_leases.ONE_LEASE, [*KEY]),
    "work": postgres_work.page_of_work(WorkQuery("acme", ids=("w1", "w2"))),
    "work to extend": (postgres_work.EXTEND, [None, "w", ATTEMPTS]),
    "work to release": (postgres_work.RELEASE, [None, "w", ATTEMPTS, None]),
    "work to check": (postgres_work.CHECKPOINT, [None, "w", ATTEMPTS, "data"]),
    "letters that arrived": (SETTLE, settling(Settlement("c", "w", Cursor(), (), (1, 2)), None)),
    "events": page_of_events(EventQuery()),
}
IN_ORDER: dict[str, tuple[str, list[Any], str]] = {
    "all instances": (*postgres_instances.page_of_instances(InstanceQuery("acme")), "instance_in_order"),
    "instances by status": (
        *postgres_instances.page_of_instances(InstanceQuery("acme", chart="c", status="s")),
        "instance_by_status",
    ),
    "living instances": (
        *postgres_instances.page_of_instances(InstanceQuery("acme", ended=False)),
        "instance_by_states",
    ),
    "living instances of a chart": (
        *postgres_instances.page_of_instances(InstanceQuery("acme", chart="c", ended=False)),
        "instance_by_states",
    ),
    "old instances": (
        postgres_instances.PRUNE_INSTANCES,
        [datetime.now(UTC), 10, "c", None],
        "instance_ended",
    ),
    "the next timer": (NEXT_TIMER, [[("c", 1)]], "timer_by_due"),
    "letters that are due": (
        *page_of_letters(LetterQuery("d", dead=False, due=True), None),
        "letter_due",
    ),
}


@pytest.fixture(scope="module")
def empty_address(postgres_server: PostgresServer) -> str:
    """A database that PostgreSQL knows to be empty, so that all plans seem to cost the same."""
    return made(postgres_server)


@pytest.fixture
def new_address(postgres_server: PostgresServer) -> str:
    """One in which no rows have been, so that no index has entries of rows that are gone."""
    return made(postgres_server)


def made(postgres_server: PostgresServer) -> str:
    """A new database."""
    address = postgres_server.new_database()

    async def make() -> None:
        async with postgres_database(address) as database:
            await migrate.up(database)
        async with someone(address) as admin:
            await admin.execute("VACUUM ANALYZE")

    asyncio.run(make())
    return address


@pytest.fixture
def empty(empty_address: str, runner: asyncio.Runner) -> Iterator[PostgresStore]:
    """A store on it."""
    store = PostgresStore(empty_address)
    runner.run(store.open())
    yield store
    runner.run(store.close())


async def plan_of(store: PostgresStore, sql: str, values: list[Any]) -> str:
    """How the database would run a statement."""
    return "\n".join(line for (line,) in await store._database.fetch(f"EXPLAIN {sql}", *values))


@pytest.mark.parametrize(("sql", "values"), BY_KEY.values(), ids=BY_KEY)
async def test_a_look_up_by_key_takes_the_primary_key(
    empty: PostgresStore, sql: str, values: list[Any]
) -> None:
    """No index for lists tempts it, even while the tables are empty: a plan outlives that."""
    plan = await plan_of(empty, sql, values)
    used = INDEX_USED.findall(plan)
    assert used, plan
    assert all(PRIMARY_KEYS.fullmatch(name) for name in used), plan
    assert "Seq Scan" not in plan
    assert plan.count("Index Cond") == len(used), plan


@pytest.mark.parametrize(("sql", "values", "index"), IN_ORDER.values(), ids=IN_ORDER)
async def test_a_list_takes_its_index(empty: PostgresStore, sql: str, values: list[Any], index: str) -> None:
    """What keeps others from it does not keep those whom it is for."""
    plan = await plan_of(empty, sql, values)
    assert index in INDEX_USED.findall(plan), plan
    assert "Seq Scan" not in plan, plan


async def test_a_plan_made_for_an_empty_table_is_good_for_a_full_one(empty_address: str) -> None:
    """Of many instances, a unit reads the entries of those that it wants."""
    tenant = [instance(f"i{n}", snapshot="0") for n in range(2_000)]
    wanted = {("acme", f"i{n}") for n in range(0, 2_000, 100)}
    async with opened(empty_address, pool_size=1) as store:
        await found(store, instances=wanted)
        await store.run(writing(created=tenant))
        before = await _entries_read(store)
        assert len((await found(store, instances=wanted)).instances) == len(wanted)
        assert await _entries_read(store) - before <= 2 * len(wanted)


async def test_a_step_that_keeps_the_status_writes_no_index(postgres_address: str) -> None:
    """PostgreSQL puts the next version beside the last one and leaves all indexes as they are."""
    async with opened(postgres_address, pool_size=1) as store:
        await store.run(writing(created=[instance(snapshot="0", owner="ann", parent="p")]))
        before = await _steps(store)
        for n in range(10):
            unit = counted(1)
            await store.run(unit)
            assert unit.found
            row = unit.found.instances[KEY]
            await store.run(writing(updated=[replace(row, snapshot=str(n), updated_at=unit.found.now)]))
        after = await _steps(store)
    changed, in_place = (new - old for new, old in zip(after, before, strict=True))
    assert changed == 20
    assert in_place >= 18  # when a page is full, the next version goes to another


@pytest.mark.parametrize("lines", [1, 20, 2_000])
async def test_letters_that_wait_are_not_looked_at_for_those_that_are_due(
    new_address: str, lines: int
) -> None:
    """Neither what waits behind the first of its instance, nor a first that is not due yet."""
    rows = [
        letter(n, instance=f"i{n % lines}", due=NEVER if n <= lines else LONG_AGO) for n in range(1, 2_001)
    ]
    async with opened(new_address, pool_size=1) as store:
        await keep(store, *rows)
        before = await _entries_read(store, "letter")
        assert await due(store) == []
        assert await _entries_read(store, "letter") - before <= 20
        await keep(store, delivered=(1,))
        before = await _entries_read(store, "letter")
        assert await due(store) == ([1 + lines] if lines < 2_000 else [])
        assert await _entries_read(store, "letter") - before <= 20


@pytest.mark.mission("ENG-15")
async def test_a_page_of_events_for_somebody_looks_at_a_part_of_the_log(
    new_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is behind and wants little of it comes forward page by page."""
    monkeypatch.setattr("headway.store.postgres.history.WINDOW", 50)
    async with opened(new_address, pool_size=1) as store:
        await store.run(writing(created=[instance()], history=[HISTORY] * 2_000))
        query, pages = EventQuery(tenant="acme", owner="nobody", limit=10), 0
        while True:
            before = await _entries_read(store, "history")
            page = await store.events.page(query)
            assert await _entries_read(store, "history") - before <= 120
            pages += 1
            assert not page.events
            assert page.cursor > query.after
            if page.complete:
                break
            query = replace(query, after=page.cursor)
        assert pages == 41


@pytest.mark.mission("ENG-15")
@pytest.mark.parametrize(("wanted", "expected"), FILTERS, ids=str)
async def test_no_event_falls_between_two_parts_of_the_log(
    postgres_address: str, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, Any], expected: str
) -> None:
    """Wherever a part ends: among lines, among live messages, or between them."""
    async with opened(postgres_address, pool_size=1) as store:
        await store.run(writing(created=THERE))
        await take_steps(store, [*STEPS, *LATER])
        for limit, window in product((1, 2, 3), (1, 2, 3)):
            monkeypatch.setattr("headway.store.postgres.history.WINDOW", window)
            assert said(await log_from(store, Cursor(), limit=limit, **wanted)) == expected


async def _entries_read(store: PostgresStore, table: str = "instance") -> int:
    await store._database.fetch("SELECT pg_stat_force_next_flush()")
    [(count,)] = await store._database.fetch(
        "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = $1", table
    )
    return int(count)


async def _steps(store: PostgresStore) -> tuple[int, int]:
    await store._database.fetch("SELECT pg_stat_force_next_flush()")
    [counts] = await store._database.fetch(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'instance'"
    )
    return counts[0], counts[1]
