"""Metrics, log lines and traces of a node; and what a lifecycle counts metrics of its own with."""

from headway.telemetry.counts import (
    LONG_SECONDS,
    OTHER,
    Counts,
    Distribution,
    Distributions,
    MetricFamily,
    Series,
    Totals,
)

__all__ = [
    "LONG_SECONDS",
    "OTHER",
    "Counts",
    "Distribution",
    "Distributions",
    "MetricFamily",
    "Series",
    "Totals",
]
