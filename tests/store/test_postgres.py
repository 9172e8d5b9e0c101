"""The PostgreSQL store: what only a server, a network and many nodes can do to it."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest

from headway.clock import SystemClock
from headway.codec import replace
from headway.errors import InputError, SchemaError, StoreFullError, StoreUnavailableError
from headway.store import migrate
from headway.store.postgres import writes as postgres_writes
from headway.store.postgres.asks import page_of_asks
from headway.store.postgres.claims import CLAIM, CLAIM_LIMITED
from headway.store.postgres.connection import Connection
from headway.store.postgres.instances import PRUNE_INSTANCES, page_of_instances
from headway.store.postgres.letters import page_of_letters, redriving
from headway.store.postgres.memory import NodeMemory
from headway.store.postgres.messages import NEXT, PRUNE_MESSAGES, page_of_messages
from headway.store.postgres.reads import reading
from headway.store.postgres.store import PostgresStore, postgres_database
from headway.store.postgres.unit import UnitAttempt
from headway.store.postgres.work import EXPIRED as EXPIRED_WORK
from headway.store.postgres.work import NEXT as NEXT_WORK
from headway.store.queries import AskQuery, Claim, InstanceQuery, LetterQuery, MessageQuery
from headway.store.rows import AskChange, AskClosing, Cursor, Key
from headway.store.unit import Changes, ConflictError, Found, Reads
from headway.testing import FakeClock
from tests.store.contract.acts import KEY, Act, Transfer, counted, found, writing
from tests.store.contract.place import (
    ASK,
    HISTORY,
    INSTANCE,
    KNOWN,
    MESSAGE,
    RECORD,
    REQUEST,
    TIMER,
    WORK,
    instance,
    work,
)
from tests.store.postgres_clients import WAITING, opened, someone, until_waiting
from tests.store.postgres_server import PostgresServer

pytestmark = pytest.mark.mission("ENG-3", "ENG-4", "ENG-17")

COUNTER = ("acme", "n")
PLAN = ("acme", "plan", "p1")
FEW = {"created": INSTANCE, "timers": TIMER, "work": WORK, "asks": ASK}
LOCK_ROWS = "SELECT FROM instance FOR UPDATE"
LOCK_TABLE = "LOCK TABLE instance"
LOOKS_FOR_DEADLOCKS = "3s"
"""After so long, once, who waits for a lock: what makes the circle must have happened by then."""


@pytest.fixture
def store(postgres_address: str, runner: asyncio.Runner) -> Iterator[PostgresStore]:
    """An opened store."""
    store = PostgresStore(postgres_address)
    runner.run(store.open())
    yield store
    runner.run(store.close())


async def test_a_killed_server_is_an_error_and_then_forgotten(
    postgres_server: PostgresServer, store: PostgresStore, postgres_address: str
) -> None:
    """While it is down a unit fails with nothing changed; when it is back the same store goes on."""
    await store.run(writing(created=[instance(snapshot="0")]))
    async with opened(postgres_address) as node:
        postgres_server.kill()
        try:
            with pytest.raises(StoreUnavailableError) as raised:
                await node.run(counted(1))
            with pytest.raises(StoreUnavailableError):
                await node.instances.get(KEY)
        finally:
            postgres_server.start()
        assert not raised.value.maybe_committed
        await node.run(counted(1))
        row = await node.instances.get(KEY)
    assert row
    assert row.snapshot == "1"


@pytest.mark.parametrize("lock", [LOCK_TABLE, LOCK_ROWS], ids=["read", "write"])
async def test_a_unit_cut_off_says_whether_it_may_be_committed(
    postgres_server: PostgresServer, store: PostgresStore, postgres_address: str, lock: str
) -> None:
    """A server that dies while a unit reads has committed nothing; while it writes, nobody can know."""
    await store.run(writing(created=[instance(snapshot="0")]))
    async with opened(postgres_address) as node, someone(postgres_address) as other:
        await other.execute(f"BEGIN; {lock}")
        unit = asyncio.create_task(node.run(counted(1)))
        await until_waiting(postgres_address)
        postgres_server.kill()
        try:
            with pytest.raises(StoreUnavailableError) as raised:
                await unit
        finally:
            postgres_server.start()
    maybe = lock == LOCK_ROWS
    assert raised.value.maybe_committed is maybe
    assert ("may have been committed" in str(raised.value)) is maybe
    assert await store.instances.get(KEY) == instance(snapshot="0")


async def test_a_connection_cut_by_the_server_is_made_anew(
    store: PostgresStore, postgres_address: str
) -> None:
    """An administrator who ends all connections is not noticed by the next unit."""
    await store.run(writing(created=[instance(snapshot="0")]))
    async with someone(postgres_address) as admin:
        await admin.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'headway'"
        )
    await store.run(counted(1))
    assert (await found(store, instances={KEY})).instances[KEY].snapshot == "1"


async def test_a_deadlock_is_resolved_by_starting_over(store: PostgresStore, postgres_address: str) -> None:
    """A unit that is chosen to give way begins again, and its change is made once."""

    class Counting(Transfer):
        begun = 0
        again = asyncio.Event()

        def begin(self) -> Reads:
            self.begun += 1
            if self.begun > 1:
                self.again.set()
            return super().begin()

    await store.run(writing(created=[instance("a", snapshot="0"), instance("b", snapshot="0")]))
    unit = Counting("a", "b")
    async with (
        asyncio.timeout(120),
        opened(f"{postgres_address}&deadlock_timeout={LOOKS_FOR_DEADLOCKS}") as node,
        someone(postgres_address) as first,
        someone(postgres_address) as second,
    ):
        await first.execute("BEGIN; UPDATE instance SET seq = seq WHERE id = 'a'")
        await second.execute(
            "SET deadlock_timeout = '1h'; BEGIN; SELECT FROM instance WHERE id = 'b' FOR KEY SHARE"
        )
        task = asyncio.create_task(node.run(unit))
        await until_waiting(postgres_address)  # for a, which it has read without a lock
        await first.execute("COMMIT")
        await unit.again.wait()
        while not await first.fetchval(WAITING):  # for b, now that it holds a
            pass
        await second.execute("SELECT FROM instance WHERE id = 'a' FOR UPDATE; COMMIT")
        await task
    assert unit.begun == 3
    rows = [await store.instances.get(("acme", name)) for name in "ab"]
    assert [row.snapshot for row in rows if row] == ["-1", "1"]


async def test_a_unit_takes_two_round_trips_or_one(
    store: PostgresStore, postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One to read and one to write all that a transition leaves behind; none to read what is remembered."""
    await store.run(writing(created=[instance(snapshot="0")]))
    statements: list[str] = []
    fetch = Connection.fetch

    async def counting(self: Connection, sql: str, *values: Any, **options: Any) -> list[Any]:
        statements.append(sql)
        return await fetch(self, sql, *values, **options)

    def transition(request: str) -> Act:
        def decide(seen: Found) -> Changes:
            lists = Changes(history=[HISTORY], timers=[TIMER], work=[WORK], asks=[ASK], messages=[MESSAGE])
            lists.updated = [*seen.instances.values()]
            lists.requests = [replace(REQUEST, key=request)]
            return lists

        return Act(decide, lambda: Reads(instances={KEY}, requests={("acme", request)}))

    async with opened(postgres_address) as node:
        monkeypatch.setattr(Connection, "fetch", counting)
        await node.run(transition("r1"))
        assert len(statements) == 2
        await node.run(transition("r2"))
        assert len(statements) == 3


