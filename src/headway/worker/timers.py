"""Sends the events of due timers, in due order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime

from headway.codec import decode, replace
from headway.engine.audit.dependents import PUT_OFF
from headway.engine.engine import Engine
from headway.engine.lease import SoleService
from headway.engine.orders import Answer
from headway.engine.service import LOG
from headway.errors import EngineError, StoreError
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Snapshot, timer_fired
from headway.store.rows import TimerRow
from headway.store.unit import Changes, Found, Reads

PAGE = 500
REMEMBERED = 10_000


class Timers(SoleService):
    """Fires timers when they are due."""

    name = "timers"
    by_versions = True

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._asleep_until: datetime | None = None
        self.lateness: deque[float] = deque(maxlen=REMEMBERED)
        """Seconds by which the last timers were late."""

    async def start(self) -> None:
        """Start, and wake up when a timer is set that is due before all others."""
        await super().start()
        self.engine.watch(self._look)

    async def stop(self) -> None:
        """Stop, and let another node take over at once."""
        if self._loop is not None:
            self.engine.unwatch(self._look)
        await super().stop()

    async def act(self) -> bool:
        """Fire a page of due timers."""
        due = await self.engine.store.timers.due(PAGE, self.engine.charts.versions)
        if not due:
            return False
        now = await self.engine.store.now()
        self.lateness.extend((now - timer.due).total_seconds() for timer in due)
        answers = await self._fire(due)
        answered = [pair for pair in zip(due, answers, strict=True) if not isinstance(pair[1], StoreError)]
        left = [timer for timer, answer in answered if not _fired(answer)]
        self.tally["fired"] += len(answered) - len(left)
        if left:
            await self._postpone(left, answers)
        # What failed because of the database is still due, and the service tries again soon.
        for answer in answers:
            if isinstance(answer, StoreError):
                raise answer
        return len(due) == PAGE

    async def rest(self) -> float:
        """Until the next timer is due; without the lease this node would find it again and again."""
        if not self._lease.is_held:
            return self.longest_rest
        # A timer that is set while the store answers may be missing: until then any new timer wakes it.
        self._asleep_until = None
        self._asleep_until = await self.engine.store.timers.next(self.engine.charts.versions)
        return await self.rest_until(self._asleep_until)

    def late_by(self, share: float) -> float:
        """The quantile of the lateness of the last timers, in seconds: `late_by(0.99)`."""
        ordered = sorted(self.lateness)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0

    async def _fire(self, due: Sequence[TimerRow]) -> Sequence[Answer | BaseException]:
        fired_by = f"fired by the node {self.engine.node}"
        return await self.engine.send_all(
            [((timer.tenant, timer.instance), timer_fired(timer.id, reason=fired_by)) for timer in due]
        )

    async def _postpone(self, left: Sequence[TimerRow], answers: Sequence[Answer | BaseException]) -> None:
        """Delete timers whose state was left; postpone those that fail, so that others are not held up."""
        for answer in answers:
            if not (_fired(answer) or _is_stale(answer) or isinstance(answer, StoreError)):
                LOG.warning("a timer could not fire and is postponed: %s", answer)
        unit = TimerPostponement(left)
        await self.engine.store.run(unit)
        self.tally["stale"] += unit.gone
        self.tally["put_off"] += len(left) - unit.gone

    def _look(self, changes: Changes) -> None:
        soonest = min((timer.due for timer in changes.timers), default=None)
        if soonest is not None and (self._asleep_until is None or soonest < self._asleep_until):
            self.wake()


class TimerPostponement:
    """A unit for timers that did not fire: deletes those that are no longer set, and postpones the others."""

    def __init__(self, timers: Sequence[TimerRow]) -> None:
        self._timers = timers

    def begin(self) -> Reads:
        """Read the instances."""
        self._changes = Changes()
        self.gone = 0
        return Reads(instances={(timer.tenant, timer.instance) for timer in self._timers})

    def take(self, found: Found) -> None:
        """Decide for each timer."""
        for timer in self._timers:
            row = found.instances.get((timer.tenant, timer.instance))
            known = None if row is None else decode(Snapshot, row.snapshot).timers.get(timer.id)
            if row is not None and known is not None:
                # An upgrade may have moved it meanwhile, or the clock was set back: then it is not due yet.
                # After an upgrade a node that knows the new version fires it, which may be another.
                is_upgraded = row.version != timer.version
                due = known.due if is_upgraded or known.due > found.now else found.now + PUT_OFF
                self._changes.timers.append(replace(timer, version=row.version, due=due))
            else:
                self._changes.timers_gone.append((timer.tenant, timer.id))
                self.gone += 1

    def changes(self) -> Changes:
        """The rows to write."""
        return self._changes


def _fired(answer: Answer | BaseException) -> bool:
    return not isinstance(answer, (Refusal, EngineError, BaseException))


def _is_stale(answer: Answer | BaseException) -> bool:
    return isinstance(answer, Refusal) and answer.code == "stale"
