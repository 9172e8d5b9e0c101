"""Checks duties: `distinct_from` was kept, by the history alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from headway.codec import decode
from headway.statechart.chart import Chart
from headway.statechart.model import ROOT, Transition
from headway.statechart.snapshot import Snapshot
from headway.statechart.step.duties import needs_votes
from headway.statechart.tree import comes_from_engine
from headway.store.rows import HistoryRow
from headway.testing.simulate.effects import Charts, active, arcs_from
from headway.testing.simulate.upgrades import rule_of

HOLDING = frozenset({"ask.claim", "ask.delegate"})


class Duties:
    """Compares the senders of transitions that must be distinct, across chart versions."""

    def __init__(self, charts: Charts, violated: Callable[[str], None]) -> None:
        self._charts, self._violated = charts, violated

    def check(self, after: Snapshot, history: Sequence[HistoryRow], last: int) -> None:
        """Check an instance after a history whose last `last` lines are new."""
        for place in range(len(history) - last, len(history)):
            self._is_distinct(after.chart, history[:place], history[place])
            self._may_hold(after.chart, history[:place], history[place])
        chart = self._charts[after.chart, after.version]
        for other in {other: None for others in _duties(chart).values() for other in others}:
            did = {line.actor for line in history if self._did(line, chart, other)}
            if unknown := did.difference(after.acted.get(other, ())):
                self._violated(
                    f"{after.instance} has not recorded that {', '.join(sorted(unknown))} sent {other}"
                )

    def _is_distinct(self, name: str, earlier: Sequence[HistoryRow], line: HistoryRow) -> None:
        chart = self._charts[name, line.version]
        if line.row or comes_from_engine(line.event):
            return
        for transition in line.transition.split(", "):
            for other in _duties(chart).get(transition, ()):
                if any(each.actor == line.actor and self._did(each, chart, other) for each in earlier):
                    self._violated(f"{line.actor} sent both {other} and {transition} of {line.instance}")

    def _may_hold(self, name: str, earlier: Sequence[HistoryRow], line: HistoryRow) -> None:
        """An actor who claims or delegates an ask may answer it, and so may the delegate."""
        if line.transition not in HOLDING:
            return
        chart = self._charts[name, line.version]
        to = (
            decode(dict[str, Any], line.data or "{}").get("to") if line.transition == "ask.delegate" else None
        )
        for who in {line.actor, to or line.actor}:
            open_to = [
                row
                for row in _answers(chart, line.before)
                if not any(
                    each.actor == who and self._did(each, chart, other)
                    for other in row.distinct_from
                    for each in earlier
                )
            ]
            if not open_to:
                self._violated(f"{who} has no answer in {line.before}: {line.transition} by {line.actor}")

    def _did(self, line: HistoryRow, chart: Chart, transition: str) -> bool:
        """Whether a line is of a transition of the chart, which may have had another name then."""
        renames = rule_of(chart, line.version).renames if line.version != chart.version else {}
        if transition not in {renames.get(each, each) for each in line.transition.split(", ")}:
            return False
        # A vote that did not decide does not count for `distinct_from`.
        then = self._charts[chart.name, line.version]
        arcs = arcs_from(then, line.before).get(line.transition, [])
        return line.before != line.after or not any(map(needs_votes, arcs))


@lru_cache(256)
def _answers(chart: Chart, before: str) -> tuple[Transition, ...]:
    """The rows by which people can answer an ask of these states."""
    places = active(chart, before)
    asked = {
        role for state in chart.model.states if state.id in places and state.ask for role in state.ask.roles
    }
    return tuple(
        row
        for row in chart.model.transitions
        if row.source in {*places, ROOT} and (not row.by or asked.intersection(row.by))
        if any(event.startswith("answer.") or not comes_from_engine(event) for event in row.events)
    )


@lru_cache(64)
def _duties(chart: Chart) -> dict[str, list[str]]:
    """For each transition the transitions whose senders must be others, in all its rows."""
    found: dict[str, list[str]] = {}
    for row in chart.model.transitions:
        before = found.get(row.name, row.distinct_from)
        found[row.name] = [name for name in row.distinct_from if name in before]
    return {name: others for name, others in found.items() if others}
