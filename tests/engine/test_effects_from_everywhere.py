"""What a transition asks for happens on a node whatever has led to the transition."""

from __future__ import annotations

from typing import Any

import pytest

from headway import Ask, Final, Retry, State, Statechart, person
from headway.actions import add, record, spawn, tell, topic
from headway.engine.audit.audit import Audit
from headway.store.queries import LetterQuery, MessageQuery
from headway.testing import FakeClock, Harness
from headway.worker import Fail, Handlers, Work
from tests.store.contract.acts import found

pytestmark = pytest.mark.mission("ENG-3", "ENG-5", "ENG-12")
ANN = person("ann", "user")
ALL = (
    spawn("Trace"),
    topic("seen.{instance}"),
    record("seen", "{instance}"),
    add("seen:{instance}"),
    tell("'post'", "knock"),
)
"""A child, a message outside, a record, a counter, and a message to another instance."""


class Trace(Statechart):
    """A child that shows that it was created."""

    here = State(initial=True)


class Post(Statechart):
    """Counts who knocks."""

    open_ = State(initial=True)
    knock = open_.stay(counts="knocks")


class Ways(Statechart):
    """Each state leads to the next by another cause, and then to the same end."""

    idle = State(initial=True)
    at_entry = State(entry=ALL)
    at_exit = State(exit=ALL)
    passed = State()
    timed, asked, late = State(), State(ask=Ask("user")), State(ask=Ask("user", deadline="1h"))
    working = State(run="work")
    failing = State(run="fail", retry=Retry(times=2, base="1s"))
    rest = State()

    entry = idle.to(at_entry)
    exit_ = idle.to(at_exit)
    leave = at_exit.always.to(rest)
    moved = idle.to(rest, do=ALL)
    eventless = idle.to(passed)
    passing = passed.always.to(rest, do=ALL)
    wait = idle.to(timed)
    ring = timed.after("1h").to(rest, do=ALL)
    ask_user = idle.to(asked)
    agree = asked.to(rest, by="user", do=ALL)
    run_late = idle.to(late)
    agree_late = late.to(rest, by="user")
    miss = late.on_deadline.to(rest, do=ALL)
    work_done = idle.to(working)
    finish = working.on_done.to(rest, do=ALL)
    work_failed = idle.to(failing)
    give_up = failing.on_error.to(rest, do=ALL)
    upgrade = idle.to(rest)


class Newer(Statechart, name="Ways", version=2):
    """After an upgrade the last state does not hold an instance any longer."""

    idle = State(initial=True)
    at_entry = State(entry=ALL)
    rest = State()
    over = Final()
    end = rest.always.to(over, do=ALL)
    begin = idle.to(rest)
    go_on = at_entry.to(rest)


WAYS = "entry exit_ moved eventless wait ask_user run_late work_done work_failed"


@pytest.fixture
def handlers() -> Handlers:
    """One that succeeds, one that fails."""
    handlers = Handlers()

    @handlers
    async def work(_: Work) -> None:
        """Nothing to do."""

    @handlers
    async def fail(_: Work) -> Fail:
        return Fail("BROKEN")

    return handlers


async def seen(harness: Harness, name: str) -> tuple[list[str], list[str], int, bool]:
    """Children, topics, the counter and whether there is a record, of an instance."""
    store, tenant = harness.node.engine.store, "default"
    children = [row.chart for row in await harness.tenant.list(parent=name)]
    page = await store.messages.page(MessageQuery(kinds=("topic",), limit=500))
    topics = [each.name for each in page.messages if each.instance == name]
    counter, kept = (tenant, f"seen:{name}"), (tenant, "seen", name)
    rows = await found(store, counters={counter}, records={kept})
    return children, topics, rows.counters.get(counter, 0), kept in rows.records


async def quiet(harness: Harness) -> None:
    """No message is dead, and the audit finds nothing."""
    store = harness.node.engine.store
    assert await store.letters.page(LetterQuery(dead=True, limit=10)) == []
    assert [str(flaw) async for flaw in Audit(store).everything()] == []


async def test_every_cause_of_a_transition_leads_to_all_it_asks_for(
    database: str, clock: FakeClock, handlers: Handlers
) -> None:
    """Entry, exit, event, no event, timer, answer, deadline, work that ends and work that fails."""
    async with Harness(Trace, Post, Ways, handlers=handlers, database=database, clock=clock) as harness:
        (await harness.tenant.create(Post, "post")).unwrap()
        for way in WAYS.split():
            (await harness.tenant.create(Ways, way)).unwrap()
            (await harness.tenant.send(way, getattr(Ways, way)())).unwrap()
        (await harness.tenant.send("ask_user", Ways.agree(by=ANN))).unwrap()
        await harness.advance("2h")
        for way in WAYS.split():
            assert await seen(harness, way) == (["Trace"], [f"seen.{way}"], 1, True), way
        assert (await harness.tenant.get("post")).counters["knocks"] == len(WAYS.split())
        await quiet(harness)


async def test_an_upgrade_that_moves_an_instance_on_leads_to_it_too(
    database: str, clock: FakeClock, handlers: Handlers
) -> None:
    """The step that changes the version spawns, tells, records and counts, also when it ends the instance."""
    settings: dict[str, Any] = {"handlers": handlers, "database": database, "clock": clock}
    async with Harness(Trace, Post, Ways, **settings) as harness:
        (await harness.tenant.create(Post, "post")).unwrap()
        (await harness.tenant.create(Ways, "old")).unwrap()
        (await harness.tenant.send("old", Ways.upgrade())).unwrap()
    async with Harness(Trace, Post, Ways, Newer, **settings) as harness:
        (await harness.node.engine.upgrade("default", "old", 2)).unwrap()
        await harness.run_until_idle()
        assert (await harness.tenant.get("old")).ended
        assert await seen(harness, "old") == (["Trace"], ["seen.old"], 1, True)
        assert (await harness.tenant.get("post")).counters["knocks"] == 1
        await quiet(harness)
