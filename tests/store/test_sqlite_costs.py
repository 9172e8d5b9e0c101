"""What SQLite's statements cost: by their plans, and by the steps that SQLite's machine takes for them."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from headway.codec import replace
from headway.store.queries import (
    AskQuery,
    Claim,
    EventQuery,
    InstanceQuery,
    LetterQuery,
    MessageQuery,
    Settlement,
    WorkQuery,
)
from headway.store.rows import AskClosing, Cursor, WorkRow
from headway.store.sqlite import asks as sqlite_asks
from headway.store.sqlite import charts as sqlite_charts
from headway.store.sqlite import claims as sqlite_claims
from headway.store.sqlite import history as sqlite_history
from headway.store.sqlite import instances as sqlite_instances
from headway.store.sqlite import leases as sqlite_leases
from headway.store.sqlite import letters as sqlite_letters
from headway.store.sqlite import messages as sqlite_messages
from headway.store.sqlite import requests as sqlite_requests
from headway.store.sqlite import tables as sqlite_tables
from headway.store.sqlite import unit as sqlite_unit
from headway.store.sqlite import work as sqlite_work
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.store import SqliteStore
from headway.store.sqlite.tables import Table
from headway.testing import FakeClock
from tests.store.contract.acts import writing
from tests.store.contract.place import (
    ASK,
    AT,
    HISTORY,
    KNOWN,
    LONG_AGO,
    NEVER,
    instance,
    letter,
    message,
    work,
)

pytestmark = pytest.mark.mission("ENG-17")

TABLES: list[Table[Any]] = [each for each in vars(sqlite_tables).values() if isinstance(each, Table)]
SECOND = timedelta(seconds=1)
Act = Callable[[SqliteStore], Awaitable[Any]]


@pytest.fixture
def memory(clock: FakeClock, runner: asyncio.Runner) -> Iterator[SqliteStore]:
    """A store in memory."""
    store = SqliteStore(":memory:", clock)
    runner.run(store.open())
    yield store
    runner.run(store.close())


async def fetch(store: SqliteStore, sql: str, values: Any = ()) -> list[tuple[Any, ...]]:
    """What the writer's connection answers."""
    return await store._database.writer.call(lambda connection: connection.fetch(sql, values))


