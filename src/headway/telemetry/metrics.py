"""The metrics of a node in the form that Prometheus reads, for all tenants or for one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from headway.node import Node
from headway.store.queries import AskQuery, LetterQuery
from headway.telemetry.counts import OTHER, Counts, Distribution, MetricFamily, Series

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
MOST_COUNTED = 1_000
"""Dead letters and open asks are counted up to here."""
QUANTILES = (0.5, 0.9, 0.99)
PAIR, STATE, EVENT = ("chart", "before", "after"), ("chart", "state"), ("event",)
HANDLER, OUTCOME = ("handler",), ("handler", "outcome", "code")
SERVICES = ("presence", "timers", "rescue", "pruning", "tail")
KNOWN_ERRORS = frozenset(
    {
        "EngineError",
        "InputError",
        "InstanceExistsError",
        "RequestReusedError",
        "StoreFullError",
        "StoreUnavailableError",
        "TooLargeError",
        "UnknownChartError",
        "UnknownInstanceError",
        "UnknownVersionError",
        "VersionConflictError",
    }
)


KINDS: dict[str, type[Any]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}
Meter = Callable[[Node, Counts], Callable[[], Iterable[MetricFamily]]]
"""Metrics of a lifecycle: called with the node once, it returns a function that reads the metrics."""


class ProcessMetric(NamedTuple):
    """A metric of the whole process that another part keeps: values by one label, read on demand."""

    kind: str
    name: str
    about: str
    label: str
    values: Callable[[], Mapping[str, float]]


class StoredCounts(NamedTuple):
    """Counts that are read from the database."""

    lag: Mapping[str, float]
    dead: Mapping[str, int]
    asks: Mapping[str, int]


class Metrics:
    """Counts what a node does from `start` to `stop`, and writes it in the text format of Prometheus."""

    def __init__(self, node: Node, counts: Counts | None = None, meters: Iterable[Meter] = ()) -> None:
        """`counts` may already observe the handlers of the node."""
        self._node, self.counts, self._meters = node, counts or Counts(), tuple(meters)
        self._readers: list[Callable[[], Iterable[MetricFamily]]] = []
        self.others: list[ProcessMetric] = []
        """Metrics that other parts of the process keep."""
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        GCCollector(registry=self._process)

    def start(self) -> None:
        """Begin to count."""
        self._node.engine.watch(self.counts.look)
        self._readers = [meter(self._node, self.counts) for meter in self._meters]

    def stop(self) -> None:
        """Stop counting."""
        self._node.engine.unwatch(self.counts.look)

    async def text(self, tenant: str | None = None) -> bytes:
        """All metrics, or those of one tenant, which reveal nothing of other tenants."""
        looked = await self._look(self.counts.tenants if tenant is None else [tenant])
        own = _text(self._families(looked, tenant))
        return own if tenant is not None else own + generate_latest(self._process)

    async def _look(self, tenants: Iterable[str]) -> StoredCounts:
        store = self._node.engine.store
        lag = {relay.destination.name: await relay.lag() for relay in self._node.relays}
        dead = {
            name: len(await store.letters.page(LetterQuery(name, dead=True, limit=MOST_COUNTED)))
            for name in lag
        }
        asks = {
            name: len(await store.asks.page(AskQuery(name, limit=MOST_COUNTED))) for name in sorted(tenants)
        }
        return StoredCounts(lag, dead, asks)

    def _families(self, looked: StoredCounts, tenant: str | None) -> Iterator[Metric]:
        counts = self.counts
        yield from _filled(
            (
                MetricFamily(
                    "counter",
                    "transitions",
                    "Transitions by pair of states.",
                    PAIR,
                    counts.transitions.values,
                ),
                MetricFamily(
                    "histogram", "state_seconds", "Time in a state that was left.", STATE, counts.stays.values
                ),
                MetricFamily("counter", "asks_opened", "Asks opened.", STATE, counts.asks_opened.values),
                MetricFamily(
                    "counter",
                    "asks_closed",
                    "Asks closed, by the event that closed them.",
                    EVENT,
                    counts.asks_closed.values,
                ),
                MetricFamily(
                    "gauge", "work_in_flight", "Running attempts.", HANDLER, counts.in_flight.values
                ),
                MetricFamily(
                    "histogram", "work_seconds", "Time an attempt took.", HANDLER, counts.durations.values
                ),
                MetricFamily(
                    "counter", "work_outcomes", "How attempts ended.", OUTCOME, counts.outcomes.values
                ),
                MetricFamily(
                    "counter", "work_retries", "Attempts after the first.", HANDLER, counts.retries.values
                ),
                *(family for read in self._readers for family in read()),
            ),
            tenant,
        )
        asks = GaugeMetricFamily(
            "headway_asks_open", f"Open asks, counted up to {MOST_COUNTED}.", labels=("tenant",)
        )
        for name, number in looked.asks.items():
            asks.add_metric((name,), number)
        yield asks
        if tenant is None:
            yield from self._of_the_node(looked)

    def _of_the_node(self, looked: StoredCounts) -> Iterator[Metric]:
        yield from self._of_the_engine()
        yield from self._of_the_worker()
        for each in self.others:
            family = KINDS[each.kind](f"headway_{each.name}", each.about, labels=(each.label,))
            for name, number in sorted(each.values().items()):
                family.add_metric((name,), number)
            yield family
        batches = HistogramMetricFamily(
            "headway_batch_instances", "Instances changed by one commit.", labels=()
        )
        batches.add_metric((), _buckets(self.counts.batches), self.counts.batches.sum)
        yield batches
        lateness = {str(share): self._node.timers.late_by(share) for share in QUANTILES}
        yield _gauge("timer_lateness_seconds", "How late the last timers were.", "quantile", lateness)
        yield _gauge("outbox_lag_seconds", "How long the next message waits.", "destination", looked.lag)
        yield _gauge("dead_letters", f"Dead letters, up to {MOST_COUNTED}.", "destination", looked.dead)
        deliveries = CounterMetricFamily(
            "headway_deliveries", "Deliveries by result.", labels=("destination", "result")
        )
        for relay in self._node.relays:
            for result in ("delivered", "failed", "dead", "retried"):
                deliveries.add_metric((relay.destination.name, result), relay.tally[result])
        yield deliveries
        services = CounterMetricFamily(
            "headway_service", "Actions of background services.", labels=("service", "what")
        )
        for service in (getattr(self._node, name) for name in SERVICES):
            for what, number in sorted(service.tally.items()):
                services.add_metric((service.name, what.replace(" ", "_")), number)
        yield services

    def _of_the_engine(self) -> Iterator[Metric]:
        tally = self._node.engine.tally
        yield CounterMetricFamily("headway_calls", "Accepted calls.", value=tally["transitions"])
        yield CounterMetricFamily("headway_refused", "Refused calls.", value=tally["refused"])
        yield CounterMetricFamily(
            "headway_requests_replayed",
            "Repeated requests that got the stored answer.",
            value=tally["replayed"],
        )
        errors = CounterMetricFamily("headway_call_errors", "Failed calls.", labels=("error",))
        unknown = tally.total() - sum(tally[name] for name in ("transitions", "refused", "replayed"))
        for name in sorted(KNOWN_ERRORS & tally.keys()):
            errors.add_metric((name,), tally[name])
            unknown -= tally[name]
        errors.add_metric((OTHER,), unknown)
        yield errors

    def _of_the_worker(self) -> Iterator[Metric]:
        worker = self._node.worker
        if worker is None:
            return
        yield GaugeMetricFamily("headway_worker_running", "Running attempts.", value=worker.running)
        attempts = CounterMetricFamily("headway_worker_attempts", "Attempts by result.", labels=("what",))
        for what, number in sorted(worker.tally.items()):
            attempts.add_metric((what,), number)
        yield attempts


def text_of(families: Iterable[MetricFamily], tenant: str) -> bytes:
    """Metrics of one tenant in the text format of Prometheus."""
    return _text(_filled(families, tenant))


class ReadyMetrics(Collector):
    """Metrics with all their values, for the registry."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """All of them."""
        return self._families


def _values(series: Series) -> tuple[str, ...]:
    return tuple(OTHER if value is None else value for value in series)


def _text(metrics: Iterable[Metric]) -> bytes:
    registry = CollectorRegistry()
    registry.register(ReadyMetrics(list(metrics)))
    return generate_latest(registry)


def _filled(families: Iterable[MetricFamily], tenant: str | None) -> Iterator[Metric]:
    """Metrics with all their series, or with those of one tenant."""
    for family in families:
        metric = KINDS[family.kind](f"headway_{family.name}", family.about, labels=("tenant", *family.labels))
        for series, value in sorted(family.values.items(), key=_order):
            if tenant in {None, series[0]}:
                told = (_buckets(value), value.sum) if isinstance(value, Distribution) else (value,)
                metric.add_metric(_values(series), *told)
        yield metric


def _gauge(name: str, about: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"headway_{name}", about, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family


def _buckets(found: Distribution) -> list[tuple[str, float]]:
    below, buckets = 0, []
    for bound, number in zip((*found.bounds, float("inf")), found.counts, strict=True):
        below += number
        buckets.append(("+Inf" if bound == float("inf") else str(bound), float(below)))
    return buckets


def _order(item: tuple[Series, object]) -> tuple[str, ...]:
    return _values(item[0])
