"""`python -m tests.chaos.bugged BUG,BUG SETTING`: a process of a run with bugs in it."""

import asyncio
import sys
from random import Random
from typing import Any

from chaos import disk, worker
from chaos.process import main
from headway.codec import replace as altered
from headway.engine.batch import Batch, ChildReports
from headway.engine.engine import Engine
from headway.outbox.relay import Relay
from headway.statechart.refusal import Veto
from headway.statechart.step import fencing
from headway.statechart.step import work as step_work
from headway.store.sqlite.connection import Connection
from headway.worker.heartbeat import Deadlines, Heartbeat

LATE = 0.3
SELDOM = 0.03
replace = setattr


def answers_without_a_commit() -> None:
    """A store that now and then says that it has written, and has not."""
    commit, random = Connection._commit, Random(1)

    def careless(self: Any) -> None:
        if random.random() < SELDOM:
            self._roll_back()
        else:
            commit(self)

    replace(Connection, "_commit", careless)


def requests_are_not_remembered() -> None:
    """A repeated request runs again."""
    replace(Batch, "_remember", lambda *_: None)


def no_fencing() -> None:
    """A worker that does not notice that its work was given to others, and nobody who refuses its outcome."""

    def open_work(draft: Any, event: Any) -> Any:
        for state, each in draft.work.items():
            if each.id == event.ref:
                return state, each
        raise Veto("stale", "gone")

    async def nothing(*_: Any) -> bool:
        return False

    replace(worker, "SHORT", worker.LONG)  # most of the work is under way when its worker wakes up

    for module in (fencing, step_work):
        replace(module, "open_work", open_work)
    for service in (Heartbeat, Deadlines):
        replace(service, "turn", nothing)


def the_cursor_moves_first() -> None:
    """A relay that writes how far it is before it delivers."""
    work_through = Relay._work_through

    async def hasty(self: Any, plan: Any) -> bool:
        if not await self._settle(self._state.settlement(plan.cursor)):
            return False
        await asyncio.sleep(0 if plan.is_empty else LATE)
        return await work_through(self, plan)

    replace(Relay, "_work_through", hasty)


def reads_are_stale() -> None:
    """An engine that remembers what it has read for too long."""
    get = Engine.get
    known: dict[str, tuple[float, Any]] = {}

    async def cached(self: Engine, tenant: str, instance: str) -> Any:
        at, snapshot = known.get(instance, (0.0, None))
        now = asyncio.get_running_loop().time()
        if snapshot is None or now - at > LATE:
            snapshot = await get(self, tenant, instance)
            known[instance] = (now, snapshot)
        return snapshot

    replace(Engine, "get", cached)


def versions_are_not_compared() -> None:
    """An update that overwrites what its sender has not seen."""
    expected = Batch._expected

    def blind(self: Batch, order: Any) -> Any:
        order.expected_seq = None
        return expected(self, order)

    replace(Batch, "_expected", blind)


def sums_have_no_errors() -> None:
    """A parent that hears of its children together, and not of their errors."""
    plus = ChildReports.plus
    replace(ChildReports, "plus", lambda self, report: plus(self, altered(report, errors=0)))


def disks_never_fail() -> None:
    """A process whose writes succeed whatever it is told."""
    replace(disk, "obey", lambda *_: None)


BUGS = {
    bug.__name__: bug
    for bug in (
        answers_without_a_commit,
        requests_are_not_remembered,
        no_fencing,
        the_cursor_moves_first,
        reads_are_stale,
        versions_are_not_compared,
        sums_have_no_errors,
        disks_never_fail,
    )
}

if __name__ == "__main__":
    for name in sys.argv[1].split(","):
        BUGS[name]()
    main(sys.argv[2])
