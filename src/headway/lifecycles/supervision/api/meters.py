"""The four metrics of supervision, in the form that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

from headway.lifecycles.supervision.chart import Job, Worker
from headway.node import Node
from headway.store.port import Changes
from headway.store.rows import HistoryRow, Key
from headway.telemetry.counts import LONG_SECONDS, Counts, Distribution, Distributions, Totals

MACHINES = {Worker.chart.name: "worker", Job.chart.name: "job"}
FINAL = {
    chart.name: {node.id for node in chart.order if node.kind == "final"}
    for chart in (Worker.chart, Job.chart)
}
MOST_WATCHED = 50_000
PREFIX = "headway_supervision_"


class Stays:
    """How long workers and jobs are in their states; a worker that begins a further task has not left its."""

    def __init__(self) -> None:
        self.times = Distributions(LONG_SECONDS)
        self._since: dict[Key, datetime] = {}

    def look(self, changes: Changes) -> None:
        """See who has left which state."""
        rows = (*changes.created, *changes.updated)
        charts = {(row.tenant, row.id): row.chart for row in rows if row.chart in MACHINES}
        for row in changes.history:
            chart = charts.get((row.tenant, row.instance))
            if chart is not None and row.before != row.after:
                self._moved(row, chart)

    def _moved(self, row: HistoryRow, chart: str) -> None:
        key = (row.tenant, row.instance)
        began = self._since.pop(key, None)
        if began is not None:
            self.times.add((row.tenant, chart, row.before), (row.at - began).total_seconds())
        if row.after not in FINAL[chart]:
            self._since[key] = row.at
            if len(self._since) > MOST_WATCHED:
                del self._since[next(iter(self._since))]


class Meters:
    """Counts changes of state, times in states, refused events and repeated requests, by tenant."""

    def __init__(self, counts: Counts) -> None:
        self._counts, self.stays = counts, Stays()
        self._refused, self._lookups = Totals(), Totals()

    def refused(self, tenant: str, chart: str, event: str, code: str) -> None:
        """An event was not taken."""
        self._refused.add((self._counts.tenant(tenant), chart, event, code))

    def looked_up(self, tenant: str, *, is_hit: bool) -> None:
        """A request came with an id; it was known, or it was not."""
        self._lookups.add((self._counts.tenant(tenant), "hit" if is_hit else "miss"))

    def text(self, tenant: str) -> str:
        """The metrics of one tenant."""
        return "\n".join([*self._transitions(tenant), *self._times(tenant), *self._requests(tenant), ""])

    def _transitions(self, tenant: str) -> Iterator[str]:
        yield from _head("transitions_total", "counter", "Changes of state, by the pair of states.")
        for (of, chart, before, after), number in self._counts.transitions.values.items():
            if of == tenant and chart in MACHINES and before != after:
                labels = {"machine": MACHINES[chart], "from_state": before or "", "to_state": after or ""}
                yield _line("transitions_total", labels, number)
        yield from _head("failed_transitions_total", "counter", "Events that were refused, by the reason.")
        for (of, chart, event, code), number in self._refused.values.items():
            if of == tenant:
                labels = {"machine": MACHINES[chart or ""], "event": event or "", "code": code or ""}
                yield _line("failed_transitions_total", labels, number)

    def _times(self, tenant: str) -> Iterator[str]:
        yield from _head(
            "state_seconds", "histogram", "Time in a state, of those that were seen entering it."
        )
        for (of, chart, state), times in self.stays.times.values.items():
            if of == tenant and chart in MACHINES:
                yield from _distribution({"machine": MACHINES[chart], "state": state or ""}, times)

    def _requests(self, tenant: str) -> Iterator[str]:
        found = {result: number for (of, result), number in self._lookups.values.items() if of == tenant}
        hits, all_ = found.get("hit", 0), sum(found.values())
        yield from _head(
            "idempotency_lookups_total", "counter", "Requests with an id, by whether it was known."
        )
        for result in ("hit", "miss"):
            yield _line("idempotency_lookups_total", {"result": result}, found.get(result, 0))
        yield from _head("idempotency_hit_ratio", "gauge", "The share of requests with an id that was known.")
        yield _line("idempotency_hit_ratio", {}, hits / all_ if all_ else 0)


_METERS: WeakKeyDictionary[Node, Meters] = WeakKeyDictionary()


def meters_of(app: Any) -> Meters:
    """The meters of an application's node, which count from the first call on.

    Where the service tells its own metrics, the changes that those have counted before are told here too.
    """
    node: Node = app.state.node
    known = _METERS.get(node)
    if known is None:
        metrics = getattr(app.state, "metrics", None)
        counts = Counts() if metrics is None else metrics.counts
        if metrics is None:
            node.engine.watch(counts.look)
        known = _METERS[node] = Meters(counts)
        node.engine.watch(known.stays.look)
    return known


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {PREFIX}{name} {about}"
    yield f"# TYPE {PREFIX}{name} {kind}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{PREFIX}{name}{{{told}}} {value:g}" if told else f"{PREFIX}{name} {value:g}"


def _distribution(labels: Mapping[str, str], times: Distribution) -> Iterator[str]:
    below = 0
    for bound, number in zip((*times.bounds, float("inf")), times.counts, strict=True):
        below += number
        yield _line(
            "state_seconds_bucket", {**labels, "le": "+Inf" if bound == float("inf") else str(bound)}, below
        )
    yield _line("state_seconds_count", labels, below)
    yield _line("state_seconds_sum", labels, times.sum)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