async def test_a_unit_that_meets_another_node_starts_over_once(
    store: PostgresStore, postgres_address: str
) -> None:
    """What it has seen is checked when it writes; the second attempt holds locks and cannot be disturbed."""
    await store.run(writing(created=[instance(snapshot="0")]))
    unit = counted(1)
    async with someone(postgres_address) as other:
        await other.execute("BEGIN; UPDATE instance SET snapshot = '40'")
        task = asyncio.create_task(store.run(unit))
        await until_waiting(postgres_address)
        await other.execute("COMMIT")
        await task
    assert unit.begun == 2
    assert (await found(store, instances={KEY})).instances[KEY].snapshot == "41"


async def test_200_units_of_two_nodes_on_one_instance_lose_nothing(
    store: PostgresStore, postgres_address: str
) -> None:
    """Every unit builds on the one before it, whichever node it runs on."""
    await store.run(writing(created=[instance(snapshot="0")]))
    async with opened(postgres_address) as second:
        await asyncio.gather(*(node.run(counted(1)) for _ in range(100) for node in (store, second)))
    assert (await found(store, instances={KEY})).instances[KEY].snapshot == "200"


def _if_free(seen: Found) -> Changes:
    return Changes() if seen.counters.get(COUNTER) else Changes(messages=[MESSAGE], counters={COUNTER: 1})


