"""`check`: everything that can be known to be wrong with a chart before it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from headway.statechart.chart import Charted, chart_of
from headway.statechart.check import choice, invariants, ownership, people, reach, work
from headway.statechart.check.analysis import Analysis
from headway.statechart.check.findings import Accepted, Finding, Report, matches, sorted_findings, warning
from headway.statechart.explore.explore import explore

LIMIT = 2_000

CHECKS: tuple[Callable[[Analysis], Iterator[Finding]], ...] = (
    reach.states,
    reach.transitions,
    reach.ends,
    reach.dead_ends,
    reach.traps,
    reach.cancelling,
    reach.histories,
    people.deadlines,
    people.ways_out,
    work.outcomes,
    work.recoveries,
    work.retries,
    work.handlers,
    choice.ambiguous,
    choice.eventless_loops,
    people.deadlocks,
    people.roles,
    ownership.senders,
    choice.gaps,
    choice.overlaps,
    choice.landings,
    invariants.findings,
)


def check(chart: Charted, handlers: Collection[str] | None = None, *, limit: int = LIMIT) -> Report:
    """Everything wrong with a chart; `handlers` are the names of those registered, when that is known.

    Looks at up to `limit` configurations; beyond that it claims only what the graph alone shows.
    """
    ready = chart_of(chart)
    explored = explore(ready, limit=limit)
    analysis = Analysis(ready, explored, handlers, limit)
    found = sorted_findings(each for look in CHECKS for each in look(analysis))
    acceptances = ready.model.accepts
    accepted = [
        Accepted(finding=each, because=acceptance.because)
        for each in found
        for acceptance in acceptances
        if matches(acceptance, each)
    ]
    settled = {each.finding for each in accepted}
    unused = [each for each in acceptances if not any(matches(each, one) for one in found)]
    stale = [
        warning(
            "acceptance-unused",
            f"{each.finding} is accepted here, but the chart does not have it: delete the acceptance",
            state=each.place,
        )
        for each in unused
    ]
    return Report(
        chart=ready.name,
        version=ready.version,
        findings=sorted_findings([*(each for each in found if each not in settled), *stale]),
        accepted=tuple(accepted),
        configurations=len(explored),
        complete=explored.complete,
    )
