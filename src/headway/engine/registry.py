"""Which charts an engine knows, by name and version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from logging import getLogger

from headway.codec import decode, encode, replace
from headway.engine.facts import Given, facts_without_provider
from headway.errors import ChartChangedError, EngineError, UnknownChartError, UnknownVersionError
from headway.statechart import model
from headway.statechart.chart import Chart, Charted, all_actions, chart_of, named_functions
from headway.statechart.export import chart_hash
from headway.statechart.functions import changed_functions, fingerprints, stored
from headway.store.port import Store
from headway.store.rows import ChartRow, Version

LOG = getLogger("headway")


class Registry:
    """Charts by name and version; new instances get the newest."""

    def __init__(self, charts: Iterable[Charted] = (), given: Given | None = None) -> None:
        self.given: Given = given or {}
        self._charts: dict[tuple[str, int], Chart] = {}
        self._newest: dict[str, Chart] = {}
        self._past: dict[tuple[str, int], Chart] = {}
        for chart in charts:
            self.add(chart)

    def add(self, charted: Charted, *, without_facts: bool = False) -> Chart:
        """Register a chart; raises UnboundError or EngineError when functions or facts of it are missing.

        Those who only look at instances may do `without_facts`: guards that need them then say nothing.
        """
        chart = chart_of(charted)
        chart.require_bound()
        unknown = facts_without_provider(chart, self.given)
        if unknown and not without_facts:
            raise EngineError(
                f"no function gives the facts {', '.join(unknown)} of chart {chart.name}: give the engine"
                f" functions for them, as in facts={{{unknown[0]!r}: lambda tenant, snapshot: ...}}"
            )
        other = self._charts.setdefault((chart.name, chart.version), chart)
        if other.model != chart.model:
            raise EngineError(
                f"two charts are called {chart.name} v{chart.version}: change the name or the version of one"
            )
        self._charts[chart.name, chart.version] = chart
        for derived in ("versions", "fingerprint"):
            self.__dict__.pop(derived, None)
        newest = self._newest.get(chart.name)
        if newest is None or chart.version >= newest.version:
            self._newest[chart.name] = chart
        return chart

    def registered(self, charted: Charted) -> Chart:
        """A chart that is registered as it is given; raises UnknownChartError."""
        chart = chart_of(charted)
        if self._charts.get((chart.name, chart.version), chart).model != chart.model:
            raise UnknownChartError(f"another chart is registered as {chart.name} v{chart.version}")
        return chart

    def newest(self, name: str) -> Chart:
        """The chart that new instances follow; raises UnknownChartError."""
        chart = self._newest.get(name)
        if chart is None:
            known = ", ".join(sorted(self._newest)) or "none"
            raise UnknownChartError(f"no chart is called {name!r}; registered: {known}")
        return chart

    def chart(self, name: str, version: int) -> Chart:
        """The chart an instance follows; raises UnknownVersionError."""
        chart = self._charts.get((name, version))
        if chart is None:
            known = [f"v{number}" for chart_name, number in self.versions if chart_name == name]
            raise UnknownVersionError(name, version, ", ".join(known) or "no version of it")
        return chart

    def has(self, name: str, version: int) -> bool:
        """Whether instances of this version can go on here."""
        return (name, version) in self._charts

    @cached_property
    def versions(self) -> tuple[Version, ...]:
        """The versions that instances can go on with here, by name and number."""
        return tuple(sorted(self._charts))

    @cached_property
    def fingerprint(self) -> str:
        """Short text that is the same for two registries with the same versions."""
        return sha256(encode(self.versions)).hexdigest()[:16]

    def remember(self, chart: Chart) -> None:
        """Know a version that no instance can go on with here, because its functions may be gone."""
        self._past[chart.name, chart.version] = chart

    def known(self, name: str, version: int) -> Chart:
        """A version that is registered, or at least remembered; raises UnknownVersionError."""
        key = (name, version)
        return self._charts.get(key) or self._past.get(key) or self.chart(name, version)

    def spawned_unknown(self) -> dict[str, list[str]]:
        """The names of charts that others spawn and nobody has registered, with those who do.

        What a function spawns only shows when it does.
        """
        found: dict[str, list[str]] = {}
        for chart in self:
            spawns = (each for each in all_actions(chart.model) if isinstance(each, model.Spawn))
            for name in sorted({spawn.chart for spawn in spawns} - self._newest.keys()):
                found.setdefault(name, []).append(f"{chart.name} v{chart.version}")
        return found

    def __iter__(self) -> Iterator[Chart]:
        """All charts, by name and version."""
        return iter(self._charts[key] for key in self.versions)


async def keep_versions(store: Store, charts: Registry, *, may_change: bool) -> None:
    """Store the versions that are new; raises ChartChangedError when one is stored with other contents."""
    now = await store.now()
    rows = [_row(chart, now) for chart in charts]
    known = {(row.chart, row.version): row for row in await store.charts.all()}
    changed = [row for row in rows if known.get((row.chart, row.version), row).hash != row.hash]
    if changed and not may_change:
        names = ", ".join(f"{row.chart} v{row.version}" for row in changed)
        raise ChartChangedError(
            f"{names} is stored with different contents, which instances may use: give the changed chart a"
            " new version (version=2); while you develop it, run headway serve --dev, or pass"
            " charts_may_change=True to the node"
        )
    for row in changed:
        await store.charts.replace(row)
    await store.charts.keep([row for row in rows if (row.chart, row.version) not in known])
    for row in rows:
        before = known.get((row.chart, row.version))
        if before is not None and before.hash == row.hash and before.functions != row.functions:
            _warn_of_changed_functions(before, row)
            await store.charts.replace(replace(row, stored_at=before.stored_at))


def _warn_of_changed_functions(before: ChartRow, after: ChartRow) -> None:
    if names := changed_functions(stored(before.functions), stored(after.functions)):
        LOG.warning(
            "the code of %s has changed since %s v%s was last used, and its instances follow the new code:"
            " give the chart a new version if those that live should keep the old one",
            ", ".join(names),
            after.chart,
            after.version,
        )


def _row(chart: Chart, now: datetime) -> ChartRow:
    document = encode(chart.model).decode()
    return ChartRow(
        chart=chart.name,
        version=chart.version,
        hash=chart_hash(chart.model),
        document=document,
        stored_at=now,
        functions=encode(fingerprints(chart)).decode(),
    )


def stored_chart(row: ChartRow, like: Chart | None = None) -> Chart:
    """A version as it was stored, with the functions and types that a later one still has by their names."""
    whole = decode(model.Model, row.document)
    if like is None:
        return Chart(whole)
    wanted = named_functions(whole)
    functions = {name: call for name, call in like.functions.items() if name in wanted}
    return Chart(whole, functions, like.types)
