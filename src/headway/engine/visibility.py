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
from headway.store.rows import InstanceRow


class Visibility:
    """Decides who may read what. A chart that is not registered here decides as it was stored."""

    def __init__(self, store: Store, charts: Registry) -> None:
        self._store, self._charts = store, charts
        self._stored: dict[tuple[str, int], Chart] | None = None

    async def chart(self, row: InstanceRow) -> Chart | None:
        """The chart of an instance, perhaps without its functions; None if nobody has stored it."""
        key = (row.chart, row.version)
        try:
            return self._charts.known(*key)
        except UnknownChartError:
            if self._stored is None or key not in self._stored:
                await self._read()
            return (self._stored or {}).get(key)

    async def may_read(self, row: InstanceRow, actor: Actor) -> bool:
        """Whether somebody may read an instance: by a role, as its owner, or because it names them."""
        chart = await self.chart(row)
        if chart is None:
            return not actor.own
        return may_read(chart.model, chart.people, stored_snapshot(row), actor)

    async def readable(self, actor: Actor) -> Readable | None:
        """What lists and streams show to somebody; None if they show everything."""
        if self._stored is None:
            await self._read()
        charts = [*self._charts, *(self._stored or {}).values()]
        limited = [each.model for each in charts if each.model.read_by]
        closed = {each.name for each in limited if actor.roles.isdisjoint(each.read_by)}
        return Readable(person=actor.id, closed=tuple(sorted(closed))) if closed else None

    async def _read(self) -> None:
        """Read the charts that are stored; other nodes may have stored new ones."""
        rows = await self._store.charts.all()
        unknown = [row for row in rows if not self._charts.has(row.chart, row.version)]
        self._stored = {(row.chart, row.version): stored_chart(row) for row in unknown}
