"""What an upgrade needs to know first: the versions of a chart, its living instances, and their lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from headway.engine.engine import Engine
from headway.engine.registry import stored_chart
from headway.errors import ChartChangedError, UnknownChartError
from headway.statechart.chart import Chart
from headway.statechart.export import chart_hash
from headway.statechart.upgrade.instance import watched_anew
from headway.statechart.upgrade.renaming import Renaming
from headway.store.port import Store
from headway.store.rows import HistoryRow, InstanceRow, Key

PAGE = 200
LINES = 200


async def prepared(engine: Engine, name: str, to: int) -> Chart:
    """The version to upgrade to; the older ones that are stored are known from then on.

    Raises UnknownChartError when it is not registered, ChartChangedError when it is stored otherwise.
    """
    new = engine.charts.chart(name, to)
    for row in await engine.store.charts.all():
        if row.chart != name:
            continue
        if row.version == to and row.hash != chart_hash(new.model):
            raise ChartChangedError(
                f"{name} v{to} is stored with different contents, which instances may use:"
                " give it a new version"
            )
        engine.charts.remember(stored_chart(row, new))
    return new


class Versions:
    """The versions of one chart, and how the names of one become those of another."""

    def __init__(self, engine: Engine, new: Chart) -> None:
        self._charts, self._new = engine.charts, new
        self._renamings: dict[tuple[int, int], Renaming] = {}
        self._names: dict[int, frozenset[str]] = {}
        self._watched: dict[int, frozenset[str]] = {}

    def chart(self, version: int) -> Chart:
        """A version; raises UnknownChartError."""
        try:
            return self._charts.known(self._new.name, version)
        except UnknownChartError as error:
            raise UnknownChartError(f"version {version} of the chart is not stored: register it") from error

    def renaming(self, old: int, new: int) -> Renaming:
        """How names have changed from one version to another."""
        if (old, new) not in self._renamings:
            self._renamings[old, new] = Renaming(self.chart(old), self.chart(new))
        return self._renamings[old, new]

    def transitions(self, version: int) -> frozenset[str]:
        """The names of a version's transitions."""
        if version not in self._names:
            rows = self.chart(version).model.transitions
            self._names[version] = frozenset(row.name for row in rows)
        return self._names[version]

    def allows_stand_ins(self, version: int) -> bool:
        """Whether in a version somebody may answer in the place of who delegated a question."""
        asks = (state.ask for state in self.chart(version).model.states)
        return any(ask is not None and ask.delegate == "anyone" for ask in asks)

    def watched_anew(self, version: int) -> frozenset[str]:
        """What the new version wants to know who did it, and an older one did not keep."""
        if version not in self._watched:
            self._watched[version] = watched_anew(self.chart(version), self._new)
        return self._watched[version]


async def pages(store: Store, chart: str) -> AsyncIterator[Sequence[InstanceRow]]:
    """The living instances of a chart, of all tenants, page by page."""
    after: Key = ("", "")
    while page := await store.instances.living(chart, after, PAGE):
        yield page
        after = (page[-1].tenant, page[-1].id)


async def lines_of(store: Store, key: Key) -> AsyncIterator[HistoryRow]:
    """The history of an instance, from the first line on."""
    after = 0
    while True:
        page = await store.history.page(key, after, LINES)
        for line in page:
            yield line
        if len(page) < LINES:
            return
        after = page[-1].position
