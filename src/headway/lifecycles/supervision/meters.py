"""The four metrics of supervision, told by the service and by the supervisor's own route."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from weakref import WeakKeyDictionary

from headway.lifecycles.supervision.chart import Job, Worker
from headway.node import Node
from headway.store.port import Changes
from headway.store.rows import HistoryRow, Key
from headway.telemetry.counts import LONG_SECONDS, Counts, Distributions, Family, Series, Totals

MACHINES = {Worker.chart.name: "worker", Job.chart.name: "job"}
FINAL = {
    chart.name: {node.id for node in chart.order if node.kind == "final"}
    for chart in (Worker.chart, Job.chart)
}
MOST_WATCHED = 50_000
PAIR, STATE = ("machine", "from_state", "to_state"), ("machine", "state")
REFUSED, RESULT = ("machine", "event", "code"), ("result",)


class Stays:
    """How long workers and jobs are in their states; a worker that begins a further task has not left its."""

    def __init__(self, counts: Counts) -> None:
        self.times = Distributions(LONG_SECONDS)
        self._label, self._since = counts.tenant, dict[Key, datetime]()

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
            series = (self._label(row.tenant), MACHINES[chart], row.before)
            self.times.add(series, (row.at - began).total_seconds())
        if row.after not in FINAL[chart]:
            self._since[key] = row.at
            if len(self._since) > MOST_WATCHED:
                del self._since[next(iter(self._since))]


class Meters:
    """Counts changes of state, times in states, refused events and repeated requests, by tenant."""

    def __init__(self, counts: Counts) -> None:
        self._counts, self.stays = counts, Stays(counts)
        self._refused, self._lookups = Totals(), Totals()

    def refused(self, tenant: str, chart: str, event: str, code: str) -> None:
        """An event was not taken."""
        self._refused.add((self._counts.tenant(tenant), MACHINES[chart], event, code))

    def looked_up(self, tenant: str, *, is_hit: bool) -> None:
        """A request came with an id; it was known, or it was not."""
        self._lookups.add((self._counts.tenant(tenant), "hit" if is_hit else "miss"))

    def families(self) -> list[Family]:
        """The metrics of all tenants."""
        return [
            family._replace(name=f"supervision_{family.name}")
            for family in (
                Family(
                    "counter", "transitions", "Changes of state, by their pair.", PAIR, self._transitions()
                ),
                Family("histogram", "state_seconds", "Time in a state.", STATE, self.stays.times.values),
                Family("counter", "failed_transitions", "Events refused.", REFUSED, self._refused.values),
                Family("counter", "idempotency_lookups", "Requests with ids.", RESULT, self._lookups.values),
                Family("gauge", "idempotency_hit_ratio", "The share of known ids.", (), self._hit_ratios()),
            )
        ]

    def _transitions(self) -> dict[Series, float]:
        return {
            (tenant, MACHINES[chart], before, after): number
            for (tenant, chart, before, after), number in self._counts.transitions.values.items()
            if chart in MACHINES and before != after
        }

    def _hit_ratios(self) -> dict[Series, float]:
        found = self._lookups.values
        return {
            (tenant,): found.get((tenant, "hit"), 0)
            / sum(found.get((tenant, result), 0) for result in ("hit", "miss"))
            for tenant, _ in found
        }


_METERS: WeakKeyDictionary[Node, Meters] = WeakKeyDictionary()


def meters_of(node: Node, counts: Counts | None = None) -> Meters:
    """The meters of a node, which count from the first call on.

    `counts` is what the node is counted in already; without it the meters count for themselves.
    """
    known = _METERS.get(node)
    if known is None:
        if counts is None:
            counts = Counts()
            node.engine.watch(counts.look)
        known = _METERS[node] = Meters(counts)
        node.engine.watch(known.stays.look)
    return known


def meter(node: Node, counts: Counts) -> Callable[[], Iterable[Family]]:
    """What a service is given to tell the metrics of supervision among its own."""
    return meters_of(node, counts).families
