"""The live log has what charts tell, too: messages after the lines of their step."""

from datetime import UTC, datetime
from typing import Any

import pytest

from headway.codec import decode
from headway.statechart.snapshot import work_done
from headway.store.address import store_at
from headway.store.rows import Cursor, LiveRow
from headway.testing.clock import FakeClock
from headway.worker.timers import Timers
from tests.engine.tailing import following, line, progress, some, work_of

pytestmark = pytest.mark.mission("ENG-7", "ENG-15", "ENG-17")


@pytest.mark.mission("ENG-10")
async def test_a_follower_hears_how_far_work_is_though_there_is_no_line_of_it(address: str) -> None:
    """The messages of a step come after its lines, those of others in between, each with its cursor."""
    clock = FakeClock()
    async with following(store_at(address, clock=clock)) as (engine, tail), tail.follow() as follower:
        await engine.create("acme", "a", "Job")
        started = await anext(follower)
        await progress(engine, "a", 0.5, counters={"pages": 3}, eta_seconds=7.5)
        event = await anext(follower)
        assert started.cursor < event.cursor
        assert isinstance(event, LiveRow)
        report = decode(dict[str, Any], event.message.data or "")
        assert (event.chart, event.message.name, report["fraction"]) == ("Job", "progress", 0.5)
        assert (report["counters"], report["eta_seconds"]) == ({"pages": 3}, 7.5)
        await engine.send("acme", "a", work_done(await work_of(engine, "a"), 1, {}))
        clock.advance("1h")
        async with Timers(engine) as timers:
            await timers.turn()
        seen = await some(follower, 5)
        assert seen == line("a", 3, "half", "almost", 4, "ask.reminded")
        assert len(await engine.store.history.page(("acme", "a"))) == 3
        async with tail.follow(event.cursor) as again:
            assert await some(again, 5) == seen


async def test_who_was_away_for_too_long_can_know_it(address: str) -> None:
    """A cursor from before what was pruned has a gap behind it, one from after it has none."""
    async with following(store_at(address)) as (engine, tail):
        assert not await tail.has_forgotten(Cursor())
        async with tail.follow() as follower:
            await engine.create("acme", "a", "Job")
            await progress(engine, "a", 0.5)
            started, told_of = await anext(follower), await anext(follower)
        await engine.store.messages.prune(datetime(2100, 1, 1, tzinfo=UTC), 100)
        assert await tail.has_forgotten(Cursor())
        assert await tail.has_forgotten(started.cursor)
        assert not await tail.has_forgotten(told_of.cursor)
        assert not await tail.has_forgotten(follower.cursor)
