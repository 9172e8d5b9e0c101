"""The live log: whoever follows it sees everything once and in order, wherever it is written."""

import asyncio
import gc
import random
from collections import defaultdict
from contextlib import AsyncExitStack
from typing import Any

import pytest

from headway.engine.engine import Engine
from headway.engine.tail import Tail, cursor_of, cursor_text
from headway.errors import InputError, StoreUnavailableError
from headway.node import Node
from headway.store.address import store_at
from headway.store.port import Store
from headway.store.postgres.store import PostgresStore
from headway.store.queries import EventPage, EventQuery
from headway.store.rows import AFTER_LINES, Cursor, LogRow
from tests.engine.tailing import NEVER, Chore, Job, Visit, following, go_on, line, progress, some, told, visit
from tests.overlay import Overlay

pytestmark = pytest.mark.mission("ENG-7", "ENG-15", "ENG-17")


async def everything(store: Store) -> list[LogRow]:
    """The whole log."""
    seen: list[LogRow] = []
    page = EventPage([], Cursor(), complete=False)
    while not page.complete:
        page = await store.events.page(EventQuery(after=page.cursor, limit=500))
        seen += page.events
    return seen


async def test_a_follower_hears_of_each_commit_without_looking(address: str) -> None:
    """A commit of the same engine wakes the tail: nothing rests, nobody polls."""
    async with following(store_at(address)) as (engine, tail), tail.follow() as follower:
        for turn in range(20):
            await (go_on(engine, "a") if turn else visit(engine, "a"))
            assert await some(follower, 1) == line("a", turn + 1)