async def cost(store: SqliteStore, act: Act) -> int:
    """How many steps SQLite takes."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    def watch(watcher: Callable[[], None] | None) -> Callable[[Connection], None]:
        return lambda connection: connection._raw.set_progress_handler(watcher, 1)

    await store._database.writer.call(watch(step))
    await act(store)
    await store._database.writer.call(watch(None))
    return steps


MODULES = (
    sqlite_asks,
    sqlite_charts,
    sqlite_claims,
    sqlite_instances,
    sqlite_leases,
    sqlite_letters,
    sqlite_messages,
    sqlite_unit,
    sqlite_requests,
    sqlite_history,
    sqlite_work,
)
VERBS = {"SELECT", "UPDATE", "DELETE", "WITH", "INSERT"}
HARMLESS = tuple(
    f"SCAN {name}"
    for name in ("(subquery", "CONSTANT ROW", "step", "wanted VIRTUAL", "role VIRTUAL", "json_each VIRTUAL")
)
"""What is walked is bounded: by a limit within, or by what the caller gave."""
PAGES: list[tuple[Callable[[Any], str], type[Any], dict[str, Any], list[dict[str, Any]]]] = [
    (
        sqlite_instances.page,
        InstanceQuery,
        {"tenant": "acme"},
        [{"ended": False}, {"parent": "p"}, {"owner": "o"}, {"chart": "c", "status": "s"}, {"after": "i"}],
    ),
    (
        sqlite_asks.page,
        AskQuery,
        {"tenant": "acme"},
        [{"open": False}, {"instance": "i"}, {"after": "a"}, {"roles": ("r",)}, {"person": "p"}],
    ),
    (
        sqlite_work.page,
        WorkQuery,
        {"tenant": "acme"},
        [{"ids": ("w",)}, {"after": "w"}, {"leased": False}, {"queue": "q"}],
    ),
    (
        sqlite_letters.page,
        LetterQuery,
        {},
        [{"destination": "d"}, {"tenant": "t"}, {"after": 1}, {"ids": ("m",)}],
    ),
]


def statements() -> Iterator[str]:
    """Every statement that runs again and again, and those of queries with up to two filters."""
    for module in MODULES:
        texts = (text for text in vars(module).values() if isinstance(text, str) and text.split())
        found = (text for text in texts if text.split()[0] in VERBS and "VALUES" not in text)
        yield from (text.replace("{filters}", "") for text in found)
    for table in TABLES:
        yield from (table.select_one, table.select_some, table.delete)
    for page, query, always, filters in PAGES:
        for one, two in product([{}, *filters], repeat=2):
            yield page(query(**always, **{**one, **two}))


WALKING = {
    sqlite_charts.ALL,
    sqlite_charts.VERSIONS,
    sqlite_charts.LIVING_VERSIONS,
    sqlite_asks.MISFILED,
    sqlite_leases.END_LEASES,
    sqlite_leases.DROP_DEAD,
    sqlite_leases.ALIVE,
    sqlite_history.LAST_EVENT,
    sqlite_history.WINDOW_OF_LINES,
}
"""For all rows of a table: a node asks seldom, or once when it starts; an audit looks at everything; the
tables of nodes, versions and sequences are small; a window ends after a page."""


@pytest.mark.parametrize("sql", [sql for sql in dict.fromkeys(statements()) if sql not in WALKING])
async def test_no_statement_walks_or_sorts_a_table(memory: SqliteStore, sql: str) -> None:
    """Each finds its rows by an index, so its cost does not grow with the table."""
    numbered = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    values: Any = dict.fromkeys(re.findall(r":(\w+)", sql)) or [None] * max(numbered or [sql.count("?")])
    plan = [line for *_, line in await fetch(memory, f"EXPLAIN QUERY PLAN {sql}", values)]
    walks = [line for line in plan if line.startswith("SCAN") and not line.startswith(HARMLESS)]
    assert not walks, plan
    assert not any(
        "TEMP B-TREE" in line or "history USING INTEGER PRIMARY KEY (rowid>?)" in line for line in plan
    ), plan


def claims(limit: int = 10) -> Act:
    """A claim that is taken back, so that the next one costs the same."""

    async def act(store: SqliteStore) -> None:
        rows = await store.work.claim(Claim("w", ("default",), limit, KNOWN))
        await store.work.release("w", [(row.tenant, row.id, row.attempt) for row in rows])

    return act


def items(count: int, **fields: Any) -> list[WorkRow]:
    """So much work, the longest due of all."""
    return [work(f"{fields}{n}", due=LONG_AGO, **fields) for n in range(count)]


def waiting(*rows: WorkRow) -> Act:
    """Write work."""
    return lambda store: store.run(writing(work=[*rows]))


def asks(count: int, **fields: Any) -> Act:
    """Open so many asks."""
    rows = [replace(ASK, id=f"{fields}{n}", **fields) for n in range(count)]
    return lambda store: store.run(writing(asks=rows))


def closed_asks(count: int) -> Act:
    """Open so many asks of an instance, and close them."""
    rows = [replace(ASK, id=f"closed{n}") for n in range(count)]
    closings = [AskClosing("acme", row.id, AT, "ann", "approve") for row in rows]
    return lambda store: store.run(writing(asks=rows, asks_closed=closings))


def letters(count: int, start: int = 10, **fields: Any) -> Act:
    """Settle so many letters: of one instance behind one another, or each of its own instance."""

    async def act(store: SqliteStore) -> None:
        await store.leases.hold([("", "a")], "n", 1_000)
        rows = [letter(n + start, **{"instance": f"i{n}", **fields}) for n in range(count)]
        await store.messages.settle(Settlement("a", "n", Cursor(), tuple(rows)))

    return act


def lines(count: int) -> Act:
    """Write so many lines of an instance's history, behind those that it has."""

    async def act(store: SqliteStore) -> None:
        begin = (await store.events.last()).position
        rows = [replace(HISTORY, seq=begin + n) for n in range(1, count + 1)]
        await store.run(writing(created=[] if begin else [instance()], history=rows))

    return act


async def last_lines(store: SqliteStore) -> None:
    """Read the last five lines of a tenant."""
    after = Cursor(0, (await store.events.last()).position - 5)
    page = await store.events.page(EventQuery(after=after, tenant="acme"))
    assert len(page.events) == 5


