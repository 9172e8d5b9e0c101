"""`check`: everything that can be known to be wrong with a chart before it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from headway.statechart import (
    check_choice,
    check_computed,
    check_duties,
    check_promises,
    check_reach,
    check_waits,
    check_work,
)
from headway.statechart.chart import Charted, chart_of
from headway.statechart.check_evidence import Evidence
from headway.statechart.explore import explore
from headway.statechart.findings import Accepted, Finding, Report, matches, sorted_findings, warning

LIMIT = 2_000

CHECKS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    check_reach.states,
    check_reach.transitions,
    check_reach.ends,
    check_reach.dead_ends,
    check_reach.traps,
    check_reach.cancelling,
    check_reach.histories,
    check_waits.deadlines,
    check_waits.ways_out,
    check_work.outcomes,
    check_work.recoveries,
    check_work.retries,
    check_work.handlers,
    check_choice.ambiguous,
    check_choice.eventless_loops,
    check_duties.deadlocks,
    check_duties.roles,
    check_computed.gaps,
    check_computed.overlaps,
    check_computed.landings,
    check_promises.invariants,
)


def check(chart: Charted, handlers: Collection[str] | None = None, *, limit: int = LIMIT) -> Report:
    """Everything wrong with a chart; `handlers` are the names of those registered, when that is known.

    Looks at up to `limit` configurations; beyond that it claims only what the graph alone shows.
    """
    ready = chart_of(chart)
    explored = explore(ready, limit=limit)
    evidence = Evidence(ready, explored, handlers, limit)
    found = sorted_findings(each for look in CHECKS for each in look(evidence))
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