async def test_a_follower_hears_what_another_engine_commits_without_looking(postgres_address: str) -> None:
    """The other node announces it, and the announcement wakes the tail."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(120))
        here, there = (Node(postgres_address, [Visit, Job, Chore]) for _ in range(2))
        for node in (here, there):
            node.tail.longest_rest = NEVER
            await stack.enter_async_context(node)
        follower = await stack.enter_async_context(here.tail.follow(tenant="acme"))
        for turn in range(10):
            await (go_on(there.engine, "a") if turn else visit(there.engine, "a"))
            assert await some(follower, 1) == line("a", turn + 1)
        await there.engine.create("acme", "b", "Job")
        await some(follower, 1)
        for fraction in (0.1, 0.2, 0.3):
            await progress(there.engine, "b", fraction)
            assert await some(follower, 1) == line("b", "progress")


async def test_who_begins_somewhere_gets_the_past_and_then_the_present(address: str) -> None:
    """From a cursor on, in pages, and over to what is new, with none missed or doubled."""
    async with following(store_at(address), page=3) as (engine, tail):
        await visit(engine, "a", 10)
        async with tail.follow(Cursor()) as follower:
            assert await some(follower, 5) == line("a", *range(1, 6))
            await go_on(engine, "a", 5)
            assert await some(follower, 11) == line("a", *range(6, 17))
        async with tail.follow(follower.cursor) as again:
            await go_on(engine, "a")
            assert await some(again, 1) == line("a", 17)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, "acme/a acme/b other/a acme/c acme/a acme/b"),
        ({"tenant": "acme"}, "acme/a acme/b acme/c acme/a acme/b"),
        ({"tenant": "other"}, "other/a"),
        ({"tenant": "acme", "instance": "a"}, "acme/a acme/a"),
        ({"tenant": "acme", "owner": "ann"}, "acme/a acme/a"),
        ({"tenant": "acme", "owner": "bob"}, "acme/b acme/b"),
        ({"tenant": "acme", "chart": "Chore"}, "acme/c"),
        ({"chart": "Visit", "owner": "ann"}, "acme/a other/a acme/a"),
    ],
    ids=str,
)
@pytest.mark.mission("ENG-14")
async def test_a_follower_gets_only_what_it_asked_for(
    address: str, wanted: dict[str, Any], expected: str
) -> None:
    """By tenant, instance, owner and chart: live, from the recent past, and from the database."""
    async with following(store_at(address)) as (engine, tail):
        async with tail.follow(Cursor(), **wanted) as live:
            await visit(engine, "a")
            await visit(engine, "b", user="bob")
            await visit(engine, "a", tenant="other")
            await engine.create("acme", "c", "Chore")
            await go_on(engine, "a")
            await go_on(engine, "b")
            seen = await some(live, len(expected.split()))
            async with tail.follow(Cursor(), **wanted) as recent:
                assert await some(recent, len(seen)) == seen
        async with tail.follow(Cursor(), **wanted) as stored:
            assert await some(stored, len(seen)) == seen
    assert " ".join(f"{tenant}/{name}" for tenant, name, _ in seen) == expected


async def test_followers_that_come_and_go_beside_fifty_writers_see_all_of_it_once(address: str) -> None:
    """Each ends up with the log as it stands in the database: order, number and all."""
    turns, writers = 6, 50
    total = writers * (turns + 3)
    shared = address.startswith("postgres")

    async def write(engine: Engine, n: int) -> None:
        await visit(engine, f"i{n}", turns, user=f"u{n % 5}")
        await engine.send("acme", f"i{n}", Visit.leave())

    async def follow(tail: Tail, seed: int) -> list[LogRow]:
        chance, cursor, seen = random.Random(seed), Cursor(), list[LogRow]()
        while len(seen) < total:
            most = chance.choice((1, 5, 256))
            async with tail.follow(cursor, most_waiting=most) as follower:
                for _ in range(min(chance.choice((1, 3, 20, 100)), total - len(seen))):
                    seen.append(await anext(follower))
                    if chance.random() < 0.1:
                        await asyncio.sleep(0)
            cursor = follower.cursor if chance.random() < 0.5 else seen[-1].cursor
        return seen

    async with AsyncExitStack() as stack:
        places = [following(store_at(address), rest=0.05, page=17, remembered=40) for _ in range(1 + shared)]
        both = [await stack.enter_async_context(place) for place in places]
        followers = asyncio.gather(*(follow(both[n % len(both)][1], n) for n in range(10)))
        await asyncio.gather(*(write(both[n % len(both)][0], n) for n in range(writers)))
        seen = await followers
        log = await everything(both[0][0].store)
    assert len(log) == total
    assert all(each == log for each in seen)
    by_instance = defaultdict(list)
    for event in log:
        by_instance[event.instance].append(told(event)[2])
    assert {*map(tuple, by_instance.values())} == {(*range(1, turns + 3), "left")}


async def test_a_slow_follower_is_left_behind_and_loses_nothing(address: str) -> None:
    """It holds no more than it may, and reads the rest by itself when it gets there."""
    async with AsyncExitStack() as stack:
        place = following(store_at(address), page=4, remembered=5)
        engine, tail = await stack.enter_async_context(place)
        slow = await stack.enter_async_context(tail.follow(most_waiting=3))
        quick = await stack.enter_async_context(tail.follow())
        await visit(engine, "a")
        await some(slow, 1)
        await go_on(engine, "a", 40)
        await some(quick, 41)
        # Whether it was left behind or had not caught up yet is a matter of timing; that it holds few is not.
        assert len(slow._waiting) <= 3
        assert await some(slow, 40) == line("a", *range(2, 42))
        await go_on(engine, "a")
        assert await some(slow, 1) == await some(quick, 1)


class Counting:
    """A store that counts how often the log is read, and may fail."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.events: Any = Overlay(store.events, page=self._page)
        self.reads = 0
        self.fails = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def _page(self, query: EventQuery) -> EventPage:
        self.reads += 1
        if self.fails:
            raise StoreUnavailableError("gone")
        return await self._store.events.page(query)


async def test_many_followers_share_one_reader(address: str) -> None:
    """The database is not asked more often when there are more of them."""
    store = Counting(store_at(address))
    async with AsyncExitStack() as stack:
        engine, tail = await stack.enter_async_context(following(store))
        followers = [await stack.enter_async_context(tail.follow()) for _ in range(200)]
        await visit(engine, "a", 5)
        for follower in followers:
            assert await some(follower, 6) == line("a", *range(1, 7))
        assert tail.tally["read again"] <= 200
        store.reads = 0
        await go_on(engine, "a", 5)
        for follower in followers:
            await some(follower, 5)
        assert store.reads <= 2 * 5


