"""Claims on SQLite against what they promise: nothing too much, nothing hidden, everybody in turn."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from headway.store.queries import Claim, WorkQuery
from headway.store.rows import WorkRow
from headway.store.sqlite import claims as sqlite_claims
from headway.store.sqlite.claims import PlaceWalk, Span
from headway.store.sqlite.store import SqliteStore
from headway.testing import FakeClock
from tests.fuzzing import seeds
from tests.store.contract.acts import writing
from tests.store.contract.place import KNOWN, LONG_AGO, NEVER, work

pytestmark = pytest.mark.mission("ENG-10", "ENG-14", "ENG-17")

RATES: list[dict[str, Any]] = [
    {},
    {},
    {"rate": "fast", "rate_most": 3, "rate_per": 1_000},
    {"rate": "slow", "rate_per": 7_000},
]
LIMITS: list[dict[str, Any]] = [{}, {}, {"concurrency": "one"}, {"concurrency": "some", "at_once": 3}]
VERSIONS = (("expense", 1), ("expense", 2), ('c"-,', 1))
TENANTS = ("a", "b", 'c"-,')


@pytest.fixture
def memory(clock: FakeClock, runner: asyncio.Runner) -> Iterator[SqliteStore]:
    """A store in memory."""
    store = SqliteStore(":memory:", clock)
    runner.run(store.open())
    yield store
    runner.run(store.close())


def any_work(chance: Random, now: datetime) -> list[WorkRow]:
    """Work of all kinds."""
    return [
        work(
            f"w{n:03}",
            tenant=chance.choice(TENANTS),
            queue=chance.choice(["default", "mail"]),
            chart=(version := chance.choice(VERSIONS))[0],
            version=version[1],
            handler=chance.choice(["pay", "post"]),
            priority=chance.choice([0, 0, 5]),
            due=now + timedelta(seconds=chance.choice([-9, -5, -5, 0, 4])),
            affinity=chance.choice([None, None, None, "held", "free"]),
            **chance.choice(LIMITS),
            **chance.choice(RATES),
        )
        for n in range(chance.randint(1, 60))
    ]


class Ledger:
    """What was handed out, kept apart from the store, with the promises as plain sums."""

    def __init__(self, items: Sequence[WorkRow]) -> None:
        self.waiting = {(row.tenant, row.id): row for row in items}
        self.running: dict[tuple[str, str], WorkRow] = {}
        self._handed_out: dict[tuple[str, str | None], list[datetime]] = defaultdict(list)

    def fits(self, row: WorkRow, claim: Claim, now: datetime) -> bool:
        """Whether an item may be handed out now."""
        wanted = row.queue in claim.queues and (not claim.handlers or row.handler in claim.handlers)
        wanted = wanted and (not claim.tenants or row.tenant in claim.tenants)
        wanted = wanted and (row.chart, row.version) in claim.versions
        running = sum(
            (other.tenant, other.concurrency) == (row.tenant, row.concurrency)
            for other in self.running.values()
        )
        has_room = row.concurrency is None or running < row.at_once
        at_hand = row.affinity != "held" or claim.worker == "holder"
        return wanted and row.due <= now and has_room and at_hand and self._in_pace(row, now)

    def hand_out(self, row: WorkRow, claim: Claim, now: datetime) -> None:
        """Note an item that was claimed."""
        waiting = self.waiting[row.tenant, row.id]
        assert self.fits(waiting, claim, now), row
        del self.waiting[row.tenant, row.id]
        self.running[row.tenant, row.id] = waiting
        self._handed_out[row.tenant, row.rate].append(now)

    def _in_pace(self, row: WorkRow, now: datetime) -> bool:
        """In any time t at most `most + t * most / per`, with one more at the end of it."""
        past = self._handed_out[row.tenant, row.rate]
        each = timedelta(milliseconds=row.rate_per) / row.rate_most
        spans = ((now - start, len(past) - index + 1) for index, start in enumerate(past))
        return row.rate is None or all(count <= row.rate_most + span / each for span, count in spans)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", seeds(25))
async def test_a_claim_takes_all_it_may_and_nothing_else(
    memory: SqliteStore, clock: FakeClock, seed: int
) -> None:
    """Whatever is claimed fits; what is left would not fit, or is less urgent than all that was claimed."""
    chance = Random(seed)
    items = any_work(chance, clock.now())
    ledger = Ledger(items)
    await memory.run(writing(work=items))
    await memory.leases.hold([(tenant, "held") for tenant in TENANTS], "holder", 10**9)
    for _ in range(40):
        claim = Claim(
            chance.choice(["holder", "w"]),
            chance.choice([("default",), ("default", "mail"), ("mail", "mail")]),
            chance.choice([0, 1, 3, 100]),
            chance.choice([KNOWN, VERSIONS, VERSIONS[1:]]),
            handlers=chance.choice([(), (), ("pay",)]),
            tenants=chance.choice([(), (), TENANTS[:2], TENANTS[2:]]),
        )
        rows = await memory.work.claim(claim)
        assert len(rows) <= claim.limit
        for row in rows:
            ledger.hand_out(row, claim, clock.now())
        left = [row for row in ledger.waiting.values() if ledger.fits(row, claim, clock.now())]
        if len(rows) < claim.limit:
            assert not left
        elif rows and left:
            assert max(row.priority for row in left) <= min(row.priority for row in rows)
        gone = chance.sample(sorted(ledger.running), chance.randint(0, len(ledger.running)))
        await memory.run(writing(work_gone=gone))
        for key in gone:
            del ledger.running[key]
        clock.advance(f"{chance.choice([0, 1, 300, 350, 5_000])}ms")


async def test_a_rate_gives_a_burst_and_then_one_at_a_time(memory: SqliteStore, clock: FakeClock) -> None:
    """Four at once after a rest, then one each quarter of a second; what is not used adds up to four."""
    await memory.run(writing(work=[work(f"w{n:02}", rate="r", rate_most=4) for n in range(60)]))
    given: list[int] = []
    for pause in (0, 0, 249, 1, 250, 500, 999, 10_000, 0, 125, 125):
        clock.advance(f"{pause}ms")
        given.append(len(await memory.work.claim(Claim("w", ("default",), 100, KNOWN))))
    assert given == [4, 0, 0, 1, 1, 2, 3, 4, 0, 0, 1]


async def test_paces_that_are_over_are_forgotten(memory: SqliteStore, clock: FakeClock) -> None:
    """Rates that come and go leave no rows behind."""
    for n in range(50):
        await memory.run(writing(work=[work(f"w{n}", rate=f"r{n}")]))
        assert await memory.work.claim(Claim("w", ("default",), 1, KNOWN))
        clock.advance("1s")
    rows = await memory._database.writer.call(lambda held: held.fetch("SELECT count(*) FROM pace"))
    assert rows[0][0] <= 2


@pytest.fixture
def short_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that looks at three places at a time, and twice."""
    monkeypatch.setattr(sqlite_claims, "WINDOW", 3)
    monkeypatch.setattr(sqlite_claims, "WINDOWS", 2)


