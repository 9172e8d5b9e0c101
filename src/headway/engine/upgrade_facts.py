"""What the guards of a chart want to know of many instances, read at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from headway.codec import Scratch, decode
from headway.engine.engine import Engine
from headway.engine.facts import Facts
from headway.statechart.chart import Chart
from headway.statechart.snapshot import Snapshot
from headway.store.port import Changes, Found, Reads
from headway.store.rows import InstanceRow


class Known(Scratch):
    """The time, and the facts of each instance of a page."""

    now: datetime
    facts: list[Mapping[str, Any]]


async def known_of(
    engine: Engine, chart: Chart, rows: Sequence[InstanceRow], snapshots: Sequence[Snapshot]
) -> Known:
    """What the guards of a chart want to know, read for a page at once."""
    if not chart.model.facts:
        return Known(await engine.store.now(), [{}] * len(rows))
    given = engine.charts.given
    facts = [Facts(chart, row.tenant, each, given) for row, each in zip(rows, snapshots, strict=True)]
    look = Look(facts)
    await engine.store.run(look)
    return Known(look.now, look.values)


class Look:
    """A unit that changes nothing: the facts of many instances."""

    def __init__(self, facts: Sequence[Facts]) -> None:
        self._facts = facts
        self.now = datetime.min.replace(tzinfo=UTC)
        self.values: list[Mapping[str, Any]] = []

    def begin(self) -> Reads:
        """Ask for the facts."""
        counters = {key for facts in self._facts for key in facts.counters()}
        return Reads(counters=counters, records={key for facts in self._facts for key in facts.records()})

    def take(self, found: Found) -> None:
        """Keep what was found."""
        self.now = found.now
        records = {key: decode(object, row.data) for key, row in found.records.items()}
        self.values = [facts.values(found.counters, records) for facts in self._facts]

    def changes(self) -> Changes:
        """Nothing."""
        return Changes()
