"""What a check says about the invariants a chart declares."""

from __future__ import annotations

from typing import Literal

from headway.codec import Value
from headway.statechart.chart import Chart
from headway.statechart.check.findings import Report

Verdict = Literal["proved", "refuted", "unproved"]
REFUTED = frozenset({"invariant-violated", "invariant-failed"})


class Promise(Value, omit_defaults=False):
    """An invariant, and whether it holds wherever the chart can get."""

    name: str
    promise: str
    verdict: Verdict


def promises(chart: Chart, report: Report) -> list[Promise]:
    """The verdict on each invariant of a checked chart."""
    found = [*report.findings, *(each.finding for each in report.accepted)]
    refuted = {finding.transition for finding in found if finding.id in REFUTED}
    unproved = any(finding.id == "invariant-unproved" for finding in found)
    return [
        Promise(
            name=name,
            promise=_promise(chart, name),
            verdict=_verdict(refuted=name in refuted, unproved=unproved),
        )
        for name in (each.name for each in chart.model.invariants)
    ]


def _verdict(*, refuted: bool, unproved: bool) -> Verdict:
    return "refuted" if refuted else "unproved" if unproved else "proved"


def _promise(chart: Chart, name: str) -> str:
    said = getattr(chart.functions.get(name), "__headway_invariant__", "")
    return said if isinstance(said, str) and said else name
