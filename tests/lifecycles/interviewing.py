"""The tables of the interview's document, and interviews that were taken along them."""

from __future__ import annotations

from typing import Any, NamedTuple

from headway import Event, agent, person
from headway.lifecycles.interviews.chart import Interview
from headway.statechart.effects import PublishMessage
from headway.statechart.snapshot import SYSTEM, Actor
from headway.testing import Journey

ACTORS = {
    "system": SYSTEM,
    "hitl": person("olga", "hitl"),
    "recruiter": person("rita", "recruiter"),
    "admin": person("adam", "admin"),
    "candidate": person("cleo", "candidate"),
    "planner": agent("planner", "planner"),
    "assessor": agent("assessor", "assessor"),
    "edge": Actor("edge", "service", frozenset({"edge"})),
}
REQUEST: dict[str, Any] = {
    "candidateId": "cleo",
    "candidateName": "Cleo",
    "candidateEmail": "cleo@example.org",
    "jobTitle": "Baker",
    "skills": ["bread"],
    "linkBase": "https://talks.example.org",
    "inmailDraft": "Hello {{candidateName}}, join at {{ interviewLink }} for {{jobTitle}} {{unknown}}",
}
APPOINTMENT = {"scheduledFor": "2026-05-01T10:00:00+00:00"}


class Line(NamedTuple):
    """A line of the table of transitions: who takes it from where to where, with what, telling whom."""

    name: str
    source: str
    target: str
    actors: str
    data: dict[str, Any] | None = None
    told: tuple[tuple[str, str], ...] = ()


TABLE = [
    Line(
        "VALIDATE",
        "RECEIVED",
        "VALIDATING_SKILLS",
        "system",
        told=(("topic", "skill.validation.requested"),),
    ),
    Line(
        "REQUEST_INFO",
        "RECEIVED",
        "INFO_NEEDED",
        "system",
        told=(("topic", "interview.info_needed"), ("webhook", "interview.info_needed")),
    ),
    Line(
        "COMPLETE_INFO",
        "INFO_NEEDED",
        "VALIDATING_SKILLS",
        "hitl",
        {"skills": ["bread"]},
        (("topic", "interview.info_completed"), ("webhook", "interview.info_completed")),
    ),
    # The arrow of the document's diagram that its table leaves out.
    Line(
        "SKILLS_VALIDATED",
        "VALIDATING_SKILLS",
        "GENERATING_PLAN",
        "planner",
        {"validatedSkills": ["bread"]},
    ),
    Line(
        "PLAN_READY",
        "GENERATING_PLAN",
        "PENDING",
        "planner",
        {"plan": ["q"]},
        (("webhook", "interview.plan_generated"),),
    ),
    Line("APPROVE", "PENDING", "APPROVED", "recruiter", told=(("webhook", "interview.approved"),)),
    Line("REJECT", "PENDING", "REJECTED", "recruiter", told=(("webhook", "interview.rejected"),)),
    Line(
        "MODIFY",
        "PENDING",
        "GENERATING_PLAN",
        "recruiter",
        {"modifications": "one more question"},
        (("topic", "interview.modification_requested"),),
    ),
    Line("SCHEDULE", "APPROVED", "SCHEDULED", "system recruiter", APPOINTMENT),
    Line("START", "SCHEDULED", "IN_PROGRESS", "candidate", told=(("live", "session.created"),)),
    Line(
        "COMPLETE",
        "IN_PROGRESS",
        "COMPLETED",
        "edge",
        {"transcript": ["hello"]},
        (("topic", "interview.completed"),),
    ),
    Line(
        "ASSESS",
        "COMPLETED",
        "ASSESSMENT_PENDING",
        "assessor",
        {"assessment": {"score": 4}},
        (("webhook", "interview.assessment_ready"),),
    ),
    Line(
        "APPROVE_ASSESSMENT",
        "ASSESSMENT_PENDING",
        "ASSESSMENT_APPROVED",
        "recruiter",
        told=(("webhook", "assessment.approved"),),
    ),
]
BY_NAME = {line.name: line for line in TABLE}
WAY = ["VALIDATE", "SKILLS_VALIDATED", "PLAN_READY", "APPROVE", "SCHEDULE", "START", "COMPLETE", "ASSESS"]

# What each state waits for: a word of what the document says.
WAITS = {
    "RECEIVED": "validation",
    "INFO_NEEDED": "operator",
    "VALIDATING_SKILLS": "planner",
    "GENERATING_PLAN": "planner",
    "PENDING": "recruiter's decision",
    "APPROVED": "candidate joins",
    "SCHEDULED": "scheduled time",
    "IN_PROGRESS": "session's end",
    "COMPLETED": "assessor",
    "ASSESSMENT_PENDING": "recruiter's verdict",
}
# The way out of live states that ends each terminal one.
ENDS = {
    "REJECTED": ("PENDING", "REJECT"),
    "ASSESSMENT_APPROVED": ("ASSESSMENT_PENDING", "APPROVE_ASSESSMENT"),
    "CANCELLED": ("RECEIVED", "CANCEL"),
}
LIVE = list(WAITS)
STATES = [*LIVE, *ENDS]


def event(name: str, actor: str | None = None, data: object = None) -> Event:
    """A transition's event as its line has it, or by another actor, or with other data."""
    line = BY_NAME[name]
    return Event(name, line.data if data is None else data, ACTORS[actor or line.actors.split()[0]])


def interview(state: str = "RECEIVED", **changes: Any) -> Journey:
    """An interview in a live state, reached by the plain way."""
    if state == "INFO_NEEDED":
        changes = {"skills": [], **changes}
    life = Journey(Interview, instance="i1", context={**REQUEST, **changes})
    if state == "INFO_NEEDED":
        life.send(event("REQUEST_INFO"))
    for name in WAY:
        if life.is_in(state):
            break
        life.send(event(name))
    assert life.is_in(state)
    return life


def before(name: str) -> Journey:
    """An interview in the state that a transition leaves, ready for it."""
    return interview(BY_NAME[name].source, **({"skills": None} if name == "REQUEST_INFO" else {}))


def standing_in(state: str) -> Journey:
    """An interview in any state, terminal ones too."""
    if state not in ENDS:
        return interview(state)
    last, name = ENDS[state]
    life = interview(last)
    life.send(Event(name, by=ACTORS["recruiter"]))
    assert life.states == (state,)
    return life


def messages(life: Journey) -> list[PublishMessage]:
    """What the last step told the world."""
    return [effect for effect in life.steps[-1].effects if isinstance(effect, PublishMessage)]
