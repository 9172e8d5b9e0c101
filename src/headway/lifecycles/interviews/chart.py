"""The life of an interview, with a person in the loop at each decision, as a transition table."""

from __future__ import annotations

from headway import Ask, Final, Retry, Run, State, Statechart, any_live
from headway.actions import live, topic, webhook
from headway.lifecycles.interviews.rules import (
    REQUIRED,
    Appointment,
    Assessment,
    Changes,
    Info,
    Plan,
    Recording,
    Skills,
    calendar_event,
    complete,
    completed_by_payload,
    has_result,
    incomplete,
    keep_appointment,
    keep_info,
    keep_reason,
    keep_result,
    link_and_draft,
    name_candidate,
    not_in_the_past,
    note_missing,
    returned,
)

AGENT = Retry(5, base="2s", factor=2, cap="1m", jitter=0.3)
OPERATOR = ("hitl", "admin")

PLANNED = webhook("interview.plan_generated", "plan")
ASSESSED = webhook("interview.assessment_ready", "assessment")
STALLED = live("interview.stalled")

UNLIMITED = {
    "wait-without-deadline:INFO_NEEDED": "no interview without its data; the operator is reminded daily",
    "wait-without-deadline:PENDING": "no plan is decided on by silence; the recruiter is reminded daily",
    "wait-without-deadline:SCHEDULED": "the appointment may lie far ahead; recruiter and admin can cancel",
    "wait-without-deadline:IN_PROGRESS": "the session says when it ends; recruiter and admin can cancel",
    "wait-without-deadline:ASSESSMENT_PENDING": "no verdict by silence; the recruiter is reminded daily",
}
"""Waits that may last, and why."""


def by_agent(handler: str) -> Run:
    """Work of an agent; it ends with the event that carries the result, or returns what that carries."""
    return Run(handler, timeout="10m", retry=AGENT, queue="agents")


