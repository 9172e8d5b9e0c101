"""Instances in states that their chart does not have: it was changed under its version."""

from __future__ import annotations

from collections.abc import Iterable

from headway.codec import Value, decode
from headway.engine.upgrade.versions import pages
from headway.errors import InputError
from headway.statechart.chart import Chart
from headway.statechart.snapshot import Snapshot
from headway.store.port import Store
from headway.store.rows import InstanceRow

MOST_READ = 10_000
MOST_NAMED = 10


class StrandedInstance(Value):
    """A living instance in a state that its chart no longer has."""

    tenant: str
    instance: str
    chart: str
    states: tuple[str, ...]

    def __str__(self) -> str:
        """The instance, where it is, and which chart lacks that."""
        return f"{self.instance} is in {' + '.join(self.states)}, which {self.chart} no longer has"


async def stranded_instances(store: Store, charts: Iterable[Chart]) -> tuple[StrandedInstance, ...]:
    """The first of them, of all tenants; the number of instances that are read is bounded."""
    known = {(chart.name, chart.version): chart for chart in charts}
    found: list[StrandedInstance] = []
    for name in sorted({name for name, _ in known}):
        read = 0
        async for page in pages(store, name):
            found += [each for row in page if (each := _stranded(known.get((name, row.version)), row))]
            read += len(page)
            if len(found) >= MOST_NAMED or read >= MOST_READ:
                break
    return tuple(found[:MOST_NAMED])


def _stranded(chart: Chart | None, row: InstanceRow) -> StrandedInstance | None:
    snapshot = decode(Snapshot, row.snapshot)
    try:
        if chart is not None:
            chart.configuration(snapshot.states)
    except InputError:
        return StrandedInstance(row.tenant, row.id, row.chart, snapshot.states)
    return None