@pytest.mark.usefixtures("short_sight")
@pytest.mark.parametrize("limit", [1, 2, 7])
async def test_what_is_out_of_sight_has_its_turn(memory: SqliteStore, limit: int) -> None:
    """With more places than a claim looks at, the next claims go on, and all work is found in the end."""
    items = [work(f"w{n}", tenant=f"t{n % 4}", concurrency=f"k{n % 35}", at_once=9) for n in range(140)]
    later = [work(f"later{n}", tenant="t1", concurrency=f"k{n}", due=NEVER) for n in range(30)]
    await memory.run(writing(work=[*items, *later]))
    seen: Counter[str] = Counter()
    for _ in range(300):
        seen.update(row.id for row in await memory.work.claim(Claim("w", ("default",), limit, KNOWN)))
    assert seen == {row.id: 1 for row in items}


@pytest.mark.parametrize("start", ["", '["t3","', '["t9","'])
async def test_a_walk_comes_to_each_place_once(
    memory: SqliteStore, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    """Wherever it begins and whatever fits into a window, no place is left out and none is seen again."""
    monkeypatch.setattr(sqlite_claims, "WINDOW", 4)
    await memory.run(
        writing(work=[work(f"w{n}", tenant=f"t{n % 7}", concurrency=f"k{n}") for n in range(21)])
    )
    span = Span("default", 0, "", "~")
    places = await memory._database.writer.call(
        lambda connection: [*PlaceWalk(connection, span, start).all()]
    )
    assert len(places) == 21
    assert len({place for place, _ in places}) == 21


@pytest.mark.usefixtures("short_sight")
async def test_places_without_room_do_not_hold_up_those_behind_them(memory: SqliteStore) -> None:
    """Forty busy keys stand in the way of one that is free."""
    busy = [work(f"b{n}", concurrency=f"k{n:02}", worker="x", leased_until=NEVER) for n in range(40)]
    stuck = [work(f"s{n}", concurrency=f"k{n:02}", due=LONG_AGO) for n in range(40)]
    await memory.run(writing(work=[*busy, *stuck, work("free", concurrency="k99")]))
    found = [row.id for _ in range(7) for row in await memory.work.claim(Claim("w", ("default",), 1, KNOWN))]
    assert found == ["free"]
    assert len(await memory.work.page(WorkQuery("acme", leased=True))) == 41


async def test_who_stands_behind_in_a_window_comes_next(
    memory: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four tenants, of whom a claim sees two and serves one, are all served as often."""
    monkeypatch.setattr(sqlite_claims, "WINDOW", 2)
    monkeypatch.setattr(sqlite_claims, "WINDOWS", 1)
    await memory.run(writing(work=[work(f"w{n}", tenant=f"t{n % 4}") for n in range(40)]))
    claim = Claim("w", ("default",), 1, KNOWN)
    served = [row.tenant for _ in range(12) for row in await memory.work.claim(claim)]
    assert Counter(served) == {f"t{n}": 3 for n in range(4)}


@pytest.mark.parametrize("tenants", [(), ("big", "s1", "s2")])
async def test_small_tenants_are_served_beside_a_large_one(
    memory: SqliteStore, tenants: tuple[str, ...]
) -> None:
    """A tenant with a thousand keys gets no more turns than one with a single key."""
    large = [work(f"b{n}", tenant="big", concurrency=f"k{n}", due=LONG_AGO) for n in range(200)]
    small = [work(f"s{n}", tenant=f"s{1 + n % 2}") for n in range(20)]
    await memory.run(writing(work=[*large, *small]))
    served: list[Any] = []
    for _ in range(6):
        rows = await memory.work.claim(Claim("w", ("default",), 5, KNOWN, tenants=tenants))
        served += [row.tenant for row in rows]
    assert {tenant: served.count(tenant) for tenant in ("big", "s1", "s2")} == {"big": 10, "s1": 10, "s2": 10}
