"""What the checker can find in a chart, and the report of one check."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from headway.codec import Value, encode
from headway.statechart import model

Severity = Literal["error", "warning"]

MEANINGS: dict[str, str] = {
    "acceptance-unused": "the chart accepts a finding that it does not have",
    "ambiguous-transitions": "the order of two rows decides, and one of them may never be chosen",
    "cannot-cancel": "the transition declared to cancel is not possible somewhere",
    "computed-gap": "no rule gives a status to facts that can come about",
    "computed-overlap": "two rules claim the same facts, or an earlier one hides a later one",
    "computed-wrong-landing": "a transition can land in a state it does not declare",
    "dead-end": "nothing that can happen leads on from here, and it is not the end",
    "duty-deadlock": "there are too few people to do what the duties demand",
    "error-without-recovery": "work can fail with a code that nothing takes",
    "eventless-loop": "transitions that need no event lead round in a circle",
    "final-never-reached": "a final state cannot be reached",
    "history-without-default": "a history state does not say where to go the first time",
    "invariant-failed": "an invariant could not be evaluated",
    "invariant-unproved": "there are more configurations than can be looked at, or the function is missing",
    "invariant-violated": "a promise of the chart can be broken",
    "missing-handler": "no handler is registered for the work of a state",
    "no-final": "the life has no end",
    "nobody-named": "an event or an ask is for the sender of an event that was not sent before",
    "unbounded-retry": "something is tried again for ever, and nobody is asked",
    "unknown-role": "a role that nobody has, or that is spelt almost like another one",
    "unreachable-state": "a state cannot be reached",
    "unreachable-transition": "a transition can never be taken",
    "wait-without-deadline": "a wait for a person can last for ever",
    "wait-without-way-out": "a wait that cannot lead to an end",
    "work-without-outcome": "nothing takes the result of a state's work",
}


class Finding(Value):
    """Something wrong with a chart: where, why it matters, and the shortest path to it."""

    id: str
    severity: Severity
    message: str
    state: str = ""
    transition: str = ""
    path: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where it is, as an acceptance names it."""
        return self.state or self.transition

    def __str__(self) -> str:
        """One line: severity, id, place, message and path."""
        place = " of ".join(dict.fromkeys(part for part in (self.transition, self.state) if part))
        way = f" (path: {' → '.join(self.path)})" if self.path else ""
        return f"{self.severity} {self.id}{f' at {place}' if place else ''}: {self.message}{way}"


def error(
    kind: str, message: str, *, state: str = "", transition: str = "", path: tuple[str, ...] = ()
) -> Finding:
    """A finding that fails the check."""
    return Finding(id=kind, severity="error", message=message, state=state, transition=transition, path=path)


def warning(
    kind: str, message: str, *, state: str = "", transition: str = "", path: tuple[str, ...] = ()
) -> Finding:
    """A finding that does not fail the check."""
    return Finding(
        id=kind, severity="warning", message=message, state=state, transition=transition, path=path
    )


class Accepted(Value):
    """A finding the author of the chart accepts, with the reason."""

    finding: Finding
    because: str


class Report(Value):
    """The result of a check: what was found, what was accepted, and how much was looked at."""

    chart: str
    version: int
    findings: tuple[Finding, ...] = ()
    accepted: tuple[Accepted, ...] = ()
    configurations: int = 0
    complete: bool = True

    @property
    def ok(self) -> bool:
        """Whether there is no error; warnings do not fail a check."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that fail the check."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that do not."""
        return tuple(finding for finding in self.findings if finding.severity == "warning")

    @property
    def acceptance(self) -> str:
        """The line for the chart by which its author accepts all that was found; empty without findings."""
        accepted = [(each.finding, each.because) for each in self.accepted]
        found = [(each, "say why") for each in self.findings if each.id != "acceptance-unused"]
        reasons = {_key(finding): because for finding, because in (*accepted, *found)}
        return f"accepts={encode(reasons).decode()}" if found else ""


def _key(finding: Finding) -> str:
    """A finding as an acceptance names it."""
    return f"{finding.id}:{finding.place}" if finding.place else finding.id


def matches(acceptance: model.Acceptance, finding: Finding) -> bool:
    """Whether an acceptance is about a finding: by its id, and by state or transition when it names one."""
    if acceptance.finding != finding.id:
        return False
    return not acceptance.place or acceptance.place in {finding.state, finding.transition}


def sorted_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors first, then by id; what was found first stays first."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: (finding.severity, finding.id)))
