"""Rescue: ends attempts whose worker is gone, and lets a restarted node take over its own leases."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime

from headway.codec import decode, replace
from headway.engine.audit.dependents import PUT_OFF
from headway.engine.engine import Engine
from headway.engine.lease import SoleService
from headway.engine.service import LOG, Service
from headway.errors import StoreError
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Event, Snapshot, work_lost
from headway.store.rows import Attempt, WorkRow, WorkVersion
from headway.store.unit import Changes, Found, Reads

PAGE = 500
SHORTEST_REST = 0.2
MOST_REMEMBERED = 10_000
SHORT_REST = 0.2
LONG_REST = 5.0
QUICK_TRIES = 25
"""How many tries follow quickly: the end of a process may become known after the next one starts."""


class Rescue(SoleService):
    """Ends attempts whose lease has expired.

    If an instance refuses the event, because a function of its chart fails, it is sent again later; until
    then nobody else can claim the same attempt, whose worker may still run.
    """

    name = "rescue"
    by_versions = True
    longest_rest = 5.0

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._refused: set[Attempt] = set()

    async def act(self) -> bool:
        """End a page of lost attempts."""
        lost = await self.engine.store.work.expired(PAGE, self.engine.charts.versions)
        if not lost:
            return False
        answers = await self.engine.send_all([((row.tenant, row.instance), self._lost(row)) for row in lost])
        left, refused, unknown = [], set(), None
        for row, answer in zip(lost, answers, strict=True):
            if isinstance(answer, StoreError):
                # The next turn finds it again; postponed, the same attempt could be claimed a second time.
                unknown = answer
            elif isinstance(answer, (Refusal, BaseException)):
                left.append(row)
                if isinstance(answer, Refusal):
                    refused.add(_attempt(row))
                if _attempt(row) not in self._refused:
                    LOG.warning("%s of %s was lost by %s: %s", row.id, row.instance, row.worker, answer)
        if left:
            await self.engine.store.run(WorkPostponement(left, refused))
        self._remember(lost, refused)
        if unknown is not None:
            raise unknown
        self.tally["rescued"] += len(lost) - len(left)
        return len(lost) == PAGE

    def _lost(self, row: WorkRow) -> Event:
        """The event for a lost attempt; the history shows who lost it, and which node ended it."""
        message = f"the worker {row.worker} was lost; the node {self.engine.node} ended its attempt"
        return work_lost(row.id, row.attempt, message=message)

    def _remember(self, lost: Sequence[WorkRow], refused: set[Attempt]) -> None:
        """Remember what was refused, to log it only once."""
        self._refused.difference_update(map(_attempt, lost))
        if len(self._refused) < MOST_REMEMBERED:
            self._refused |= refused

    async def rest(self) -> float:
        """Until the next lease expires."""
        return await self.rest_until(await self.engine.store.work.next(), SHORTEST_REST)


class WorkPostponement:
    """A unit for lost attempts that could not be ended: deletes orphans, and postpones the rest.

    What its instance refused stays with its worker for a while; what was upgraded meanwhile stays until a
    node that knows the new version rescues it; the rest can be claimed again later.
    """

    def __init__(self, lost: Sequence[WorkRow], refused: Collection[Attempt] = ()) -> None:
        self._lost, self._refused = lost, refused

    def begin(self) -> Reads:
        """Read the instances."""
        self._changes = Changes()
        return Reads(instances={(row.tenant, row.instance) for row in self._lost})

    def take(self, found: Found) -> None:
        """Decide for each item."""
        for row in self._lost:
            held = found.instances.get((row.tenant, row.instance))
            wanted = decode(Snapshot, held.snapshot).work.values() if held is not None else ()
            if held is None or not any(work.id == row.id for work in wanted):
                self._changes.work_gone.append((row.tenant, row.id))
            elif held.version != row.version:
                # Postponed as it was read, it could be claimed by nodes that know only the old version.
                self._changes.work_versions.append(WorkVersion(row.tenant, row.id, held.version))
            elif any((work.id, work.attempt) == (row.id, row.attempt) for work in wanted):
                self._changes.work.append(self._postponed(row, found.now + PUT_OFF))

    def _postponed(self, row: WorkRow, until: datetime) -> WorkRow:
        if _attempt(row) in self._refused:
            return replace(row, leased_until=until)
        return replace(row, worker=None, leased_until=None, due=until)

    def changes(self) -> Changes:
        """The rows to write."""
        return self._changes


def _attempt(row: WorkRow) -> Attempt:
    return (row.tenant, row.id, row.attempt)


class Takeover(Service):
    """Takes the name of a node, which ends the leases of the process that had it before.

    The name is free only when that process has certainly ended: if two processes run under one name by
    mistake, the second takes nothing from the first. `taken` is called when the name is taken.
    """

    name = "takeover"

    def __init__(self, engine: Engine, node: str, worker: str, taken: Callable[[], None]) -> None:
        super().__init__()
        self._store, self._node, self._worker, self._taken = engine.store, node, worker, taken
        self._has_name = False
        self._tries = 0

    async def start(self) -> None:
        """Take the name before anything else starts, if it is free; else try in the background."""
        with suppress(StoreError):  # the first turn in the background logs it
            await self.turn()
        await super().start()

    async def turn(self) -> bool:
        """Take the name, or check that this process still has it."""
        had = self._has_name
        self._has_name = await self._store.leases.take_name(self._node, self._worker)
        self._tries += 1
        if self._has_name and not had:
            self._taken()
            await self._store.announce(["leases"])
        elif not self._has_name and self._tries == QUICK_TRIES:
            LOG.warning(
                "another process runs as node %s: give each process a name of its own; work of the other is"
                " taken over only when its leases expire",
                self._node,
            )
        return False

    async def rest(self) -> float:
        """A moment while the name may soon become free, longer afterwards."""
        return LONG_REST if self._has_name or self._tries > QUICK_TRIES else SHORT_REST
