"""What a program forgot to bring along is told when it starts, not when a life stands still."""

import logging

import pytest

from headway import Final, Run, State, Statechart
from headway.actions import spawn
from headway.engine.engine import Engine
from headway.node import Node
from headway.store.sqlite.store import SqliteStore
from headway.testing import Harness
from headway.worker import Handlers, Work


class Leaf(Statechart):
    """A child."""

    leaving = State(initial=True, run="leave")
    gone = Final()
    done = leaving.on_done.to(gone)


class Tree(Statechart):
    """Two kinds of work, one of them for others, and a child."""

    fetching = State(initial=True, run="fetch", entry=spawn("Leaf"))
    parsing = State(run="parse")
    filing = State(run=Run("file", queue="slow"))
    over = Final()
    fetched = fetching.on_done.to(parsing)
    parsed = parsing.on_done.to(filing)
    filed = filing.on_done.to(over)


def fetching() -> Handlers:
    """Handlers of which one is missing."""
    handlers = Handlers()

    @handlers
    async def fetch(_work: Work) -> None:
        """Done."""

    @handlers
    async def leave(_work: Work) -> None:
        """Done."""

    return handlers


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was warned of."""
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.mission("ENG-10")
async def test_a_node_warns_of_work_that_it_has_no_handler_for(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One line for each name, for the queues that it serves; none when somebody else does the work."""
    async with Node(database, [Tree, Leaf], handlers=fetching()):
        pass
    [told] = warnings(caplog)
    assert told == (
        "no handler here is called parse, which queue default brings (Tree v1 in parsing):"
        " that work waits until a process has one"
    )
    caplog.clear()
    async with Node(database, [Tree, Leaf]):
        pass
    assert warnings(caplog) == []


@pytest.mark.mission("ENG-10")
async def test_why_tells_that_nobody_here_does_the_work() -> None:
    """What this process knows is said, and that another one may do it; who has no worker knows nothing."""
    async with Harness(Tree, Leaf, handlers=fetching()) as life:
        await life.tenant.create(Tree, "t1")
        told = await life.tenant.why("t1")
        assert [work.handled_here for work in told.work] == [True]
        assert "does not handle" not in str(told)
        await life.run_until_idle()
        told = await life.tenant.why("t1")
        assert [work.handled_here for work in told.work] == [False]
        assert (
            "The worker of this process does not handle parse in queue default: it waits until another"
            " process does."
        ) in str(told)
    async with Harness(Tree, Leaf) as life:
        await life.tenant.create(Tree, "t1")
        assert [work.handled_here for work in (await life.tenant.why("t1")).work] == [None]


@pytest.mark.mission("ENG-12")
async def test_an_engine_warns_of_children_that_it_does_not_know(caplog: pytest.LogCaptureFixture) -> None:
    """A chart that spawns another one needs it; it may be registered later, so it is a warning."""
    async with Engine(SqliteStore(":memory:"), [Tree]):
        pass
    [told] = warnings(caplog)
    assert told == (
        "Tree v1 spawns Leaf, which is not registered:"
        " give the engine that chart too, or the event that spawns one will fail"
    )
    caplog.clear()
    async with Engine(SqliteStore(":memory:"), [Tree, Leaf]):
        pass
    assert warnings(caplog) == []
