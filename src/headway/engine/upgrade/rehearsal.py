"""The rehearsal of an upgrade: what it would do to each living instance, without changing any."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from headway.codec import Scratch
from headway.engine.commit import stored_snapshot
from headway.engine.engine import Engine
from headway.engine.facts import Facts, read_facts
from headway.engine.registry import stored_chart
from headway.engine.upgrade.activity import Activity, activity_of
from headway.engine.upgrade.versions import Versions, pages, prepared
from headway.errors import HeadwayError, UnknownChartError
from headway.statechart.chart import Chart
from headway.statechart.effects import ReportToParent, SpawnChild
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Snapshot, child_changed
from headway.statechart.step.step import Step, step
from headway.statechart.upgrade.assessment import Fitness, HistoryReplay, Outlook, outlook
from headway.statechart.upgrade.diff import lost_child_statuses
from headway.store.rows import InstanceRow, Key

REGISTER = "register it, or name its lifecycle with --app"


class Family:
    """Tries what would follow for others, and changes nothing."""

    def __init__(self, engine: Engine, new: Chart) -> None:
        self._engine, self._new = engine, new
        self._parents: dict[Key, InstanceRow | None] = {}
        self._charts: dict[tuple[str, int], Chart] | None = None

    async def meet(self, rows: Iterable[InstanceRow]) -> None:
        """Look the parents of a page of instances up, at once."""
        keys = {(row.tenant, row.parent) for row in rows if row.parent is not None}
        found = await self._engine.store.instances.look_up(keys) if keys else ()
        self._parents = dict.fromkeys(keys) | {(row.tenant, row.id): row for row in found}

    async def problems(self, row: InstanceRow, old: Chart, done: Step) -> tuple[str, ...]:
        """What would be in the way of an upgrade that the instance itself could take."""
        return *await self._in_vain(row, old), *await self._untaken((row.tenant, row.id), done)

    async def _parent(self, tenant: str, name: str) -> InstanceRow | None:
        """A parent that lives."""
        key = (tenant, name)
        if key not in self._parents:
            self._parents[key] = await self._engine.store.instances.get(key)
        row = self._parents[key]
        return None if row is None or row.ended else row

    async def _in_vain(self, row: InstanceRow, old: Chart) -> list[str]:
        """What its parent would wait for, and could never come."""
        parent = None if row.parent is None else await self._parent(row.tenant, row.parent)
        chart = None if parent is None else await self._known(parent)
        if chart is None:
            return []
        return [
            f"its parent lives by {_name(chart)}, which counts children.{status}, and none would be {status}"
            f" any more: first bring {chart.name} to a version that counts what they are then"
            for status in lost_child_statuses(chart, old, self._new)
        ]

    async def _known(self, row: InstanceRow) -> Chart | None:
        """The chart of an instance, at least as it is stored."""
        if self._charts is None:
            stored = await self._engine.store.charts.all()
            self._charts = {(each.chart, each.version): stored_chart(each) for each in stored}
        return self._charts.get((row.chart, row.version))

    async def _untaken(self, key: Key, done: Step) -> list[str]:
        """What of a step could not follow: a report that is not taken, children whose chart nobody knows."""
        found = []
        for effect in done.effects:
            if isinstance(effect, ReportToParent):
                found += await self._unheard(key, effect)
            elif isinstance(effect, SpawnChild) and not self._spawns(effect.chart):
                found.append(f"it would spawn {effect.chart}, which is not known here: {REGISTER}")
        return found

    def _spawns(self, chart: str) -> bool:
        try:
            self._engine.charts.newest(chart)
        except UnknownChartError:
            return False
        return True

    async def _unheard(self, child: Key, report: ReportToParent) -> list[str]:
        """Why its parent would not take what a child reports, or those above what the parent does."""
        parent = await self._parent(child[0], report.parent)
        if parent is None:
            return []
        try:
            chart = self._engine.charts.chart(parent.chart, parent.version)
        except UnknownChartError:
            said = f"{parent.chart} v{parent.version}, which is not known here"
            return [f"its parent lives by {said}: {REGISTER}"]
        snapshot = stored_snapshot(parent)
        event = child_changed(child[1], report.before, report.after, report.errors)
        facts = Facts(chart, parent.tenant, snapshot, self._engine.charts.given)
        known = await read_facts(self._engine.store, [facts])
        try:
            outcome = step(chart, snapshot, event, known.now, facts=known.values[0])
        except HeadwayError as error:
            return [f"its parent, which lives by {_name(chart)}, cannot take it: {error}"]
        if isinstance(outcome, Refusal):
            return [f"its parent, which lives by {_name(chart)}, cannot take it: {outcome.message}"]
        return await self._untaken((parent.tenant, parent.id), outcome)


def _name(chart: Chart) -> str:
    return f"{chart.name} v{chart.version}"


MOST_EXAMPLES = 3
MOST_KINDS = 500
FITNESS: tuple[Fitness, ...] = ("same", "mapped", "rule", "stranded")
OTHERS = "(others)"


class Occurrences(Scratch):
    """How often something occurs, and a few instances as examples."""

    count: int = 0
    examples: list[str] = []

    def add(self, instance: str, times: int = 1) -> None:
        """Add one occurrence, or `times`."""
        self.count += times
        if len(self.examples) < MOST_EXAMPLES and instance not in self.examples:
            self.examples.append(instance)


OccurrencesByKind = dict[str, Occurrences]


def _count(tallies: OccurrencesByKind, kind: str, instance: str, times: int = 1) -> None:
    """Add one occurrence of a kind, or `times`; the number of kinds is bounded."""
    if kind not in tallies and len(tallies) >= MOST_KINDS:
        kind = OTHERS
    tallies.setdefault(kind, Occurrences()).add(instance, times)


def most_common(tallies: OccurrencesByKind) -> list[tuple[str, Occurrences]]:
    """The kinds, the most common first."""
    return sorted(tallies.items(), key=lambda each: (-each[1].count, each[0]))


class Rehearsal(Scratch):
    """The proof: what an upgrade would do to the living instances of a chart."""

    chart: str
    to: int
    already: int = 0
    fitness: OccurrencesByKind = {}
    versions: OccurrencesByKind = {}
    changes: OccurrencesByKind = {}
    problems: OccurrencesByKind = {}
    history: OccurrencesByKind = {}
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
        self._replays: dict[int, HistoryReplay] = {}

    async def play(self, page: Sequence[InstanceRow]) -> None:
        """Try the instances of a page."""
        rows = [row for row in page if row.version < self._new.version]
        self._rehearsal.already += len(page) - len(rows)
        snapshots = [stored_snapshot(row) for row in rows]
        given = self._engine.charts.given
        facts_of = [
            Facts(self._new, row.tenant, each, given) for row, each in zip(rows, snapshots, strict=True)
        ]
        known = await read_facts(self._engine.store, facts_of)
        activities = await asyncio.gather(*(self._activity(row) for row in rows))
        await self._family.meet(rows)
        for row, snapshot, facts, activity in zip(rows, snapshots, known.values, activities, strict=True):
            await self._try(row, snapshot, (known.now, facts), activity)

    async def _activity(self, row: InstanceRow) -> Activity | UnknownChartError:
        """What an instance has done, as far as it matters."""
        try:
            if self._replay or self._versions.watched_anew(row.version):
                return await activity_of(self._engine.store, (row.tenant, row.id), self._versions)
        except UnknownChartError as error:
            return error
        return Activity(self._versions)

    async def _try(
        self,
        row: InstanceRow,
        snapshot: Snapshot,
        moment: tuple[datetime, Mapping[str, Any]],
        activity: Activity | UnknownChartError,
    ) -> None:
        now, facts = moment
        if isinstance(activity, UnknownChartError):
            self._keep(row, snapshot, Outlook("rule", problems=(str(activity),)), now)
            return
        watched = self._versions.watched_anew(row.version)
        acted = {name: who for name, who in activity.acted.items() if name in watched}
        old = self._versions.chart(row.version)
        view = outlook(old, self._new, snapshot, now, born=row.created_at, facts=facts, acted=acted)
        if view.possible and view.step is not None:
            problems = await self._family.problems(row, old, view.step)
            view = Outlook("rule", problems=problems) if problems else view
        self._keep(row, snapshot, view, now)
        if self._replay:
            self._play_again(row, old, activity)

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

    def _play_again(self, row: InstanceRow, old: Chart, activity: Activity) -> None:
        replay = self._replays.setdefault(row.version, HistoryReplay(old, self._new))
        for turn, count in activity.turns.items():
            result = replay.result(turn)
            if result is None:
                continue
            self._rehearsal.lines += count
            if result != "same":
                kind = f"{DIFFERENCES[result]}: {turn.transition} in {turn.before}"
                _count(self._rehearsal.history, kind, f"{row.tenant}/{row.id}", count)


DIFFERENCES = {"refused": "would be refused", "elsewhere": "would lead elsewhere"}