def _one_more(seen: Found) -> Changes:
    row = seen.records.get(PLAN, replace(RECORD, data="0"))
    return Changes(records=[replace(row, data=str(int(row.data) + 1))])


async def test_units_that_will_want_the_same_take_turns(store: PostgresStore) -> None:
    """Each is decided once: none has to start over because another was at what it wants in the end."""

    class Into(Transfer):
        begun = 0

        def begin(self) -> Reads:
            self.begun += 1
            reads = super().begin()
            reads.soon = {("acme", "all")}
            return reads

    names = [f"i{number}" for number in range(8)]
    rows = [replace(INSTANCE, id=name, snapshot="1") for name in (*names, "all")]
    await store.run(writing(created=rows))
    units = [Into(name, "all") for name in names]
    await asyncio.gather(*map(store.run, units))
    assert [unit.begun for unit in units] == [1] * len(units)
    assert (await found(store, instances={("acme", "all")})).instances["acme", "all"].snapshot == "9"


@pytest.mark.parametrize(
    ("decide", "expected"),
    [(_if_free, ({COUNTER: 1}, [])), (_one_more, ({}, ["20"]))],
    ids=["counter", "record"],
)
async def test_nodes_that_find_nothing_do_not_both_go_first(
    store: PostgresStore,
    postgres_address: str,
    decide: Callable[[Found], Changes],
    expected: tuple[dict[Key, int], list[str]],
) -> None:
    """A limit holds and no update is lost even where there is no row yet that could be locked."""

    def wanted() -> Reads:
        return Reads(counters={COUNTER}, records={PLAN})

    async with opened(postgres_address) as second:
        await asyncio.gather(*(node.run(Act(decide, wanted)) for _ in range(10) for node in (store, second)))
    seen = await found(store, counters={COUNTER}, records={PLAN})
    assert (seen.counters, [row.data for row in seen.records.values()]) == expected