BUSY = work("busy", concurrency="k", worker="x", leased_until=NEVER)
SPENT = [work(f"spent{n}", rate="r", rate_per=86_400_000, due=LONG_AGO) for n in range(2)]
BACKLOGS: dict[str, tuple[Act, Callable[[int], Act], Act]] = {
    "a key that is busy": (
        waiting(BUSY, *items(20)),
        lambda n: waiting(*items(n, concurrency="k")),
        claims(),
    ),
    "a rate that is spent": (
        waiting(*SPENT, *items(20)),
        lambda n: waiting(*items(n, rate="r", rate_per=86_400_000)),
        claims(),
    ),
    "work for another worker": (
        lambda store: store.leases.hold([("acme", "browser")], "x", 3_600_000),
        lambda n: waiting(*items(n, affinity="browser"), *items(20)),
        claims(),
    ),
    "work of other handlers": (
        waiting(*items(20)),
        lambda n: waiting(*items(n, handler="other")),
        lambda store: store.work.claim(Claim("w", ("default",), 1, KNOWN, handlers=("pay",))),
    ),
    "work that is not due": (
        waiting(*items(20)),
        lambda n: waiting(*(work(f"later{each}", due=NEVER) for each in range(n))),
        claims(),
    ),
    "keys that are for later": (
        waiting(*items(20)),
        lambda n: waiting(*(work(f"l{each}", affinity=f"{each}", due=NEVER) for each in range(n))),
        claims(),
    ),
    "less urgent work": (
        waiting(*items(20, priority=5)),
        lambda n: waiting(*items(n)),
        claims(),
    ),
    "waiting work, when what is leased is listed": (
        waiting(BUSY),
        lambda n: waiting(*items(n)),
        lambda store: store.work.page(WorkQuery("acme", leased=True)),
    ),
    "work that was not asked for": (
        waiting(*items(20, instance="i2")),
        lambda n: waiting(*items(n)),
        lambda store: store.work.page(WorkQuery("acme", ids=("w1", "w2"))),
    ),
    "other people's asks": (
        asks(20, roles=("clerk",)),
        lambda n: asks(n, roles=("manager",)),
        lambda store: store.asks.page(AskQuery("acme", roles=("clerk", "none"), person="bob")),
    ),
    "closed asks of an instance": (
        asks(20),
        closed_asks,
        lambda store: store.asks.page(AskQuery("acme", instance="i1")),
    ),
    "letters behind one that rests": (
        letters(1, start=1, instance="i1", due=NEVER),
        lambda n: letters(n, instance="i1"),
        lambda store: store.letters.page(LetterQuery(destination="a", due=True)),
    ),
    "letters that rest": (
        letters(1, start=1),
        lambda n: letters(n, due=NEVER),
        lambda store: store.letters.page(LetterQuery(destination="a", due=True)),
    ),
    "letters before one that is settled": (
        letters(1, start=9_999, instance="late"),
        letters,
        letters(1, start=9_999, instance="late"),
    ),
    "dead letters": (
        letters(1, start=1),
        lambda n: letters(n, dead=True),
        lambda store: store.letters.page(LetterQuery(destination="a", due=True)),
    ),
    "older lines of a tenant": (lines(20), lines, last_lines),
    "messages of another kind": (
        lambda store: store.run(writing(messages=[message(f"m{n}") for n in range(1_500)])),
        lambda n: lambda store: store.run(writing(messages=[message(f"n{each}") for each in range(n)])),
        lambda store: store.messages.page(MessageQuery(kinds=("webhook",))),
    ),
}


@pytest.mark.parametrize(("first", "backlog", "act"), BACKLOGS.values(), ids=BACKLOGS)
async def test_what_stands_in_the_way_costs_nothing(
    memory: SqliteStore, first: Act, backlog: Callable[[int], Act], act: Act
) -> None:
    """Two thousand rows that are not wanted cost as much as ten: SQLite takes about the same steps."""
    await first(memory)
    await backlog(10)(memory)
    await act(memory)
    few = await cost(memory, act)
    await backlog(2_000)(memory)
    many = await cost(memory, act)
    assert few > 0
    assert many < few + 100


async def test_pruning_finds_its_rows(memory: SqliteStore) -> None:
    """To prune one instance costs the same whatever others there are, with their history and asks."""

    async def ended(name: str, day: int) -> None:
        row = instance(name, ended=True, updated_at=AT + day * SECOND)
        ask = replace(ASK, id=f"ask {name}", instance=name)
        closing = AskClosing("acme", ask.id, AT, "ann", "approve")
        lines = [replace(HISTORY, instance=name)] * 3
        await memory.run(writing(created=[row], history=lines, asks=[ask], asks_closed=[closing]))

    async def prune(store: SqliteStore) -> None:
        assert await store.instances.prune(AT + 2 * SECOND, 1) == 1

    await ended("a", 0)
    await ended("b", 1)
    few = await cost(memory, prune)
    for n in range(300):
        await ended(f"late{n}", 9)
        await memory.run(writing(created=[instance(f"live{n}")], history=[HISTORY]))
    assert await cost(memory, prune) < few + 100


async def test_a_long_history_is_pruned_in_parts(
    memory: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No transaction deletes more lines than it may, and in the end everything is gone."""
    monkeypatch.setattr(sqlite_instances, "LINES", 10)
    rows = [instance(name, ended=True) for name in "abc"]
    lines = [replace(HISTORY, instance=name) for name in "abc" for _ in range(25)]
    await memory.run(writing(created=rows, history=lines))
    gone = await memory._database.write(
        lambda held: sqlite_instances.prune_ended(held, 2**62, 5, None, now=AT)
    )
    assert gone == (0, False)
    assert await fetch(memory, "SELECT count(*) FROM history") == [(65,)]
    assert await memory.instances.prune(NEVER, 2) == 2
    assert await fetch(memory, "SELECT DISTINCT instance FROM history") == [("c",)]
    assert await memory.instances.prune(NEVER, 2) == 1
    assert await fetch(memory, "SELECT count(*) FROM history") == [(0,)]
