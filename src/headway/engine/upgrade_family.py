"""What an upgrade of an instance would mean for others: the parents above it, and children it would have."""

from __future__ import annotations

from collections.abc import Iterable

from headway.codec import decode
from headway.engine.engine import Engine
from headway.engine.upgrade_facts import known_of
from headway.engine.upgrade_versions import stored_chart
from headway.errors import HeadwayError, UnknownChartError
from headway.statechart.chart import Chart
from headway.statechart.counted import counted_in_vain
from headway.statechart.effects import ReportToParent, SpawnChild
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Snapshot, child_changed
from headway.statechart.step import Step, step
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
        found = await self._engine.store.look_up(keys) if keys else ()
        self._parents = dict.fromkeys(keys) | {(row.tenant, row.id): row for row in found}

    async def problems(self, row: InstanceRow, old: Chart, done: Step) -> tuple[str, ...]:
        """What would be in the way of an upgrade that the instance itself could take."""
        return *await self._in_vain(row, old), *await self._untaken((row.tenant, row.id), done)

    async def _parent(self, tenant: str, name: str) -> InstanceRow | None:
        """A parent that lives."""
        key = (tenant, name)
        if key not in self._parents:
            self._parents[key] = await self._engine.store.instance(key)
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
            for status in counted_in_vain(chart, old, self._new)
        ]

    async def _known(self, row: InstanceRow) -> Chart | None:
        """The chart of an instance, at least as it is stored."""
        if self._charts is None:
            stored = await self._engine.store.charts()
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
        snapshot = decode(Snapshot, parent.snapshot)
        event = child_changed(child[1], report.before, report.after, report.errors)
        known = await known_of(self._engine, chart, [parent], [snapshot])
        try:
            outcome = step(chart, snapshot, event, known.now, facts=known.facts[0])
        except HeadwayError as error:
            return [f"its parent, which lives by {_name(chart)}, cannot take it: {error}"]
        if isinstance(outcome, Refusal):
            return [f"its parent, which lives by {_name(chart)}, cannot take it: {outcome.message}"]
        return await self._untaken((parent.tenant, parent.id), outcome)


def _name(chart: Chart) -> str:
    return f"{chart.name} v{chart.version}"