class Interview(
    Statechart,
    version=1,
    name="interviews.interview",
    read_by=(*OPERATOR, "recruiter", "planner", "assessor", "edge"),
    cancel="CANCEL",
    accepts=UNLIMITED,
):
    """An interview, from the request to the approved assessment."""

    RECEIVED = State(
        initial=True,
        meaning="A request came in; its data is being validated.",
        waits_for="the system's validation",
        entry=name_candidate,
        run=Run("validate_request", timeout="1m", retry=AGENT),
    )
    INFO_NEEDED = State(
        meaning="Critical data is missing; nothing goes on.",
        waits_for="an operator to complete it",
        ask=Ask("hitl", remind="1d", shows=("missing",)),
    )
    VALIDATING_SKILLS = State(
        meaning="Skills are looked up in the catalogue.",
        waits_for="the planner",
        entry=name_candidate,
        run=by_agent("validate_skills"),
    )
    GENERATING_PLAN = State(
        meaning="The plan is being written.", waits_for="the planner", run=by_agent("generate_plan")
    )
    PENDING = State(
        meaning="The plan is ready for review.",
        waits_for="the recruiter's decision",
        ask=Ask("recruiter", remind="1d", shows=("plan",)),
    )
    APPROVED = State(
        meaning="The plan is approved; the candidate has a link.",
        waits_for="an appointment at which the candidate joins",
    )
    REJECTED = Final(meaning="The recruiter turned the plan down.")
    SCHEDULED = State(meaning="The appointment stands.", waits_for="the candidate, at the scheduled time")
    IN_PROGRESS = State(meaning="The session is live.", waits_for="the session's end")
    COMPLETED = State(
        meaning="The session has ended; the assessment is being written.",
        waits_for="the assessor",
        run=by_agent("assess"),
    )
    ASSESSMENT_PENDING = State(
        meaning="The assessment is ready for review.",
        waits_for="the recruiter's verdict",
        ask=Ask("recruiter", remind="1d", shows=("assessment",)),
    )
    ASSESSMENT_APPROVED = Final(meaning="The recruiter agreed with the assessment.")
    CANCELLED = Final(meaning="Called off at some stage.")

    VALIDATE = RECEIVED.on("VALIDATE", "done.work.RECEIVED").to(
        VALIDATING_SKILLS, by="system", when=complete, emit=topic("skill.validation.requested", "skills")
    )
    REQUEST_INFO = RECEIVED.on("REQUEST_INFO", "done.work.RECEIVED").to(
        INFO_NEEDED,
        by="system",
        when=incomplete,
        do=note_missing,
        emit=topic("interview.info_needed", "missing"),
        webhook=webhook("interview.info_needed", "missing"),
    )
    COMPLETE_INFO = INFO_NEEDED.to(
        VALIDATING_SKILLS,
        by="hitl",
        takes=Info,
        when=completed_by_payload,
        do=keep_info,
        clears="missing",
        emit=topic("interview.info_completed", *REQUIRED),
        webhook=webhook("interview.info_completed", *REQUIRED),
    )
    SKILLS_VALIDATED = VALIDATING_SKILLS.to(
        GENERATING_PLAN, by="planner", takes=Skills, do=keep_result
    ) | VALIDATING_SKILLS.on_done.to(GENERATING_PLAN, when=has_result, do=returned)
    PLAN_READY = GENERATING_PLAN.to(
        PENDING, by="planner", takes=Plan, do=keep_result, webhook=PLANNED
    ) | GENERATING_PLAN.on_done.to(PENDING, when=has_result, do=returned, webhook=PLANNED)
    APPROVE = PENDING.to(
        APPROVED,
        by="recruiter",
        do=link_and_draft,
        webhook=webhook("interview.approved", "interviewLink", "inmailDraft"),
    )
    REJECT = PENDING.to(
        REJECTED, by="recruiter", do=keep_reason, webhook=webhook("interview.rejected", "reason")
    )
    MODIFY = PENDING.to(
        GENERATING_PLAN,
        by="recruiter",
        takes=Changes,
        do=keep_result,
        emit=topic("interview.modification_requested", "modifications"),
    )
    SCHEDULE = APPROVED.to(
        SCHEDULED,
        by=("system", "recruiter"),
        takes=Appointment,
        when=not_in_the_past,
        do=(keep_appointment, calendar_event),
    )
    START = SCHEDULED.to(
        IN_PROGRESS,
        by="{candidate}",
        sets="startedAt",
        live=live("session.created", "startedAt"),
    )
    COMPLETE = IN_PROGRESS.to(
        COMPLETED,
        by="edge",
        takes=Recording,
        do=keep_result,
        sets="completedAt",
        emit=topic("interview.completed", "startedAt", "completedAt"),
    )
    ASSESS = COMPLETED.to(
        ASSESSMENT_PENDING, by="assessor", takes=Assessment, do=keep_result, webhook=ASSESSED
    ) | COMPLETED.on_done.to(ASSESSMENT_PENDING, when=has_result, do=returned, webhook=ASSESSED)
    APPROVE_ASSESSMENT = ASSESSMENT_PENDING.to(
        ASSESSMENT_APPROVED, by="recruiter", webhook=webhook("assessment.approved", "assessment")
    )
    CANCEL = any_live.to(
        CANCELLED,
        by=("admin", "recruiter"),
        do=keep_reason,
        webhook=webhook("interview.cancelled", "reason"),
    )

    # Work that gave up, or returned nothing of use, is shown, and started again by a person.
    request_stalled = RECEIVED.on_error.stay(live=STALLED)
    skills_stalled = VALIDATING_SKILLS.on_error.stay(live=STALLED) | VALIDATING_SKILLS.on_done.stay(
        live=STALLED
    )
    plan_stalled = GENERATING_PLAN.on_error.stay(live=STALLED) | GENERATING_PLAN.on_done.stay(live=STALLED)
    assessment_stalled = COMPLETED.on_error.stay(live=STALLED) | COMPLETED.on_done.stay(live=STALLED)
    RETRY = (
        RECEIVED.to(RECEIVED, by=OPERATOR, meaning="the work starts again")
        | VALIDATING_SKILLS.to(VALIDATING_SKILLS, by=OPERATOR, meaning="the work starts again")
        | GENERATING_PLAN.to(GENERATING_PLAN, by=OPERATOR, meaning="the work starts again")
        | COMPLETED.to(COMPLETED, by=OPERATOR, meaning="the work starts again")
    )
