"""Tallies: how many instances are in which leaf states, kept right from the log of events.

A tally of a tenant is made when somebody asks for it, and dropped when nobody has asked for a while. It
begins with counts that are true at a cursor, and reads on from there; when lines were pruned before it has
read them, it begins again. Sends know nothing of it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from headway.codec import Plain, decode
from headway.engine.engine import Engine
from headway.engine.flow import Flow, bucket_of
from headway.engine.service import Service
from headway.engine.tail import Follower, Tail
from headway.errors import InputError, StoreError, StoreUnavailableError
from headway.statechart.upgrade.instance import UNDO, UPGRADE
from headway.store.queries import StateCounts
from headway.store.rows import PRUNED, Cursor, EventRow, LogRow, Pruned

MOST_WAITING = 10_000
MOST_PASSAGES = 20_000
"""Further ones are not counted: the product of many regions may have more."""
LONGEST_WAIT = 30.0
"""Seconds in which there must be numbers."""
IDLE = 600.0
"""After so many seconds in which nobody has asked, a tally is dropped."""


class Group(NamedTuple):
    """Instances of a version that are in the same leaf states."""

    chart: str
    version: int
    states: str


class Passage(NamedTuple):
    """A transition between two sets of leaf states."""

    chart: str
    version: int
    transition: str
    before: str
    after: str


class UpgradedFrom(Plain, forbid_unknown_fields=False):
    """What the line of an upgrade says of the version before."""

    version: int


class DoubtError(InputError):
    """A tally cannot follow from what it has read: it begins again."""


class Tally:
    """The numbers of a tenant: instances by group, how they flow, and how long they stay."""

    def __init__(self) -> None:
        self.now: Counter[Group] = Counter()
        self.entered: dict[Group, Flow] = {}
        self.left: dict[Group, Flow] = {}
        """How many left, by the bucket of how long they had stayed."""
        self.passages: dict[Passage, Flow] = {}
        self.changed: set[Group] = set()
        """Groups whose numbers have changed since somebody has emptied this set."""
        self._flowed = Cursor()

    def begin(self, counts: StateCounts) -> None:
        """Start from counts; what has flowed since before stays known, and is not counted twice."""
        now = Counter({Group(each.chart, each.version, each.states): each.count for each in counts.items})
        self.changed |= {group for group in {*now, *self.now} if now[group] != self.now[group]}
        self.now = now
        self._flowed = max(self._flowed, counts.cursor)

    def take(self, event: LogRow) -> None:
        """Count an event; raises DoubtError for one that does not follow from the counts."""
        if isinstance(event, EventRow):
            before, after = moved(event)
            flows = event.cursor > self._flowed
            if before != after or event.line.since is not None:
                self._move(event, before, after, flows=flows)
            if flows:
                self._flow(event)
        elif event.message.kind == PRUNED:
            gone = decode(Pruned, event.message.data or "")
            self._add(Group(event.chart, gone.version, gone.states), -gone.count)

    def _move(self, event: EventRow, before: Group | None, after: Group, *, flows: bool) -> None:
        line = event.line
        if before is not None:
            self._add(before, -1)
        self._add(after, 1)
        if not flows:
            return
        self.entered.setdefault(after, Flow()).add(line.at)
        if before is not None and line.since is not None and line.event not in {UPGRADE, UNDO}:
            seconds = (line.at - line.since).total_seconds()
            self.left.setdefault(before, Flow()).add(line.at, bucket_of(seconds))

    def _add(self, group: Group, by: int) -> None:
        self.now[group] += by
        self.changed.add(group)
        if self.now[group] < 0:
            raise DoubtError(f"fewer than none are in {group.states} of {group.chart} v{group.version}")
        if not self.now[group]:
            del self.now[group]

    def _flow(self, event: EventRow) -> None:
        line = event.line
        passage = Passage(event.chart, line.version, line.transition, line.before, line.after)
        if line.transition and (passage in self.passages or len(self.passages) < MOST_PASSAGES):
            self.passages.setdefault(passage, Flow()).add(line.at)
        self._flowed = event.cursor


def moved(event: EventRow) -> tuple[Group | None, Group]:
    """From which group to which a line leads; raises DoubtError if it is an upgrade from nowhere."""
    line = event.line
    after = Group(event.chart, line.version, line.after)
    if not line.before:
        return None, after
    if line.event not in {UPGRADE, UNDO}:
        return Group(event.chart, line.version, line.before), after
    try:
        was = decode(UpgradedFrom, line.data or "").version
    except InputError as error:
        raise DoubtError(str(error)) from error
    return Group(event.chart, was, line.before), after


class TenantTally(Service):
    """Keeps the tally of a tenant while it runs; a turn lasts until it has to begin again."""

    name = "tally"
    transient = (StoreError, DoubtError)

    def __init__(self, engine: Engine, tail: Tail, tenant: str) -> None:
        super().__init__()
        self._engine, self._tail, self._tenant = engine, tail, tenant
        self.numbers = Tally()
        self.since: datetime | None = None
        """From when on it has seen what flows."""
        self.asked_at = 0.0
        self._follower: Follower | None = None
        self._held: Cursor | None = None
        """The cursor of its numbers while it has an event that it has not counted yet."""
        self._begun = asyncio.Event()

    @property
    def cursor(self) -> Cursor:
        """The place in the log at which its numbers are true."""
        return self._held or (Cursor() if self._follower is None else self._follower.cursor)

    async def ready(self) -> None:
        """Wait until there are numbers."""
        await self._begun.wait()

    async def oldest(self) -> Mapping[Group, datetime | None]:
        """When the instance that is longest in each group got there."""
        found = await self._engine.store.instances.oldest(self._tenant)
        return {Group(each.chart, each.version, each.states): each.oldest for each in found}

    async def turn(self) -> bool:
        """Begin with counts and follow the log, until it has a gap or ends; True, to begin again."""
        counts = await self._engine.store.instances.counts(self._tenant)
        if self.since is None:
            self.since = await self._engine.store.now()
        follower = self._tail.follow(counts.cursor, tenant=self._tenant, most_waiting=MOST_WAITING)
        self.tally["begun"] += 1
        async with follower:
            self.numbers.begin(counts)
            self._follower = follower
            self._begun.set()
            try:
                return await self._has_gap(follower)
            finally:
                self._begun.clear()
                self._follower = self._held = None

    async def _has_gap(self, follower: Follower) -> bool:
        """Count until lines were pruned that are not known to be read before; False if the log ends."""
        counted = settled = follower.cursor
        async for event in follower:
            if not isinstance(event, EventRow) and event.message.kind == PRUNED:
                self._held = counted
                if settled < await self._engine.store.events.forgotten():
                    return True
                self._held = None
            self.numbers.take(event)
            self.tally["events"] += 1
            counted = follower.cursor
            if not follower.waits:
                settled = counted
        return False


class Tallies(Service):
    """The tallies that somebody has asked for lately."""

    name = "tallies"
    longest_rest = 60.0

    def __init__(self, engine: Engine, tail: Tail) -> None:
        super().__init__()
        self._engine, self._tail = engine, tail
        self._kept: dict[str, TenantTally] = {}

    async def of(self, tenant: str) -> TenantTally:
        """The tally of a tenant, with numbers in it; raises StoreUnavailableError."""
        tally = self._kept.get(tenant)
        if tally is None:
            tally = self._kept[tenant] = TenantTally(self._engine, self._tail, tenant)
            await tally.start()
        tally.asked_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                await tally.ready()
        except TimeoutError as error:
            raise StoreUnavailableError("the instances could not be counted in time") from error
        return tally

    async def turn(self) -> bool:
        """Drop those for which nobody has asked for a while."""
        now = asyncio.get_running_loop().time()
        for tenant in [*self._idle(now)]:
            await self._kept.pop(tenant).stop()
        return False

    async def stop(self) -> None:
        """Stop all of them."""
        await super().stop()
        for tally in self._kept.values():
            await tally.stop()
        self._kept.clear()

    def _idle(self, now: float) -> Iterator[str]:
        return (tenant for tenant, tally in self._kept.items() if now - tally.asked_at > IDLE)
