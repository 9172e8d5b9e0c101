"""Duties: who must be someone else than another was so, by the history alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from headway.statechart.chart import Chart
from headway.statechart.duties import needs_votes
from headway.statechart.snapshot import Snapshot
from headway.statechart.tree import comes_from_engine
from headway.store.rows import HistoryRow
from headway.testing.simulate.acts import arcs_from
from headway.testing.simulate.passages import Charts, rule_of


def check_duties(
    charts: Charts, name: str, lines: Iterable[HistoryRow], line: HistoryRow, violated: Callable[[str], None]
) -> None:
    """A line that was written after others does not come from somebody who did what another had to."""
    chart = charts[name, line.version]
    duties = _duties(chart)
    if not duties or line.row or comes_from_engine(line.event):
        return
    for transition in line.transition.split(", "):
        for other in duties.get(transition, ()):
            if any(each.actor == line.actor and _did(charts, name, each, (chart, other)) for each in lines):
                violated(f"{line.actor} did {other} and {transition} of {line.instance}")


def check_memory(
    charts: Charts, snapshot: Snapshot, lines: Iterable[HistoryRow], violated: Callable[[str], None]
) -> None:
    """An instance knows who did what others must not have done, also in an earlier version."""
    chart = charts[snapshot.chart, snapshot.version]
    for other in sorted({other for others in _duties(chart).values() for other in others}):
        did = {line.actor for line in lines if _did(charts, snapshot.chart, line, (chart, other))}
        if unknown := did.difference(snapshot.acted.get(other, ())):
            violated(f"{snapshot.instance} does not know that {', '.join(sorted(unknown))} did {other}")


@lru_cache(64)
def _duties(chart: Chart) -> dict[str, set[str]]:
    """From whom the senders of each transition must be distinct, whichever way it is taken."""
    found: dict[str, set[str]] = {}
    for row in chart.model.transitions:
        found[row.name] = found.get(row.name, {*row.distinct_from}) & {*row.distinct_from}
    return {name: others for name, others in found.items() if others}


def _did(charts: Charts, name: str, line: HistoryRow, wanted: tuple[Chart, str]) -> bool:
    """Whether a line is one of a transition that a chart names, under the name it has there."""
    chart, transition = wanted
    renames = rule_of(chart, line.version).renames if line.version != chart.version else {}
    if transition not in {renames.get(each, each) for each in line.transition.split(", ")}:
        return False
    # A vote that has decided nothing binds nobody.
    arcs = arcs_from(charts[name, line.version], line.before).get(line.transition, [])
    return line.before != line.after or not any(map(needs_votes, arcs))
