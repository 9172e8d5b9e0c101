"""The life of an interview, with a person in the loop at each decision."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway import Ask, Final, No, Retry, Run, State, Statechart, View, any_live
from headway.actions import live, topic, webhook

REQUIRED = ("candidateName", "candidateEmail", "jobTitle", "skills")
"""What must be known before skills can be validated."""

PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
AGENT = Retry(5, base="2s", factor=2, cap="1m", jitter=0.3)


@dataclass(frozen=True)
class Appointment:
    """When the interview takes place."""

    scheduledFor: str


def missing(known: Mapping[str, Any]) -> list[str]:
    """The names of required data that is not there."""
    return [name for name in REQUIRED if not known.get(name)]


def complete(view: View) -> bool | No:
    """All required data is there."""
    absent = missing(view.context)
    return not absent or No(f"still missing: {', '.join(absent)}")


def incomplete(view: View) -> bool | No:
    """Some required data is missing."""
    return bool(missing(view.context)) or No("nothing is missing")


def completed_by_payload(view: View) -> bool | No:
    """All required data is there, with what this event adds."""
    absent = missing({**view.context, **info(view)})
    return not absent or No(f"still missing: {', '.join(absent)}")


def info(view: View) -> Mapping[str, Any]:
    """The required data an event carries."""
    data = view.payload or {}
    return {name: data[name] for name in REQUIRED if data.get(name)}


def what_is_missing(view: View) -> Mapping[str, Any]:
    """The names of what the operator is asked for."""
    return {"missing": missing(view.context)}


def result(view: View) -> Mapping[str, Any]:
    """What an agent or the session found: skills, plan, transcript or assessment."""
    data = view.payload or {}
    return {
        name: data[name] for name in ("validatedSkills", "plan", "transcript", "assessment") if name in data
    }


def modifications(view: View) -> Mapping[str, Any]:
    """What the recruiter wants changed."""
    return {"modifications": view.payload}


def invitation(view: View) -> Mapping[str, Any]:
    """The candidate's link, and the message draft with its placeholders filled in."""
    base = str(view.context.get("linkBase", "")).rstrip("/")
    known = {**view.context, "interviewLink": f"{base}/interviews/{view.instance}"}
    draft = PLACEHOLDER.sub(lambda found: str(known.get(found[1], found[0])), known.get("inmailDraft") or "")
    return {"interviewLink": known["interviewLink"], "inmailDraft": draft}


def appointment(view: View) -> Mapping[str, Any]:
    """When it takes place."""
    return {"scheduledFor": view.payload.scheduledFor}


def reason(view: View) -> Mapping[str, Any]:
    """Why it was decided."""
    return {"reason": view.event.reason}


def by_agent(handler: str) -> Run:
    """Work of an agent; it ends with the event that carries the result."""
    return Run(handler, timeout="10m", retry=AGENT, queue="agents")


UNLIMITED = {
    "wait-without-deadline:INFO_NEEDED": "no interview without its data; the operator is reminded daily",
    "wait-without-deadline:PENDING": "no plan is decided on by silence; the recruiter is reminded daily",
    "wait-without-deadline:SCHEDULED": "the appointment may lie far ahead; recruiter and admin can cancel",
    "wait-without-deadline:IN_PROGRESS": "the session says when it ends; recruiter and admin can cancel",
    "wait-without-deadline:ASSESSMENT_PENDING": "no verdict by silence; the recruiter is reminded daily",
}
"""Waits that may last, and why."""


