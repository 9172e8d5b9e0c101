"""Acts on many instances: what a dry run says of a time, and how outcomes are counted and named."""

from collections.abc import Sequence
from datetime import timedelta
from typing import cast

import pytest

from headway import Event, Final, Retry, Run, State, Statechart
from headway.engine.bulk import AT_ONCE, HASTENED, SAMPLE, Outcome, Retrying, Sending, Summary
from headway.engine.engine import Engine
from headway.errors import StoreError
from headway.statechart.snapshot import work_failed
from headway.store.queries import Claim, InstanceQuery, WorkQuery
from headway.store.sqlite.store import SqliteStore
from headway.testing import FakeClock
from tests.overlay import Overlay

pytestmark = pytest.mark.mission("ENG-10")
MOMENT = timedelta(microseconds=1)


class Payment(Statechart):
    """Work that is tried again after a while."""

    idle = State(initial=True)
    paying = State(run=Run("pay", retry=Retry(3, on="FLAKY", base="1h")))
    paid, failed = Final(), Final()
    pay = idle.to(paying)
    settle = paying.on_done.to(paid)
    fail = paying.on_error.to(failed)


@pytest.mark.parametrize(("early", "answer"), [(MOMENT, HASTENED), (timedelta(), None)], ids=str)
async def test_a_dry_run_says_what_the_retry_does_at_the_same_time(
    early: timedelta, answer: str | None
) -> None:
    """Work is hastened until just before it is due; what is due at this moment needs it no more."""
    clock = FakeClock()
    async with Engine(SqliteStore(":memory:", clock), [Payment]) as engine:
        (await engine.create("acme", "p", Payment)).unwrap()
        (await engine.send("acme", "p", Payment.pay())).unwrap()
        [work] = await engine.store.work.claim(Claim("w", ("default",), 1, engine.charts.versions))
        (await engine.send("acme", "p", work_failed(work.id, work.attempt, "FLAKY"))).unwrap()
        [row] = await engine.list(InstanceQuery("acme"))
        [waiting] = await engine.store.work.page(WorkQuery("acme"))
        clock.move_to(waiting.due - early)
        retrying = Retrying(engine, "acme")
        assert await retrying.rehearse([row]) == await retrying.perform([row]) == [Outcome("p", answer)]
        assert await retrying.rehearse([row]) == [Outcome("p", None)]


async def test_every_instance_has_an_outcome_however_many_there_are() -> None:
    """They are acted on some at a time, in order; an instance that refuses keeps none from theirs."""
    async with Engine(SqliteStore(":memory:"), [Payment]) as engine:
        names = [f"p{number:03}" for number in range(AT_ONCE + 1)]
        for name in names:
            (await engine.create("acme", name, Payment)).unwrap()
        (await engine.send("acme", names[0], Payment.pay())).unwrap()
        rows = await engine.list(InstanceQuery("acme", limit=1_000))
        outcomes = await Sending(engine, "acme", Event("pay")).perform(rows)
        assert [outcome.instance for outcome in outcomes] == names
        summary = Summary(lambda error: ("failed", str(error)))
        summary.add(outcomes)
        assert (summary.seen, summary.count("done"), summary.count("refused")) == (len(names), AT_ONCE, 1)
        assert len(await engine.list(InstanceQuery("acme", status="paying", limit=1_000))) == len(names)


async def test_a_store_that_fails_ends_the_act() -> None:
    """What was done stays done, and the caller hears of the failure."""

    async def broken(events: Sequence[object], _ids: object) -> list[StoreError]:
        return [StoreError("the disk is gone") for _ in events]

    async with Engine(SqliteStore(":memory:"), [Payment]) as engine:
        (await engine.create("acme", "p", Payment)).unwrap()
        rows = await engine.list(InstanceQuery("acme"))

        failing = Sending(cast("Engine", Overlay(engine, send_all=broken)), "acme", Event("pay"))
        with pytest.raises(StoreError, match="disk"):
            await failing.perform(rows)


def test_the_first_of_each_outcome_and_code_are_named() -> None:
    """As many as a sample holds, and all of them are counted."""
    summary = Summary(lambda error: (type(error).__name__, str(error)))
    for number in range(SAMPLE + 1):
        summary.add([Outcome(f"s{number}", None), Outcome(f"k{number}", KeyError("x"))])
    summary.add([Outcome("v", ValueError("y"))])
    assert [told.instance for told in summary.sample if told.outcome == "skipped"] == [
        f"s{number}" for number in range(SAMPLE)
    ]
    assert len(summary.sample) == 2 * SAMPLE + 1
    assert summary.count("skipped") == SAMPLE + 1
    assert summary.codes("failed") == {"KeyError": SAMPLE + 1, "ValueError": 1}
    assert summary.seen == 2 * SAMPLE + 3