async def test_nobody_reads_when_nobody_follows(address: str) -> None:
    """The last follower to go ends the reading, also when it was dropped without a word."""
    store = Counting(store_at(address))
    async with following(store) as (engine, tail):
        async with tail.follow() as follower:
            await visit(engine, "a")
            await some(follower, 1)
        dropped = tail.follow()
        await dropped.open()
        await go_on(engine, "a")
        await some(dropped, 1)
        del dropped
        gc.collect()
        await tail.turn()
        store.reads = 0
        await go_on(engine, "a", 3)
        await tail.turn()
        assert store.reads == 0


async def test_a_follower_that_was_interrupted_goes_on(address: str) -> None:
    """Who stops waiting for the next event gets it with the next question."""
    async with following(store_at(address)) as (engine, tail), tail.follow() as follower:
        await visit(engine, "a")
        await some(follower, 1)
        waiting = asyncio.create_task(some(follower, 1))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await go_on(engine, "a", 2)
        assert await some(follower, 2) == line("a", 2, 3)


async def test_the_cursor_of_one_who_waits_moves_on(address: str) -> None:
    """What it did not want need not be looked at again when it comes back."""
    async with following(store_at(address)) as (engine, tail):
        async with tail.follow(tenant="other") as other, tail.follow() as follower:
            waiting = asyncio.create_task(some(other, 1))
            await visit(engine, "a")
            [event] = [await anext(follower)]
            async with asyncio.timeout(60):
                while other.cursor < event.cursor:  # noqa: ASYNC110 - nobody tells when a cursor moves
                    await asyncio.sleep(0)
            await visit(engine, "a", tenant="other")
            assert await waiting == line("a", 1, tenant="other")
            last = await anext(follower)
        assert other.cursor >= last.cursor


async def test_a_tail_that_stops_ends_its_followers(address: str) -> None:
    """Each can go on elsewhere from its cursor."""
    async with following(store_at(address)) as (engine, tail):
        follower = await tail.follow().open()
        await visit(engine, "a", 2)
        seen = await some(follower, 1)
        await go_on(engine, "a")
        await tail.stop()
        seen += [told(event) async for event in follower]
        fresh = await tail.follow().open()
        await tail.stop()
        assert [event async for event in fresh] == []
        async with Tail(engine) as another, another.follow(follower.cursor) as again:
            await go_on(engine, "a")
            while len(seen) < 5:
                seen += await some(again, 1)
    assert seen == line("a", 1, 2, 3, 4, 5)


async def test_a_database_that_is_gone_for_a_while_costs_no_event(address: str) -> None:
    """Who catches up hears of it and asks again; who is up to date just waits."""
    store = Counting(store_at(address))
    async with following(store) as (engine, tail), tail.follow() as live:
        await visit(engine, "a", 2)
        await some(live, 3)
        tail._recent.clear(live.cursor)
        store.fails = True
        async with tail.follow(Cursor()) as late:
            with pytest.raises(StoreUnavailableError):
                await anext(late)
            await go_on(engine, "a")
            store.fails = False
            assert await some(late, 4) == line("a", 1, 2, 3, 4)
        assert await some(live, 1) == line("a", 4)


async def test_what_an_older_transaction_holds_back_comes_in_its_order(postgres_address: str) -> None:
    """The tail looks again by itself until the transaction has ended, though nobody announces that."""
    store = PostgresStore(postgres_address)
    async with following(store) as (engine, tail), tail.follow() as follower:
        await visit(engine, "a")
        await some(follower, 1)
        async with store._database.connections.connection() as connection, connection.transaction():
            await connection.fetch("SELECT pg_current_xact_id()")
            await go_on(engine, "a", 3)
            while await tail.rest() == NEVER:
                await tail._store.now()
            assert not follower._waiting
        assert await some(follower, 3) == line("a", 2, 3, 4)


@pytest.mark.parametrize(
    "cursor",
    [Cursor(), Cursor(0, 7), Cursor(123456789012345, 42), Cursor(0, 7, 3), Cursor(12, AFTER_LINES, 5)],
    ids=str,
)
def test_a_cursor_travels_as_text(cursor: Cursor) -> None:
    """And comes back as it was."""
    assert cursor_of(cursor_text(cursor)) == cursor


@pytest.mark.parametrize(
    "text",
    ["", "1", "-", "1-", "-1-2", "1-2-3-4", "1--2", "1-2-", "a-b", "1" * 40 + "-1", "\u0661-\u0662", "1-2\n"],
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    """Whatever comes back from outside."""
    with pytest.raises(InputError):
        cursor_of(text)
