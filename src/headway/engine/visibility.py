"""Visibility: which instances somebody may read, by the charts that the instances follow."""

from __future__ import annotations

from headway.engine.commit import stored_snapshot
from headway.engine.registry import Registry, stored_chart
from headway.errors import UnknownChartError
from headway.statechart.chart import Chart
from headway.statechart.people import may_read
from headway.statechart.snapshot import Actor
from headway.store.port import Store
from headway.store.queries import Readable
from headway.store.rows import EventRow, InstanceRow, LogRow, Version


class Visibility:
    """Decides who may read what. A chart that is not registered here decides as it was stored.

    Other nodes may store new charts at any time, so the stored versions are compared with those read so far.
    """

    def __init__(self, store: Store, charts: Registry) -> None:
        self._store, self._charts = store, charts
        self._stored: dict[Version, Chart] = {}
        self._read: frozenset[Version] = frozenset()
        self._never_stored: set[Version] = set()
        self.narrowed = 0
        """How often stored charts were read that limit who may read: fewer may read than before."""

    async def chart(self, row: InstanceRow) -> Chart | None:
        """The chart of an instance, perhaps without its functions; None if nobody has stored it."""
        key = (row.chart, row.version)
        try:
            return self._charts.known(*key)
        except UnknownChartError:
            await self._require(key)
            return self._stored.get(key)

    async def may_read(self, row: InstanceRow, actor: Actor) -> bool:
        """Whether somebody may read an instance: by a role, as its owner, or because it names them."""
        chart = await self.chart(row)
        if chart is None:
            return not actor.own
        return may_read(chart.model, chart.people, stored_snapshot(row), actor)

    async def readable(self, actor: Actor) -> Readable | None:
        """What lists and streams show to somebody; None if they show everything."""
        await self.refresh()
        charts = [*self._charts, *self._stored.values()]
        limited = [each.model for each in charts if each.model.read_by]
        closed = {each.name for each in limited if actor.roles.isdisjoint(each.read_by)}
        return Readable(person=actor.id, closed=tuple(sorted(closed))) if closed else None

    async def meet(self, event: LogRow) -> None:
        """Know the chart of an event: afterwards `narrowed` says whether fewer may read than before."""
        if isinstance(event, EventRow):  # a live message comes after the line of the step that sent it
            await self._require((event.chart, event.line.version))

    async def refresh(self) -> None:
        """Read the stored charts if there are new ones."""
        if self._read.issuperset(await self._store.charts.versions()):
            return
        rows = {(row.chart, row.version): row for row in await self._store.charts.all()}
        fresh = {
            key: stored_chart(row)
            for key, row in rows.items()
            if key not in self._stored and not self._charts.has(*key)
        }
        self._read = frozenset(rows)
        self._stored |= fresh
        self._never_stored.difference_update(rows)
        self.narrowed += any(chart.model.read_by for chart in fresh.values())

    async def _require(self, key: Version) -> None:
        if key in self._stored or key in self._never_stored or self._charts.has(*key):
            return
        await self.refresh()
        if key not in self._stored:
            self._never_stored.add(key)