class Interview(Statechart, version=1, name="interviews.interview", cancel="CANCEL", accepts=UNLIMITED):
    """An interview, from the request to the approved assessment."""

    RECEIVED = State(initial=True, meaning="A request came in.", waits_for="validation of its data")
    INFO_NEEDED = State(
        meaning="Required data is missing.",
        waits_for="an operator to complete it",
        ask=Ask("hitl", remind="1d", shows=("missing",)),
    )
    VALIDATING_SKILLS = State(
        meaning="Skills are looked up in the catalogue.",
        waits_for="the planner",
        run=by_agent("validate_skills"),
    )
    GENERATING_PLAN = State(
        meaning="The plan is being written.", waits_for="the planner", run=by_agent("generate_plan")
    )
    PENDING = State(
        meaning="The plan is ready.",
        waits_for="the recruiter's decision",
        ask=Ask("recruiter", remind="1d", shows=("plan",)),
    )
    APPROVED = State(meaning="The candidate has a link.", waits_for="an appointment")
    REJECTED = Final(meaning="The recruiter turned the plan down.")
    SCHEDULED = State(meaning="The appointment stands.", waits_for="the candidate, at the scheduled time")
    IN_PROGRESS = State(meaning="The session is live.", waits_for="the session's end")
    COMPLETED = State(meaning="The session has ended.", waits_for="the assessor", run=by_agent("assess"))
    ASSESSMENT_PENDING = State(
        meaning="The assessment is ready.",
        waits_for="the recruiter's verdict",
        ask=Ask("recruiter", remind="1d", shows=("assessment",)),
    )
    ASSESSMENT_APPROVED = Final(meaning="The recruiter agreed with the assessment.")
    CANCELLED = Final(meaning="Called off at any stage.")

    VALIDATE = RECEIVED.to(
        VALIDATING_SKILLS, by="system", when=complete, emit=topic("skill.validation.requested", "skills")
    )
    REQUEST_INFO = RECEIVED.to(
        INFO_NEEDED,
        by="system",
        when=incomplete,
        do=what_is_missing,
        emit=topic("interview.info_needed", "missing"),
        webhook=webhook("interview.info_needed", "missing"),
    )
    COMPLETE_INFO = INFO_NEEDED.to(
        VALIDATING_SKILLS,
        by="hitl",
        when=completed_by_payload,
        do=info,
        clears="missing",
        emit=topic("interview.info_completed", *REQUIRED),
        webhook=webhook("interview.info_completed", *REQUIRED),
    )
    SKILLS_VALIDATED = VALIDATING_SKILLS.to(GENERATING_PLAN, by="planner", do=result)
    PLAN_READY = GENERATING_PLAN.to(
        PENDING, by="planner", do=result, webhook=webhook("interview.plan_generated", "plan")
    )
    APPROVE = PENDING.to(
        APPROVED,
        by="recruiter",
        do=invitation,
        webhook=webhook("interview.approved", "interviewLink", "inmailDraft"),
    )
    REJECT = PENDING.to(REJECTED, by="recruiter", do=reason, webhook=webhook("interview.rejected", "reason"))
    MODIFY = PENDING.to(
        GENERATING_PLAN,
        by="recruiter",
        do=modifications,
        emit=topic("interview.modification_requested", "modifications"),
    )
    SCHEDULE = APPROVED.to(SCHEDULED, by=("system", "recruiter"), takes=Appointment, do=appointment)
    START = SCHEDULED.to(IN_PROGRESS, by="candidate", sets="startedAt", live=live("session.created"))
    COMPLETE = IN_PROGRESS.to(
        COMPLETED,
        by="edge",
        do=result,
        sets="completedAt",
        emit=topic("interview.completed", "startedAt", "completedAt"),
    )
    ASSESS = COMPLETED.to(
        ASSESSMENT_PENDING,
        by="assessor",
        do=result,
        webhook=webhook("interview.assessment_ready", "assessment"),
    )
    APPROVE_ASSESSMENT = ASSESSMENT_PENDING.to(
        ASSESSMENT_APPROVED, by="recruiter", webhook=webhook("assessment.approved", "assessment")
    )
    CANCEL = any_live.to(
        CANCELLED,
        by=("admin", "recruiter"),
        do=reason,
        webhook=webhook("interview.cancelled", "reason"),
    )

    # An agent that gave up is shown, and started again by a person.
    skills_stalled = VALIDATING_SKILLS.on_error.stay(live="interview.stalled")
    plan_stalled = GENERATING_PLAN.on_error.stay(live="interview.stalled")
    assessment_stalled = COMPLETED.on_error.stay(live="interview.stalled")
    RETRY = (
        VALIDATING_SKILLS.to(VALIDATING_SKILLS, by=("hitl", "admin"))
        | GENERATING_PLAN.to(GENERATING_PLAN, by=("hitl", "admin"))
        | COMPLETED.to(COMPLETED, by=("hitl", "admin"))
    )
