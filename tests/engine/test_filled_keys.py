"""Keys and names that a chart fills in from the context: any text of a context can be stored."""

from __future__ import annotations

import pytest

from headway import Event, Run, State, Statechart
from headway.actions import add, live, record, topic
from headway.engine.orders import Receipt
from headway.statechart.model import Fact
from headway.testing import FakeClock, Harness
from tests.refusals import answer_to

pytestmark = pytest.mark.mission("ENG-1", "ENG-2")


class Owned(Statechart, owner="{user}"):
    """Belongs to somebody."""

    here = State(initial=True)
    go = here.stay()


class Knowing(
    Statechart,
    facts=(
        Fact(name="plan", kind="record", key="plan:{user}"),
        Fact(name="used", kind="counter", key="used:{user}"),
    ),
):
    """Stores what it reads."""

    here = State(initial=True)
    go = here.stay(do=(record("plan", "{user}"), add("used:{user}")), when="used < 2")


class Telling(Statechart):
    """Publishes under names of its own."""

    here = State(initial=True)
    go = here.stay(do=(topic("seen.{user}"), live("seen.{user}")))


class Working(Statechart):
    """Its work is for one worker."""

    here = State(initial=True)
    busy = State(run=Run("work", affinity="{user}"))
    go = here.to(busy)
    back = busy.on_done.to(here)


@pytest.mark.parametrize("chart", [Owned, Knowing, Telling, Working])
@pytest.mark.parametrize("user", ["a\0b", "\0", "ü" * 4_000], ids=["nul", "only nul", "long"])
async def test_a_key_is_filled_with_any_text(
    database: str, clock: FakeClock, chart: type[Statechart], user: str
) -> None:
    """A NUL character, which PostgreSQL does not store, and a long text are taken on both databases."""
    async with Harness(chart, database=database, clock=clock) as harness:
        (await harness.tenant.create(chart, "it", {"user": user})).unwrap()
        assert isinstance(await harness.tenant.send("it", Event("go")), Receipt)
        assert (await harness.tenant.get("it")).context["user"] == user


async def test_a_fact_is_found_under_the_key_that_an_action_filled(database: str, clock: FakeClock) -> None:
    """What was added under a key with a NUL character is read under it: the second time is the last."""
    async with Harness(Knowing, database=database, clock=clock) as harness:
        (await harness.tenant.create(Knowing, "it", {"user": "a\0b"})).unwrap()
        taken = [
            isinstance(await answer_to(harness.tenant.send("it", Knowing.go())), Receipt) for _ in range(3)
        ]
        assert taken == [True, True, False]
