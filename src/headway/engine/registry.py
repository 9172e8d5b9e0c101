"""Which charts an engine knows, by name and version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headway.errors import UnknownChartError
from headway.statechart.chart import Chart, Charted, chart_of


class Registry:
    """Charts by name and version; new instances get the newest."""

    def __init__(self, charts: Iterable[Charted] = ()) -> None:
        self._charts: dict[tuple[str, int], Chart] = {}
        self._newest: dict[str, Chart] = {}
        for chart in charts:
            self.add(chart)

    def add(self, charted: Charted) -> Chart:
        """Register a chart; raises UnboundError when functions of it are missing."""
        chart = chart_of(charted)
        chart.require_bound()
        self._charts[chart.name, chart.version] = chart
        newest = self._newest.get(chart.name)
        if newest is None or chart.version >= newest.version:
            self._newest[chart.name] = chart
        return chart

    def newest(self, name: str) -> Chart:
        """The chart that new instances follow; raises UnknownChartError."""
        chart = self._newest.get(name)
        if chart is None:
            known = ", ".join(sorted(self._newest)) or "none"
            raise UnknownChartError(f"no chart is called {name!r}; registered: {known}")
        return chart

    def chart(self, name: str, version: int) -> Chart:
        """The chart an instance follows; raises UnknownChartError."""
        chart = self._charts.get((name, version))
        if chart is None:
            versions = [str(known) for chart_name, known in sorted(self._charts) if chart_name == name]
            known = ", ".join(versions) or "none"
            raise UnknownChartError(f"chart {name} v{version} is not registered; registered: {known}")
        return chart

    def __iter__(self) -> Iterator[Chart]:
        """All charts, by name and version."""
        return iter(self._charts[key] for key in sorted(self._charts))
