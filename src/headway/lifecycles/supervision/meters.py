"""The four metrics of supervision, for the service's metrics and for the supervisor's own route."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from weakref import WeakKeyDictionary

from headway import Event, Snapshot
from headway.codec import decode
from headway.lifecycles.supervision.chart import Job, Worker
from headway.node import Changes, Node
from headway.telemetry import LONG_SECONDS, OTHER, Counts, Distributions, MetricFamily, Series, Totals

MACHINES = {Worker.chart.name: "worker", Job.chart.name: "job"}
RUNNING = "RUNNING"
EVENTS = {
    each.chart.name: {event for row in each.chart.model.transitions for event in row.events}
    for each in (Worker, Job)
}
PATHS = ("/api/workers", "/api/jobs", "/api/supervisor/")
PAIR, STATE = ("machine", "from_state", "to_state"), ("machine", "state")
REFUSED, RESULT = ("machine", "event", "code"), ("result",)


class Meters:
    """Counts changes of state, times in states, refused events and repeated requests, by tenant."""

    def __init__(self, counts: Counts) -> None:
        self._counts, self._times = counts, Distributions(LONG_SECONDS)
        self._refused, self._lookups = Totals(), Totals()

    def look(self, changes: Changes) -> None:
        """Count state changes and refusals."""
        for tenant, chart, state, seconds in changes.stays:
            if chart in MACHINES and (chart, state) != (Worker.chart.name, RUNNING):
                self._stayed(tenant, chart, state, seconds)
        if any(row.before == RUNNING != row.after for row in changes.history):
            self._look_for_workers(changes)
        for tenant, chart, event, code in changes.refused:
            if chart in MACHINES and isinstance(event, Event) and _is_callers(event):
                name = event.name if event.name in EVENTS[chart] else OTHER
                self._refused.add((self._counts.tenant(tenant), MACHINES[chart], name, code))

    def _look_for_workers(self, changes: Changes) -> None:
        """Who begins a further task has not left RUNNING, though it enters that state again."""
        workers = {(row.tenant, row.id): row for row in changes.updated if row.chart == Worker.chart.name}
        for row in changes.history:
            worker = workers.get((row.tenant, row.instance))
            if worker is None or not row.before == RUNNING != row.after:
                continue
            since = decode(Snapshot, worker.snapshot).context["running_since"]
            seconds = (row.at - datetime.fromisoformat(since)).total_seconds() if since else 0.0
            if seconds > 0:  # else it runs again already, in the same transaction
                self._stayed(row.tenant, worker.chart, RUNNING, seconds)

    def _stayed(self, tenant: str, chart: str, state: str, seconds: float) -> None:
        self._times.add((self._counts.tenant(tenant), MACHINES[chart], state), seconds)

    def looked_up(self, tenant: str, place: str, *, is_hit: bool) -> None:
        """A request came with an id, which has an answer already or not."""
        if place.startswith(PATHS):
            self._lookups.add((self._counts.tenant(tenant), "hit" if is_hit else "miss"))

    def families(self) -> list[MetricFamily]:
        """The metrics of all tenants."""
        return [
            family._replace(name=f"supervision_{family.name}")
            for family in (
                MetricFamily(
                    "counter", "transitions", "Changes of state, by their pair.", PAIR, self._transitions()
                ),
                MetricFamily("histogram", "state_seconds", "Time in a state.", STATE, self._times.values),
                MetricFamily(
                    "counter", "failed_transitions", "Events refused.", REFUSED, self._refused.values
                ),
                MetricFamily(
                    "counter", "idempotency_lookups", "Requests with ids.", RESULT, self._lookups.values
                ),
                MetricFamily(
                    "gauge", "idempotency_hit_ratio", "The share of known ids.", (), self._hit_ratios()
                ),
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
        node.engine.watch(known.look)
        node.engine.requests.listeners.append(known.looked_up)
    return known


def _is_callers(event: Event) -> bool:
    """Whether somebody has sent it; what workers, timers and instances send among themselves may be late."""
    return event.ref is None and event.by.kind != "system"


def meter(node: Node, counts: Counts) -> Callable[[], Iterable[MetricFamily]]:
    """The metrics of supervision, for the service that exposes them."""
    return meters_of(node, counts).families
