"""Metrics, log lines and traces of a node, and the classes with which lifecycles define their own metrics."""

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
