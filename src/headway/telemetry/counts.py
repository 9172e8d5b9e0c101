"""Counters of a running node: plain numbers in memory, with a bounded number of series."""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

from headway.store.unit import Changes
from headway.worker.attempt import Again, Fail, failure
from headway.worker.handlers import End
from headway.worker.work import Work

OTHER = "other"
MOST_SERIES = 2_000
SECONDS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0)
LONG_SECONDS = (0.1, 1.0, 10.0, 60.0, 300.0, 1_800.0, 7_200.0, 43_200.0, 86_400.0, 604_800.0, 2_592_000.0)
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)

Series = tuple[str | None, ...]
"""The label values of a series, the tenant first; None stands for all tenants without their own series."""


class Totals:
    """Sums by series; beyond the limit, the other series of a tenant are summed under the label "other"."""

    def __init__(self, most: int = MOST_SERIES) -> None:
        self.values: dict[Series, float] = {}
        self._most = most

    def add(self, series: Series, amount: float = 1) -> None:
        """Add to a series."""
        values = self.values
        if series not in values and len(values) >= self._most:
            series = _rest(series)
        values[series] = values.get(series, 0) + amount


class Distribution:
    """A histogram: the number of values up to each bound, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """One more value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class Distributions:
    """Histograms by series, with the same limit as totals."""

    def __init__(self, bounds: Sequence[float], most: int = MOST_SERIES) -> None:
        self.values: dict[Series, Distribution] = {}
        self._bounds, self._most = bounds, most

    def add(self, series: Series, value: float) -> None:
        """One more value of a series."""
        values = self.values
        if series not in values and len(values) >= self._most:
            series = _rest(series)
        found = values.get(series)
        if found is None:
            found = values[series] = Distribution(self._bounds)
        found.add(value)


class MetricFamily(NamedTuple):
    """A metric, exported as `headway_<name>`; `labels` are the labels after the tenant."""

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    about: str
    labels: tuple[str, ...]
    values: Mapping[Series, float | Distribution]


def _rest(series: Series) -> Series:
    return (series[0], *[OTHER] * (len(series) - 1))


class Counts:
    """Counts transitions, asks and attempts of a node by tenant, chart, state, handler and code."""

    def __init__(self, tenants: int = 20) -> None:
        """The first `tenants` tenants have series of their own."""
        self.transitions = Totals()
        self.asks_opened, self.asks_closed = Totals(), Totals()
        self.retries, self.outcomes, self.in_flight = Totals(), Totals(), Totals()
        self.stays = Distributions(LONG_SECONDS)
        self.durations = Distributions(SECONDS)
        self.batches = Distribution(SIZES)
        self._most_tenants = tenants
        self._tenants: set[str] = set()
        self._lock = threading.Lock()

    def tenant(self, name: str) -> str | None:
        """The label of a tenant: its name, or None if it has no series of its own."""
        if name in self._tenants:
            return name
        if len(self._tenants) >= self._most_tenants:
            return None
        self._tenants.add(name)
        return name

    @property
    def tenants(self) -> frozenset[str]:
        """The tenants with series of their own."""
        return frozenset(self._tenants)

    def look(self, changes: Changes) -> None:
        """Count the changes of a commit."""
        if not changes.history:
            return
        charts = {(row.tenant, row.id): row.chart for row in changes.updated}
        charts.update({(row.tenant, row.id): row.chart for row in changes.created})
        self.batches.add(len(charts))
        for row in changes.history:
            chart = charts.get((row.tenant, row.instance), OTHER)
            self.transitions.add((self.tenant(row.tenant), chart, row.before, row.after))
        for tenant, chart, state, seconds in changes.stays:
            self.stays.add((self.tenant(tenant), chart, state), seconds)
        for work in changes.work:
            if work.attempt > 1:
                self.retries.add((self.tenant(work.tenant), work.handler))
        for ask in changes.asks:
            chart = charts.get((ask.tenant, ask.instance), OTHER)
            self.asks_opened.add((self.tenant(ask.tenant), chart, ask.state))
        for closing in changes.asks_closed:
            self.asks_closed.add((self.tenant(closing.tenant), closing.closed_event))

    def begin(self, work: Work) -> End:
        """Count the start of an attempt; the returned function is called when it ends."""
        series: Series = (self.tenant(work.tenant), work.handler)
        with self._lock:
            self.in_flight.add(series)
        return partial(self._end, series, time.monotonic())

    def _end(self, series: Series, begun: float, outcome: object) -> None:
        with self._lock:
            self.in_flight.add(series, -1)
            self.durations.add(series, time.monotonic() - begun)
            self.outcomes.add((*series, *_verdict(outcome)))


def _verdict(outcome: object) -> tuple[str, str]:
    """The outcome of an attempt, and its error code if it failed."""
    if isinstance(outcome, Fail):
        return "failed", outcome.code
    if isinstance(outcome, asyncio.CancelledError):
        return "stopped", ""
    if isinstance(outcome, BaseException):
        return "failed", failure(outcome).code
    return ("again", "") if isinstance(outcome, Again) else ("done", "")
