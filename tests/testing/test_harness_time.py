"""In a harness the time of work is the test's time too: limits, heartbeats and handlers that wait."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from threading import Event as Signal

import pytest

from headway import Final, Retry, Run, State, Statechart
from headway.testing import FakeClock, Harness
from headway.testing.clock import BEGINNING
from headway.worker import Handlers, Work
from headway.worker.handlers import Function

pytestmark = pytest.mark.mission("ENG-10")


class Payment(Statechart):
    """Work that may take a minute, twice."""

    paying = State(initial=True, run=Run("pay", timeout="60s", retry=Retry(1, on=("timeout",), base="5s")))
    paid, failed = Final(), Final()
    done = paying.on_done.to(paid)
    broken = paying.on_error.to(failed)


class Endless(Statechart):
    """Work that may take as long as it takes."""

    paying = State(initial=True, run=Run("pay", heartbeat="10s", lease="30s"))
    paid = Final()
    done = paying.on_done.to(paid)


def paying(function: Function) -> Handlers:
    """Handlers with one function."""
    handlers = Handlers()
    handlers.add("pay", function)
    return handlers


class Stopped(list[str | None]):
    """Why attempts were stopped."""

    def handler(self, wait: Callable[[], Awaitable[object]]) -> Function:
        """A handler that waits and notes how that ended."""

        async def pay(work: Work) -> None:
            try:
                await wait()
            except asyncio.CancelledError:
                self.append(work.cancelled)
                raise

        return pay


async def events(life: Harness) -> list[tuple[str, timedelta]]:
    """What happened to p1, and when."""
    return [(line.event, line.at - BEGINNING) for line in await life.tenant.history("p1")]


GRACE = 30
"""For so many seconds a real node lets its handlers finish."""
TIMED_OUT = [
    ("start", timedelta()),
    ("work.failed", timedelta(seconds=60)),
    ("error.work.paying.timeout", timedelta(seconds=125)),
]


@pytest.mark.parametrize("waits", ["by the clock", "in real time", "for nothing"])
async def test_a_timeout_passes_with_the_tests_clock(clock: FakeClock, waits: str) -> None:
    """An attempt that waits is stopped when the clock passes its limit, each at its own time."""
    ways: dict[str, Callable[[], Awaitable[object]]] = {
        "by the clock": lambda: clock.sleep("1h"),
        "in real time": lambda: asyncio.sleep(3_600),
        "for nothing": lambda: asyncio.Event().wait(),
    }
    stopped = Stopped()
    handlers = paying(stopped.handler(ways[waits]))
    async with Harness(Payment, handlers=handlers, clock=clock, patience=0.1) as life:
        await life.tenant.create(Payment, "p1")
        await life.run_until_idle()
        await life.advance("59s")
        assert stopped == []
        await life.advance("1s")
        assert stopped == ["timeout"]
        await life.advance("1h")
        assert (await life.tenant.get("p1")).state == "failed"
        assert await events(life) == TIMED_OUT


async def test_a_thread_that_takes_too_long_is_reported(clock: FakeClock) -> None:
    """A handler that is not async times out in the same way, though its thread goes on."""
    goes_on = Signal()
    async with Harness(
        Payment, handlers=paying(lambda _: goes_on.wait(60)), clock=clock, patience=0.1
    ) as life:
        await life.tenant.create(Payment, "p1")
        await life.advance("1h")
        assert await events(life) == TIMED_OUT
        goes_on.set()


async def test_a_handler_that_waits_by_the_clock_goes_on_in_its_time(clock: FakeClock) -> None:
    """Work that takes twenty minutes is alive all the time, is nobody else's, and ends then."""
    attempts: list[int] = []

    async def pay(work: Work) -> None:
        attempts.append(work.attempt)
        await clock.sleep("20m")

    async with Harness(Endless, handlers=paying(pay), clock=clock) as life:
        await life.tenant.create(Endless, "p1")
        await life.advance("19m")
        assert (await life.tenant.get("p1")).state == "paying"
        await life.advance("2m")
        assert await events(life) == [("start", timedelta()), ("done.work.paying", timedelta(minutes=20))]
        assert attempts == [1]


async def test_a_handler_without_a_limit_is_waited_for(clock: FakeClock) -> None:
    """Work that may take any time is idle only when it has ended, however little patience there is."""
    handlers = paying(lambda _: time.sleep(0.1))  # a real thread, which the loop cannot see into
    async with Harness(Endless, handlers=handlers, clock=clock, patience=0.01) as life:
        await life.tenant.create(Endless, "p1")
        await life.run_until_idle()
        assert (await life.tenant.get("p1")).state == "paid"


async def test_leaving_a_harness_does_not_wait_for_its_handlers(clock: FakeClock) -> None:
    """A handler that is under way is stopped at once, not after the grace that a real node gives it."""
    stopped = Stopped()
    handlers = paying(stopped.handler(lambda: clock.sleep("1h")))
    began = time.monotonic()
    async with Harness(Payment, handlers=handlers, clock=clock) as life:
        await life.tenant.create(Payment, "p1")
        await life.run_until_idle()
    assert stopped == ["drain"]
    assert time.monotonic() - began < GRACE


async def test_who_sleeps_by_the_clock_wakes_in_time(clock: FakeClock) -> None:
    """Nobody wakes before the clock has moved far enough, and who need not sleep goes on."""
    await clock.sleep(0)
    sleeping = asyncio.create_task(clock.sleep("10s"))
    await asyncio.sleep(0)
    assert clock.asleep == {sleeping}
    clock.advance("9s")
    await asyncio.sleep(0)
    assert not sleeping.done()
    clock.advance("1s")
    await sleeping
    assert clock.asleep == frozenset()
