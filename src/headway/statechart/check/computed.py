"""Rules of a computed status: they leave no gap, do not overlap, and rows land where they say."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from headway.statechart.check.analysis import Analysis
from headway.statechart.check.findings import Finding, error
from headway.statechart.explore.explore import Denial


def landings(analysis: Analysis) -> Iterator[Finding]:
    """Rows that can land in a state they do not declare."""
    told: set[tuple[str, ...]] = set()
    for denial in analysis.explored.denials:
        source = _source(analysis, denial)
        place = (denial.transitions[0] if denial.transitions else "", source)
        if denial.code == "landing" and place not in told:
            told.add(place)
            yield error(
                "computed-wrong-landing",
                f"{denial.message}: the step would be refused",
                state=source,
                transition=place[0],
                path=_path(analysis, denial),
            )


def gaps(analysis: Analysis) -> Iterator[Finding]:
    """Facts that can come about and that no rule covers, or on which a rule fails."""
    told: set[tuple[str, str]] = set()
    for denial in analysis.explored.denials if analysis.chart.computed else ():
        place = (denial.transitions[0] if denial.transitions else "start", denial.message)
        if denial.code == "fault" and place not in told:
            told.add(place)
            yield error(
                "computed-gap",
                f"after {place[0]} {denial.message}: the step would be refused",
                state=_source(analysis, denial),
                transition=denial.transitions[0] if denial.transitions else "",
                path=_path(analysis, denial),
            )


def _source(analysis: Analysis, denial: Denial) -> str:
    return "" if denial.source is None else analysis.explored.nodes[denial.source].snapshot.state


def _path(analysis: Analysis, denial: Denial) -> tuple[str, ...]:
    before = () if denial.source is None else analysis.explored.path(denial.source)
    return (*before, denial.label)


def overlaps(analysis: Analysis) -> Iterator[Finding]:
    """Rules that hold at once though they are exclusive; where the first wins, rules that never can."""
    check = {"exclusive": _exclusive, "first": _hidden}.get(analysis.chart.model.computed or "")
    if check is not None:
        yield from check(analysis)


def _exclusive(analysis: Analysis) -> Iterator[Finding]:
    explored = analysis.explored
    told: set[tuple[str, str]] = set()
    for node in explored.nodes:
        for reading in explored.facts.readings():
            holding = [state.id for state in explored.facts.holding(node.snapshot, reading)]
            for pair in pairwise(holding):
                if pair not in told:
                    told.add(pair)
                    yield error(
                        "computed-overlap",
                        f"the rules of {' and '.join(pair)} hold at once, though they are declared exclusive",
                        state=pair[1],
                        path=explored.path(node.index),
                    )


def _hidden(analysis: Analysis) -> Iterator[Finding]:
    for state, others in analysis.hidden_rules.items():
        yield error(
            "computed-overlap",
            f"the rule of {state} never decides: when it holds, so does an earlier one ({', '.join(others)})",
            state=state,
        )
