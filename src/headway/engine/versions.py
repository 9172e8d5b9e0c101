"""The versions of charts that a database knows, and whether those of this program are the same."""

from __future__ import annotations

from datetime import datetime

from headway.codec import encode
from headway.engine.registry import Registry
from headway.errors import ChartChangedError
from headway.statechart.chart import Chart
from headway.statechart.export import chart_hash
from headway.store.port import Store
from headway.store.rows import ChartRow


async def keep_versions(store: Store, charts: Registry, *, may_change: bool) -> None:
    """Store the versions that are new; raises ChartChangedError when one is stored with other contents."""
    now = await store.now()
    rows = [_row(chart, now) for chart in charts]
    known = {(row.chart, row.version): row.hash for row in await store.charts()}
    changed = [row for row in rows if known.get((row.chart, row.version), row.hash) != row.hash]
    if changed and not may_change:
        names = ", ".join(f"{row.chart} v{row.version}" for row in changed)
        raise ChartChangedError(
            f"{names} is stored with other contents, by which instances may live: give the changed chart a"
            " new version (version=2), or pass charts_may_change=True while you develop it"
        )
    for row in changed:
        await store.replace_chart(row)
    await store.keep_charts([row for row in rows if (row.chart, row.version) not in known])


def _row(chart: Chart, now: datetime) -> ChartRow:
    document = encode(chart.model).decode()
    return ChartRow(chart.name, chart.version, chart_hash(chart.model), document, now)
