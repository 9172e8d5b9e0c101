"""Work whose worker is gone is taken from it, and the chart decides what follows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from headway.codec import decode, replace
from headway.engine.lease import SoleService
from headway.engine.service import LOG
from headway.errors import StoreError
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Snapshot, work_lost
from headway.store.port import Changes, Found, Reads
from headway.store.rows import WorkRow

PAGE = 500
PUT_OFF = timedelta(minutes=1)
SHORTEST_REST = 0.2


class Rescue(SoleService):
    """Ends attempts whose lease has run out."""

    name = "rescue"
    longest_rest = 5.0

    async def act(self) -> bool:
        """Take a page of lost work from its workers."""
        lost = await self.engine.store.expired_work(PAGE)
        if not lost:
            return False
        answers = await self.engine.send_all(
            [((row.tenant, row.instance), work_lost(row.id, row.attempt)) for row in lost]
        )
        left, unknown = [], None
        for row, answer in zip(lost, answers, strict=True):
            if isinstance(answer, StoreError):
                # The next turn finds it again; put off, the same attempt would be handed out a second time.
                unknown = answer
            elif isinstance(answer, (Refusal, BaseException)):
                LOG.warning("%s of %s was lost by %s: %s", row.id, row.instance, row.worker, answer)
                left.append(row)
        if left:
            await self.engine.store.run(Sweep(left))
        if unknown is not None:
            raise unknown
        self.tally["rescued"] += len(lost) - len(left)
        return len(lost) == PAGE

    async def rest(self) -> float:
        """Until the next lease runs out."""
        return await self.rest_until(await self.engine.store.next_work(), SHORTEST_REST)


class Sweep:
    """A unit for lost work that no instance took back: orphans go, the rest can be claimed again later."""

    def __init__(self, lost: Sequence[WorkRow]) -> None:
        self._lost = lost

    def begin(self) -> Reads:
        """Look at the instances."""
        self._changes = Changes()
        return Reads(instances={(row.tenant, row.instance) for row in self._lost})

    def take(self, found: Found) -> None:
        """Decide for each item."""
        for row in self._lost:
            held = found.instances.get((row.tenant, row.instance))
            wanted = decode(Snapshot, held.snapshot).work.values() if held is not None else ()
            if any((work.id, work.attempt) == (row.id, row.attempt) for work in wanted):
                again = replace(row, worker=None, leased_until=None, started_at=None, due=found.now + PUT_OFF)
                self._changes.work.append(again)
            elif not any(work.id == row.id for work in wanted):
                self._changes.work_gone.append((row.tenant, row.id))

    def changes(self) -> Changes:
        """What was decided."""
        return self._changes
