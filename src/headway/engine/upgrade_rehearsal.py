"""The rehearsal of an upgrade: every living instance is tried, and nothing is written.

It says how many would be the same, mapped, in need of a rule or stranded, what would change for them, and
which steps of their own histories the new chart would not take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from headway.codec import Scratch, decode
from headway.engine.engine import Engine
from headway.engine.upgrade_facts import known_of
from headway.engine.upgrade_family import Family
from headway.engine.upgrade_past import Past, past_of
from headway.engine.upgrade_versions import Versions, pages, prepared
from headway.errors import UnknownChartError
from headway.statechart.chart import Chart
from headway.statechart.passing import Fitness, Outlook, outlook
from headway.statechart.replay import Replay
from headway.statechart.snapshot import Snapshot
from headway.store.rows import InstanceRow

MOST_EXAMPLES = 3
MOST_KINDS = 500
FITNESS: tuple[Fitness, ...] = ("same", "mapped", "rule", "stranded")
OTHERS = "(others)"


class Tally(Scratch):
    """How often something is so, and a few instances of which it is."""

    count: int = 0
    examples: list[str] = []

    def add(self, instance: str, times: int = 1) -> None:
        """One more, or so many."""
        self.count += times
        if len(self.examples) < MOST_EXAMPLES and instance not in self.examples:
            self.examples.append(instance)


Tallies = dict[str, Tally]


def _count(tallies: Tallies, kind: str, instance: str, times: int = 1) -> None:
    """One more of a kind, or so many; how many kinds are kept is bounded."""
    if kind not in tallies and len(tallies) >= MOST_KINDS:
        kind = OTHERS
    tallies.setdefault(kind, Tally()).add(instance, times)


def most_common(tallies: Tallies) -> list[tuple[str, Tally]]:
    """The kinds, the most common first."""
    return sorted(tallies.items(), key=lambda each: (-each[1].count, each[0]))


class Rehearsal(Scratch):
    """The proof: what an upgrade would do to the living instances of a chart."""

    chart: str
    to: int
    already: int = 0
    fitness: Tallies = {}
    versions: Tallies = {}
    changes: Tallies = {}
    problems: Tallies = {}
    history: Tallies = {}
    lines: int = 0
    due_at_once: int = 0
    next_due: datetime | None = None

    @property
    def instances(self) -> int:
        """How many would be upgraded."""
        return sum(tally.count for tally in self.fitness.values())

    @property
    def ok(self) -> bool:
        """Whether none needs a rule or would be stranded."""
        return not self.fitness.keys() & {"rule", "stranded"}


async def rehearse(
    engine: Engine,
    chart: str,
    to: int,
    *,
    replay: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Rehearsal:
    """Try an upgrade on every living instance; raises UnknownChartError and ChartChangedError."""
    new = await prepared(engine, chart, to)
    rehearsal = Rehearsal(chart, to)
    stage = Stage(engine, new, rehearsal, replay=replay)
    seen = 0
    async for page in pages(engine.store, chart):
        await stage.play(page)
        seen += len(page)
        if progress is not None:
            progress(seen)
    return rehearsal


class Stage:
    """Where instances are tried, a page at a time."""

    def __init__(self, engine: Engine, new: Chart, rehearsal: Rehearsal, *, replay: bool) -> None:
        self._engine, self._new, self._rehearsal, self._replay = engine, new, rehearsal, replay
        self._versions = Versions(engine, new)
        self._family = Family(engine, new)
        self._replays: dict[int, Replay] = {}

    async def play(self, page: Sequence[InstanceRow]) -> None:
        """Try the instances of a page."""
        rows = [row for row in page if row.version < self._new.version]
        self._rehearsal.already += len(page) - len(rows)
        snapshots = [decode(Snapshot, row.snapshot) for row in rows]
        known = await known_of(self._engine, self._new, rows, snapshots)
        pasts = await asyncio.gather(*(self._past(row) for row in rows))
        await self._family.meet(rows)
        for row, snapshot, facts, past in zip(rows, snapshots, known.facts, pasts, strict=True):
            await self._try(row, snapshot, (known.now, facts), past)

    async def _past(self, row: InstanceRow) -> Past | UnknownChartError:
        """What an instance has done, as far as it matters."""
        try:
            if self._replay or self._versions.watched_anew(row.version):
                return await past_of(self._engine.store, (row.tenant, row.id), self._versions)
        except UnknownChartError as error:
            return error
        return Past(self._versions)

    async def _try(
        self,
        row: InstanceRow,
        snapshot: Snapshot,
        moment: tuple[datetime, Mapping[str, Any]],
        past: Past | UnknownChartError,
    ) -> None:
        now, facts = moment
        if isinstance(past, UnknownChartError):
            self._keep(row, snapshot, Outlook("rule", problems=(str(past),)), now)
            return
        watched = self._versions.watched_anew(row.version)
        acted = {name: who for name, who in past.acted.items() if name in watched}
        old = self._versions.chart(row.version)
        view = outlook(old, self._new, snapshot, now, born=row.created_at, facts=facts, acted=acted)
        if view.possible and view.step is not None:
            problems = await self._family.problems(row, old, view.step)
            view = Outlook("rule", problems=problems) if problems else view
        self._keep(row, snapshot, view, now)
        if self._replay:
            self._play_again(row, old, past)

    def _keep(self, row: InstanceRow, before: Snapshot, view: Outlook, now: datetime) -> None:
        name, rehearsal = f"{row.tenant}/{row.id}", self._rehearsal
        _count(rehearsal.fitness, view.fitness, name)
        _count(rehearsal.versions, f"{row.version}", name)
        for change in view.changes:
            _count(rehearsal.changes, change, name)
        for problem in view.problems:
            _count(rehearsal.problems, problem, name)
        if view.step is None:
            return
        for key, timer in view.step.snapshot.timers.items():
            was = before.timers.get(key)
            if was is None or was.due != timer.due:
                rehearsal.due_at_once += timer.due <= now
            rehearsal.next_due = min(rehearsal.next_due or timer.due, timer.due)

    def _play_again(self, row: InstanceRow, old: Chart, past: Past) -> None:
        replay = self._replays.setdefault(row.version, Replay(old, self._new))
        for turn, count in past.turns.items():
            fate = replay.fate(turn)
            if fate is None:
                continue
            self._rehearsal.lines += count
            if fate != "same":
                kind = f"{FATES[fate]}: {turn.transition} in {turn.before}"
                _count(self._rehearsal.history, kind, f"{row.tenant}/{row.id}", count)


FATES = {"refused": "would be refused", "elsewhere": "would lead elsewhere"}
