"""Tallies: numbers of instances by leaf state, kept right from the log while others write."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headway import Event, Final, State, Statechart, Upgrade
from headway.engine.engine import Engine
from headway.engine.flow import WINDOWS, Flow, bucket_of, percentile
from headway.engine.tail import Tail
from headway.engine.tally import Group, Tallies, TenantTally
from headway.engine.upgrade.upgrade import upgrade
from headway.store.port import Store
from headway.testing import FakeClock
from tests.places import FACTORIES
from tests.store.contract.place import NEVER, Place

pytestmark = pytest.mark.mission("CON-TELL")

T = "default"


@pytest.fixture(params=["memory", "sqlite-file", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    """Where rows live."""
    return FACTORIES[request.param](request)


class Claim(Statechart, version=1):
    """A claim with a state that it can enter again."""

    draft = State(initial=True)
    review = State()
    paid = Final()

    submit = draft.to(review)
    again = review.to(review)
    pay = review.to(paid)


class NewClaim(Statechart, name="Claim", version=2, upgrades={1: Upgrade()}):
    """The same."""

    draft = State(initial=True)
    review = State()
    paid = Final()

    submit = draft.to(review)
    again = review.to(review)
    pay = review.to(paid)


@asynccontextmanager
async def tallying(store: Store, *charts: Any) -> AsyncIterator[tuple[Engine, Tallies]]:
    """An engine whose log is followed."""
    async with Engine(store, charts or (Claim,)) as engine, asyncio.timeout(120):
        tail = Tail(engine)
        async with tail, Tallies(engine, tail) as tallies:
            yield engine, tallies


async def live(engine: Engine, name: str, *events: str) -> None:
    """Create an instance and send it events."""
    await engine.create(T, name, "Claim")
    for event in events:
        await engine.send(T, name, Event(event))


async def caught_up(engine: Engine, tally: TenantTally) -> Counter[Group]:
    """The numbers of a tally that has read all there is; it must say the same as counting anew."""
    engine_end = await engine.store.events.last()
    while tally.cursor < engine_end:
        tally._tail.wake()
        await asyncio.sleep(0)
    counts = await engine.store.instances.counts(T)
    expected = {Group(each.chart, each.version, each.states): each.count for each in counts.items}
    assert tally.numbers.now == expected
    return tally.numbers.now


async def test_fresh_readers_end_with_the_right_numbers_whenever_they_begin(place: Place) -> None:
    """While 40 instances move, ever new tallies begin; in the end each says what GROUP BY says."""
    store = place.store()
    async with tallying(store) as (engine, first):
        many = [first]
        writers = asyncio.gather(
            *(live(engine, f"i{n}", "submit", "again", "pay"[: n % 2 * 3] or "again") for n in range(40))
        )
        while not writers.done() and len(many) < 20:
            tallies = Tallies(engine, first._tail)
            many.append(tallies)
            await tallies.of(T)
        await writers
        for tallies in many:
            now = await caught_up(engine, await tallies.of(T))
            assert now == {Group("Claim", 1, "review"): 20, Group("Claim", 1, "paid"): 20}
            await tallies.stop()


async def test_pruning_is_followed_and_what_was_missed_is_counted_again(place: Place) -> None:
    """A tally loses what is pruned; one that has not read the lines before begins again."""
    store = place.store()
    async with tallying(store) as (engine, tallies):
        await asyncio.gather(*(live(engine, f"i{n}", "submit", "pay") for n in range(5)))
        tally = await tallies.of(T)
        await caught_up(engine, tally)
        assert await store.instances.prune(NEVER, 3) == 3
        assert await caught_up(engine, tally) == {Group("Claim", 1, "paid"): 2}
        assert tally.tally["begun"] == 1
        tally._tail.longest_rest = 1e6
        await live(engine, "late", "submit", "pay")
        await store.instances.prune(NEVER, 3)
        assert await caught_up(engine, tally) == {}


async def test_an_upgrade_moves_what_counts(place: Place) -> None:
    """Instances count for the version that they live by, also after an upgrade."""
    store = place.store()
    async with tallying(store, Claim) as (engine, _):
        await live(engine, "i1", "submit")
    async with tallying(place.store(), NewClaim) as (engine, tallies):
        tally = await tallies.of(T)
        assert tally.numbers.now == {Group("Claim", 1, "review"): 1}
        await upgrade(engine, "Claim", to=2)
        assert await caught_up(engine, tally) == {Group("Claim", 2, "review"): 1}


async def test_flow_and_time_in_state_are_exact_for_those_that_were_there_before(clock: FakeClock) -> None:
    """The line says when the states were reached, so nobody has to have seen it."""
    from headway.testing.memory import MemoryStore, Tables  # noqa: PLC0415

    store = MemoryStore(Tables(), clock)
    async with tallying(store) as (engine, tallies):
        await live(engine, "i1", "submit")
        clock.advance("10s")
        tally = await tallies.of(T)
        await engine.send(T, "i1", Event("again"))
        clock.advance("30s")
        await engine.send(T, "i1", Event("pay"))
        await caught_up(engine, tally)
        left = tally.numbers.left[Group("Claim", 1, "review")].counted(WINDOWS[0], clock.now())
        assert left == Counter({bucket_of(10): 1, bucket_of(30): 1})
        assert percentile(left, 0.5) == pytest.approx(10, rel=0.05)
        assert percentile(left, 0.95) == pytest.approx(30, rel=0.05)
        flows = {each.transition: flow for each, flow in tally.numbers.passages.items()}
        assert {*flows} == {"again", "pay"}
        clock.advance("45s")
        assert [flows["again"].counted(window, clock.now()).total() for window in WINDOWS] == [0, 1, 1]
        assert [flows["pay"].counted(window, clock.now()).total() for window in WINDOWS] == [1, 1, 1]


def test_a_flow_keeps_no_more_than_its_windows(clock: FakeClock) -> None:
    """However long it runs, and whatever the times are."""
    flow = Flow()
    for _ in range(5_000):
        flow.add(clock.now(), 3)
        clock.advance("1m")
    assert sum(len(slots) for slots in flow._slots.values()) < 200
    assert flow.counted(WINDOWS[1], clock.now()).total() == pytest.approx(60, abs=2)
    assert percentile(Counter(), 0.5) is None
    assert bucket_of(-1) == 0
    assert bucket_of(1e30) == bucket_of(1e20)
