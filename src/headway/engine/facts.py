"""Facts: what guards need to know beyond the instance, read in the same transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from headway.codec import decode
from headway.statechart import model
from headway.statechart.chart import Chart
from headway.statechart.people import owner_text
from headway.statechart.snapshot import Snapshot
from headway.statechart.step.actions import filled, names_in
from headway.store.port import Store
from headway.store.rows import Key
from headway.store.unit import Changes, Found, Reads

Given = Mapping[str, Callable[[str, Snapshot], Any]]
"""Facts that the program itself knows, by `fact` or `Chart.fact`: functions of tenant and snapshot."""


class Facts:
    """The facts of one chart for one instance: which rows they stand in, and their values."""

    __slots__ = ("_chart", "_given", "_known", "_snapshot", "_tenant")

    def __init__(self, chart: Chart, tenant: str, snapshot: Snapshot, given: Given) -> None:
        self._chart, self._tenant, self._snapshot, self._given = chart, tenant, snapshot, given
        self._known = names_in(snapshot, snapshot.context)

    def counters(self) -> list[Key]:
        """The counters that must be read first."""
        return [self._counter(fact) for fact in self._chart.model.facts if fact.kind in COUNTED]

    def records(self) -> list[tuple[str, str, str]]:
        """The records that must be read first."""
        return [self._record(fact) for fact in self._chart.model.facts if fact.kind == "record"]

    def values(
        self, counters: Mapping[Key, int], records: Mapping[tuple[str, str, str], Any]
    ) -> dict[str, Any]:
        """The facts by name; one that nobody stored is 0, or None."""
        values: dict[str, Any] = {}
        for fact in self._chart.model.facts:
            if fact.kind in COUNTED:
                values[fact.name] = counters.get(self._counter(fact), 0)
            elif fact.kind == "record":
                values[fact.name] = records.get(self._record(fact))
            else:
                provider = provider_of(self._chart, fact.name, self._given)
                if provider is not None:
                    values[fact.name] = provider(self._tenant, self._snapshot)
        return values

    def _counter(self, fact: model.Fact) -> Key:
        if fact.kind == "counter":
            return (self._tenant, self._fill(fact.key))
        chart, _, owner = fact.key.partition(":")
        return (self._tenant, instances_key(chart or self._chart.name, owner_text(owner, self._known)))

    def _record(self, fact: model.Fact) -> tuple[str, str, str]:
        kind, _, key = self._fill(fact.key).partition(":")
        return (self._tenant, kind, key)

    def _fill(self, template: str) -> str:
        """A key as the actions spell it that write there."""
        return filled(template, self._known)


COUNTED = frozenset({"counter", "instances"})


class FactReading:
    """A unit that changes nothing: it reads the facts of some instances, and the store's time."""

    def __init__(self, facts: Sequence[Facts]) -> None:
        self._facts = facts
        self.now = datetime.min.replace(tzinfo=UTC)
        self.values: list[Mapping[str, Any]] = []
        """The facts of each instance, by name."""

    def begin(self) -> Reads:
        """The rows that the facts are in."""
        counters = {key for facts in self._facts for key in facts.counters()}
        return Reads(counters=counters, records={key for facts in self._facts for key in facts.records()})

    def take(self, found: Found) -> None:
        """Keep what was found."""
        self.now = found.now
        records = {key: decode(object, row.data) for key, row in found.records.items()}
        self.values = [facts.values(found.counters, records) for facts in self._facts]

    def changes(self) -> Changes:
        """No changes."""
        return Changes()


async def read_facts(store: Store, facts: Sequence[Facts]) -> FactReading:
    """The facts of some instances at one time; only facts that are in rows need a transaction."""
    reading = FactReading(facts)
    wanted = reading.begin()
    if wanted.counters or wanted.records:
        await store.run(reading)
    else:
        reading.take(Found(await store.now()))
    return reading


def instances_key(chart: str, owner: str) -> str:
    """The counter of an owner's live instances of a chart."""
    return f"instances:{chart}:{owner}"


def provider_of(chart: Chart, fact: str, given: Given) -> Callable[[str, Snapshot], Any] | None:
    """Who knows a fact that stands in no row."""
    return given.get(f"{chart.name}.{fact}") or given.get(fact)


def facts_without_provider(chart: Chart, given: Given) -> list[str]:
    """The facts of a chart that nobody would know."""
    facts = chart.model.facts
    return [
        fact.name for fact in facts if fact.kind == "given" and provider_of(chart, fact.name, given) is None
    ]