@pytest.mark.mission("ENG-10")
async def test_a_node_with_a_wrong_clock_agrees_with_the_others(
    store: PostgresStore, postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units, leases and timers go by the database's time."""
    monkeypatch.setattr(SystemClock, "now", lambda _: datetime(1999, 1, 1, tzinfo=UTC))
    async with someone(postgres_address) as other:
        before = await other.fetchval("SELECT clock_timestamp()")
        unit = writing(work=[work(due=before)], timers=[replace(TIMER, due=before)])
        await store.run(unit)
        [row] = await store.work.claim(Claim("w", ("default",), 1, KNOWN))
        after = await other.fetchval("SELECT clock_timestamp()")
    assert unit.found
    assert row.started_at
    assert before <= unit.found.now <= row.started_at <= after
    assert row.leased_until == row.started_at + timedelta(milliseconds=row.lease)
    assert len(await store.timers.due(10, KNOWN)) == 1


async def test_a_test_may_bring_its_own_clock(postgres_address: str) -> None:
    """Then everything goes by that one."""
    clock = FakeClock()
    async with opened(postgres_address, clock=clock) as store:
        unit = writing(work=[work(due=clock.now())], timers=[replace(TIMER, due=clock.now() + timedelta(1))])
        await store.run(unit)
        [row] = await store.work.claim(Claim("w", ("default",), 1, KNOWN))
        assert unit.found
        assert unit.found.now == row.started_at == await store.now() == clock.now()
        assert not await store.timers.due(1, KNOWN)
        clock.advance("1d")
        assert await store.timers.due(1, KNOWN)
        assert await store.work.expired(1, KNOWN)


async def test_a_full_disk_is_an_error_of_its_own(store: PostgresStore, postgres_address: str) -> None:
    """Nothing of the unit is written when the server finds no room for its last row."""
    async with someone(postgres_address) as admin:
        await admin.execute("""
            CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
            CREATE TRIGGER full_disk BEFORE INSERT ON outbox EXECUTE FUNCTION full_disk();
        """)
        try:
            with pytest.raises(StoreFullError, match="no room left"):
                await store.run(writing(created=[INSTANCE], messages=[MESSAGE]))
        finally:
            await admin.execute("DROP FUNCTION full_disk CASCADE")
    assert await store.instances.get(KEY) is None


@pytest.mark.parametrize(
    "row",
    [
        instance("nul\0"),
        instance("half \ud800"),
        instance(seq=2**63),
        instance("".join(chr(0x4E00 + n % 9973 * 2) for n in range(5_000))),
    ],
    ids=["nul", "surrogate", "number", "long id"],
)
async def test_what_cannot_be_stored_is_the_callers_error(store: PostgresStore, row: Any) -> None:
    """The unit is refused whole, and the store goes on."""
    with pytest.raises(InputError, match="cannot hold"):
        await store.run(writing(created=[INSTANCE, row]))
    assert await store.instances.get(KEY) is None
    await store.run(writing(created=[INSTANCE]))


UNFIT = {"nul": "nul\0", "surrogate": "half \ud800"}
Call = Callable[[PostgresStore, str], Awaitable[Any]]
CALLS: dict[str, Call] = {
    "read": lambda store, text: found(store, instances={("acme", text)}),
    "history": lambda store, text: store.run(writing(history=[replace(HISTORY, data=text)])),
    "timer": lambda store, text: store.run(writing(timers=[replace(TIMER, event=text)])),
    "work": lambda store, text: store.run(writing(work=[work(concurrency=text)])),
    "work gone": lambda store, text: store.run(writing(work_gone=[("acme", text)])),
    "ask": lambda store, text: store.run(writing(asks=[replace(ASK, roles=(text,))])),
    "ask change": lambda store, text: store.run(writing(asks_changed=[AskChange("acme", "a", (text,))])),
    "ask closing": lambda store, text: store.run(
        writing(asks_closed=[AskClosing("acme", "a", datetime.now(UTC), text, "e")])
    ),
    "message": lambda store, text: store.run(writing(messages=[replace(MESSAGE, data=text)])),
    "request": lambda store, text: store.run(writing(requests=[replace(REQUEST, answer=text)])),
    "record": lambda store, text: store.run(writing(records=[replace(RECORD, data=text)])),
    "counter": lambda store, text: store.run(writing(counters={("acme", text): 1})),
    "claim": lambda store, text: store.work.claim(Claim(text, ("default",), 1, KNOWN)),
    "checkpoint": lambda store, text: store.work.checkpoint("w", ("acme", "w1", 1), text),
    "hold": lambda store, text: store.leases.hold([("acme", text)], "w", 1),
    "list": lambda store, text: store.asks.page(AskQuery("acme", roles=(text,))),
    "announce": lambda store, text: store.announce([text]),
}


@pytest.mark.parametrize("text", UNFIT.values(), ids=UNFIT)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_text_that_cannot_be_stored_is_the_callers_error_everywhere(
    store: PostgresStore, call: Call, text: str
) -> None:
    """No call takes it for a fault of the store, which goes on with the next one."""
    with pytest.raises(InputError):
        await call(store, text)
    await call(store, "text")


async def test_a_database_without_a_schema_names_the_command(postgres_server: PostgresServer) -> None:
    """A store does not open there, and leaves no connection behind."""
    store = PostgresStore(postgres_server.new_database())
    with pytest.raises(SchemaError, match="headway db up"):
        await store.open()
    with pytest.raises(StoreUnavailableError, match="not open: write `async with Node"):
        await store.now()


@pytest.mark.parametrize(
    "address", ["postgresql://headway@/x?host=/nonexistent", "nonsense", "postgresql://headway@127.0.0.1:1/x"]
)
async def test_a_database_that_is_not_there_is_unavailable(address: str) -> None:
    """So is one that nobody can make sense of."""
    with pytest.raises(StoreUnavailableError):
        await PostgresStore(address).open()


async def test_the_schema_can_be_taken_back(postgres_server: PostgresServer) -> None:
    """The way down leaves nothing, so the way up works again."""
    async with postgres_database(postgres_server.new_database()) as database:
        for _ in range(2):
            await migrate.up(database)
            await migrate.down(database, 0)
            left = await database.fetch(
                "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
                " UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
                " UNION ALL SELECT typname FROM pg_type WHERE typnamespace = 'public'::regnamespace"
                " AND typname NOT LIKE '%schema_version'"
            )
            assert [name for (name,) in left] == ["schema_version"]


async def test_statements_do_not_pile_up(postgres_address: str) -> None:
    """Every combination of changes is a statement of its own, but neither node nor server keeps them all."""
    lists: dict[str, Any] = {
        "history": [HISTORY],
        "timers": [TIMER],
        "timers_gone": [("acme", "t2")],
        "work": [WORK],
        "work_gone": [("acme", "w2")],
        "asks": [ASK],
        "messages": [MESSAGE],
        "records": [RECORD],
    }
    some = [names for count in range(1, 5) for names in combinations(lists, count)]
    async with opened(postgres_address, pool_size=1) as store:
        for names in some:
            await store.run(writing(**{name: lists[name] for name in names}))
        [(kept,)] = await store._database.fetch("SELECT count(*) FROM pg_prepared_statements")
    assert len(some) > 150 > kept
    for names in combinations(postgres_writes.WRITES, 2):
        postgres_writes.statement(names)
    for names in combinations(postgres_writes.WRITES, 3):
        postgres_writes.statement(names)
    assert postgres_writes.statement.cache_info().currsize == postgres_writes.STATEMENTS_KEPT


async def test_rows_are_found_by_their_keys(store: PostgresStore, postgres_address: str) -> None:
    """No statement of a unit looks through a table, even one that the planner believes to be small."""
    await store.run(
        writing(**{name: [replace(row, id=f"x{n}") for n in range(30)] for name, row in FEW.items()})
    )
    async with someone(postgres_address) as admin:
        await admin.execute("VACUUM FULL ANALYZE")  # what other tests have left must not count
    keys = {KEY}
    read, values = reading(Reads(instances=keys, requests=keys, counters=keys, records={PLAN}), lock=True)
    plan = await store._database.fetch(f"EXPLAIN {read}", *values)
    write = postgres_writes.statement((*postgres_writes.WRITES,))
    lists: list[Any] = [[] for _ in postgres_writes.WRITES]
    plan += await store._database.fetch(f"EXPLAIN {write}", datetime.now(UTC), 0, *lists)
    claim = (None, "w", ["default"], None, None, 10, "", [*KNOWN])
    plan += await store._database.fetch(f"EXPLAIN {CLAIM}", *claim)
    plan += await store._database.fetch(f"EXPLAIN {CLAIM_LIMITED}", *claim, [])
    lines = [line.strip(" ->") for (line,) in plan]
    scans = [line for line in lines if line.startswith(("Index Scan", "Index Only", "Tid", "Seq", "Bitmap"))]
    by_key = [line for line in lines if line.startswith(("Index Cond", "TID Cond"))]
    assert len(scans) == len(by_key) == 38, "\n".join(lines)


PAGES: dict[str, tuple[str, list[Any]]] = {
    "instances of an owner": page_of_instances(InstanceQuery("acme", owner="ann")),
    "instances after one": page_of_instances(InstanceQuery("acme", chart="c", status="s", after="i")),
    "inbox": page_of_asks(AskQuery("acme", roles=("manager",), person="bob")),
    "inbox after one": page_of_asks(AskQuery("acme", roles=("manager",), after="a1")),
    "open asks": page_of_asks(AskQuery("acme", after="a1")),
    "asks of an instance": page_of_asks(AskQuery("acme", instance="i1", roles=("manager",))),
    "closed asks": page_of_asks(AskQuery("acme", open=False, after="a1")),
    "messages": page_of_messages(MessageQuery(Cursor(1, 1), kinds=("emit",), tenant="acme"), Cursor(2, 9)),
    "next messages": (NEXT, [1, 1, 100, None]),
    "letters": page_of_letters(LetterQuery("hook", dead=True, after=5), None),
    "letters that are due": page_of_letters(LetterQuery("hook", due=True), None),
    "letters to redrive": redriving(LetterQuery("hook"), None),
    "expired work": (EXPIRED_WORK, [None, 10, [*KNOWN]]),
    "next work": (NEXT_WORK, [None]),
    "old instances": (PRUNE_INSTANCES, [datetime.now(UTC), 10, None, datetime.now(UTC)]),
}


@pytest.mark.parametrize(("sql", "values"), PAGES.values(), ids=PAGES)
async def test_pages_come_from_an_index(store: PostgresStore, sql: str, values: list[Any]) -> None:
    """In its order, so that the first page of a long list costs what the page costs."""
    plan = "\n".join(line for (line,) in await store._database.fetch(f"EXPLAIN {sql}", *values))
    assert "Seq Scan" not in plan, plan
    assert "Index" in plan
    sorted_whole = "Sort" in plan and not ("Limit" in plan and plan.index("Sort") < plan.rindex("Limit"))
    assert not sorted_whole, plan


async def test_old_messages_are_found_without_the_new_ones(
    store: PostgresStore, postgres_address: str
) -> None:
    """Pruning reads the oldest part of the log, however long the rest is."""
    now = await store.now()
    old = [replace(MESSAGE, id=f"o{n}", at=now - timedelta(days=9)) for n in range(50)]
    new = [replace(MESSAGE, id=f"n{n}", at=now, data="x" * 500) for n in range(10_000)]
    await store.run(writing(messages=[*old, *new]))
    async with someone(postgres_address) as admin:
        await admin.execute("VACUUM ANALYZE outbox")
    sql = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {PRUNE_MESSAGES}"
    [(answer,)] = await store._database.fetch(sql, now - timedelta(days=1), 1_000)
    assert json.loads(answer)[0]["Plan"]["Shared Hit Blocks"] < 300
    assert await store.messages.prune(now - timedelta(days=1), 1_000) == 0
    assert await store.messages.prune(now + timedelta(days=1), 10_000) == 10_000


async def test_a_row_that_took_the_place_of_another_is_not_mistaken_for_it(
    store: PostgresStore, postgres_address: str
) -> None:
    """A unit writes to the version it has seen, not to whatever stands there now."""
    async with store._database.connections.connection() as connection, someone(postgres_address) as other:
        await other.execute("VACUUM FULL instance")  # so that the first place is the next to be taken
        await store.run(writing(created=[instance(snapshot="0")]))
        attempt = UnitAttempt(connection, NodeMemory(lambda: None), lock=False)
        unit = counted(1)
        await attempt.decide(unit, unit.begin())
        place = await other.fetchval("SELECT ctid FROM instance")
        await other.execute("UPDATE instance SET status = 'gone on'")
        await other.execute("VACUUM instance")
        for n in range(2_000):
            await store.run(writing(created=[instance(f"n{n}")]))
            if await other.fetchval("SELECT id FROM instance WHERE ctid = $1", place):
                break
        assert await other.fetchval("SELECT id FROM instance WHERE ctid = $1", place) == f"n{n}"
        with pytest.raises(ConflictError):
            await attempt.write(unit.changes())


@pytest.mark.mission("ENG-6")
async def test_one_request_on_two_nodes_runs_once(store: PostgresStore, postgres_address: str) -> None:
    """One runs; all others find its answer, on whichever node they are."""

    def serve(seen: Found) -> Changes:
        return Changes() if seen.requests else Changes(requests=[REQUEST], counters={COUNTER: 1})

    units = [Act(serve, lambda: Reads(requests={("acme", "r1")})) for _ in range(20)]
    async with opened(postgres_address) as second:
        await asyncio.gather(*((store, second)[n % 2].run(unit) for n, unit in enumerate(units)))
    assert (await found(store, counters={COUNTER})).counters == {COUNTER: 1}
