"""The chart's own promises: invariants that do not hold, cannot be evaluated, or could not be proved."""

from __future__ import annotations

from collections.abc import Iterator

from headway.statechart.check.evidence import Evidence
from headway.statechart.check.findings import Finding, error, warning
from headway.statechart.check.invariants import prove


def invariants(evidence: Evidence) -> Iterator[Finding]:
    """Each invariant that is not proved, with the shortest counter-example."""
    if not evidence.chart.model.invariants:
        return
    proof = prove(evidence.chart, limit=evidence.limit, explored=evidence.explored)
    for each in proof.violations:
        kind = "invariant-failed" if each.failed else "invariant-violated"
        said = f" ({each.reason})" if each.reason else ""
        yield error(
            kind,
            f"{each.invariant} promises {each.promise!r}, but not in {'+'.join(each.states)}{said}",
            state="+".join(each.states),
            transition=each.invariant,
            path=each.path,
        )
    for name in proof.unbound:
        yield warning(
            "invariant-unproved", f"no function is registered for the invariant {name}", transition=name
        )
    if not proof.complete:
        yield warning("invariant-unproved", f"the invariants are {proof}")
