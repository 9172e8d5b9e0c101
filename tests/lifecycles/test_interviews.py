"""The interview chart, stepped beside the tables of its document."""

from __future__ import annotations

from typing import Any

import pytest

from headway import Event, agent, person
from headway.lifecycles.interviews.chart import Interview
from headway.statechart.check import check
from headway.statechart.effects import Message, OpenedAsk, StartWork
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
REQUEST = {
    "candidateName": "Cleo",
    "candidateEmail": "cleo@example.org",
    "jobTitle": "Baker",
    "skills": ["bread"],
    "linkBase": "https://talks.example.org",
    "inmailDraft": "Hello {{candidateName}}, join at {{ interviewLink }} for {{jobTitle}} {{unknown}}",
}

STATES = {
    "RECEIVED",
    "INFO_NEEDED",
    "VALIDATING_SKILLS",
    "GENERATING_PLAN",
    "PENDING",
    "APPROVED",
    "REJECTED",
    "SCHEDULED",
    "IN_PROGRESS",
    "COMPLETED",
    "ASSESSMENT_PENDING",
    "ASSESSMENT_APPROVED",
    "CANCELLED",
}
FINAL = {"REJECTED", "ASSESSMENT_APPROVED", "CANCELLED"}

# transition, from, to, actors, payload, (kind, name) of each message
TABLE: list[tuple[str, str, str, str, object, list[tuple[str, str]]]] = [
    ("VALIDATE", "RECEIVED", "VALIDATING_SKILLS", "system", None, [("topic", "skill.validation.requested")]),
    (
        "REQUEST_INFO",
        "RECEIVED",
        "INFO_NEEDED",
        "system",
        None,
        [("topic", "interview.info_needed"), ("webhook", "interview.info_needed")],
    ),
    (
        "COMPLETE_INFO",
        "INFO_NEEDED",
        "VALIDATING_SKILLS",
        "hitl",
        REQUEST,
        [("topic", "interview.info_completed"), ("webhook", "interview.info_completed")],
    ),
    (
        "SKILLS_VALIDATED",
        "VALIDATING_SKILLS",
        "GENERATING_PLAN",
        "planner",
        {"validatedSkills": ["bread"]},
        [],
    ),
    (
        "PLAN_READY",
        "GENERATING_PLAN",
        "PENDING",
        "planner",
        {"plan": ["q"]},
        [("webhook", "interview.plan_generated")],
    ),
    ("APPROVE", "PENDING", "APPROVED", "recruiter", None, [("webhook", "interview.approved")]),
    ("REJECT", "PENDING", "REJECTED", "recruiter", None, [("webhook", "interview.rejected")]),
    (
        "MODIFY",
        "PENDING",
        "GENERATING_PLAN",
        "recruiter",
        {"add": "a question"},
        [("topic", "interview.modification_requested")],
    ),
    ("SCHEDULE", "APPROVED", "SCHEDULED", "system recruiter", {"scheduledFor": "2026-05-01T10:00:00Z"}, []),
    ("START", "SCHEDULED", "IN_PROGRESS", "candidate", None, [("live", "session.created")]),
    (
        "COMPLETE",
        "IN_PROGRESS",
        "COMPLETED",
        "edge",
        {"transcript": ["hello"]},
        [("topic", "interview.completed")],
    ),
    (
        "ASSESS",
        "COMPLETED",
        "ASSESSMENT_PENDING",
        "assessor",
        {"assessment": {"score": 4}},
        [("webhook", "interview.assessment_ready")],
    ),
    (
        "APPROVE_ASSESSMENT",
        "ASSESSMENT_PENDING",
        "ASSESSMENT_APPROVED",
        "recruiter",
        None,
        [("webhook", "assessment.approved")],
    ),
]
BY_NAME = {row[0]: row for row in TABLE}
WAY = ["VALIDATE", "SKILLS_VALIDATED", "PLAN_READY", "APPROVE", "SCHEDULE", "START", "COMPLETE", "ASSESS"]
LIVE = sorted(STATES - FINAL)


def event(name: str, actor: str | None = None, data: object = None) -> Event:
    """A transition's event as its row has it, or by another actor."""
    _, _, _, actors, payload, _ = BY_NAME[name]
    return Event(name, payload if data is None else data, ACTORS[actor or actors.split()[0]])


def interview(state: str = "RECEIVED", **changes: Any) -> Journey:
    """An interview in a state, reached by the plain way."""
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
    missing = {"skills": None} if name == "REQUEST_INFO" else {}
    return interview(BY_NAME[name][1], **missing)


def messages(life: Journey) -> list[Message]:
    """What the last step told the world."""
    return [effect for effect in life.steps[-1].effects if isinstance(effect, Message)]


@pytest.mark.mission("INT-S")
def test_thirteen_states_say_what_they_wait_for() -> None:
    """Thirteen states, three of them final; each other one says what it waits for."""
    nodes = Interview.chart.nodes
    assert set(nodes) == STATES
    assert {name for name, node in nodes.items() if node.kind == "final"} == FINAL
    assert {name for name, node in nodes.items() if node.model.waits_for} == STATES - FINAL


@pytest.mark.mission("INT-T", "INT-FX")
@pytest.mark.parametrize("name", [row[0] for row in TABLE])
def test_each_row_of_the_table(name: str) -> None:
    """A transition takes each of its actors from its source to its target and tells what it must."""
    _, source, target, actors, _, told = BY_NAME[name]
    for actor in actors.split():
        life = before(name)
        assert life.states == (source,)
        life.send(event(name, actor))
        assert life.states == (target,)
        assert [(message.kind, message.name) for message in messages(life)] == told


@pytest.mark.mission("INT-ACT")
@pytest.mark.parametrize("name", [row[0] for row in TABLE])
def test_a_wrong_actor_is_refused_and_changes_nothing(name: str) -> None:
    """Whoever is not named in the row is refused as the wrong actor."""
    life = before(name)
    unchanged = life.snapshot
    for actor in set(ACTORS) - set(BY_NAME[name][3].split()):
        assert life.refused(event(name, actor)).code == "actor"
    assert life.snapshot == unchanged


@pytest.mark.mission("INT-T")
@pytest.mark.parametrize("state", sorted(STATES))
def test_no_transition_leaves_another_state_than_its_own(state: str) -> None:
    """In each state exactly the rows of the table that start there are possible."""
    expected = {row[0] for row in TABLE if row[1] == state}
    for name in BY_NAME:
        life = ended(state) if state in FINAL else interview(state)
        code = getattr(life.attempt(event(name)), "code", "taken")
        if name in expected:
            assert code in {"taken", "guard"}
        else:
            assert code in ({"terminal", "already"} if state in FINAL else {"illegal", "already"})


def ended(state: str) -> Journey:
    """An interview in a final state."""
    if state == "CANCELLED":
        life = interview()
        life.send(Interview.CANCEL(by=ACTORS["admin"]))
        return life
    life = interview("PENDING" if state == "REJECTED" else "ASSESSMENT_PENDING")
    life.send(event("REJECT" if state == "REJECTED" else "APPROVE_ASSESSMENT"))
    return life


@pytest.mark.mission("INT-T", "INT-FX")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("VALIDATE", {"skills": ["bread"]}),
        ("REQUEST_INFO", {"missing": ["skills"]}),
        ("PLAN_READY", {"plan": ["q"]}),
        ("MODIFY", {"modifications": {"add": "a question"}}),
        ("ASSESS", {"assessment": {"score": 4}}),
        ("APPROVE_ASSESSMENT", {"assessment": {"score": 4}}),
    ],
)
def test_messages_carry_what_was_found(name: str, told: object) -> None:
    """What the work found and people asked for reaches the receivers."""
    life = before(name)
    life.send(event(name))
    assert messages(life)[0].data == told


@pytest.mark.mission("INT-T")
def test_an_interview_keeps_its_times_and_results() -> None:
    """Skills, appointment, start and end are known when the interview is over."""
    life = interview("COMPLETED")
    known = life.snapshot.context
    assert (known["validatedSkills"], known["transcript"]) == (["bread"], ["hello"])
    assert known["scheduledFor"] == "2026-05-01T10:00:00Z"
    assert known["startedAt"] == known["completedAt"] == life.clock.now().isoformat()


@pytest.mark.mission("INT-T", "INT-ACT", "INT-FX")
@pytest.mark.parametrize("state", LIVE)
@pytest.mark.parametrize("actor", ["admin", "recruiter"])
def test_cancel_from_every_live_state(state: str, actor: str) -> None:
    """An admin or a recruiter can cancel at any stage, and nobody else."""
    life = interview(state)
    assert life.refused(Interview.CANCEL(by=ACTORS["candidate"])).code == "actor"
    life.send(Event("CANCEL", by=ACTORS[actor], reason="called off"))
    assert (life.states, life.snapshot.ended) == (("CANCELLED",), True)
    assert [(told.name, told.data) for told in messages(life)] == [
        ("interview.cancelled", {"reason": "called off"})
    ]


@pytest.mark.mission("INT-FX")
def test_a_rejection_tells_its_reason() -> None:
    """The reason a recruiter gives reaches the history and the receivers."""
    life = interview("PENDING")
    life.send(Event("REJECT", by=ACTORS["recruiter"], reason="too short"))
    assert messages(life)[0].data == {"reason": "too short"}
    assert life.history[-1].reason == "too short"


@pytest.mark.mission("INT-T")
@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_final_state_is_final(state: str) -> None:
    """Nothing leaves a terminal state."""
    life = ended(state)
    assert life.snapshot.ended
    assert life.refused(event("SCHEDULE")).code == "terminal"


@pytest.mark.mission("INT-T")
def test_complete_info_names_what_is_still_missing() -> None:
    """COMPLETE_INFO is refused, naming the missing data, until nothing is missing."""
    life = interview("INFO_NEEDED", skills=[], jobTitle="")
    (ask,) = [effect for effect in life.effects if isinstance(effect, OpenedAsk)]
    assert (ask.roles, ask.shows) == (("hitl",), {"missing": ["jobTitle", "skills"]})
    refusal = life.refused(event("COMPLETE_INFO", data={"jobTitle": "Baker"}))
    assert refusal.code == "guard"
    assert "skills" in refusal.message
    assert "jobTitle" not in refusal.message
    life.send(event("COMPLETE_INFO", data={"jobTitle": "Baker", "skills": ["bread"]}))
    assert life.states == ("VALIDATING_SKILLS",)
    assert life.snapshot.context["skills"] == ["bread"]
    assert life.snapshot.context["missing"] is None


@pytest.mark.mission("INT-T")
def test_the_system_takes_the_way_the_data_allows() -> None:
    """VALIDATE needs complete data, REQUEST_INFO missing data."""
    assert interview().refused(event("REQUEST_INFO")).code == "guard"
    assert "candidateEmail" in interview(candidateEmail="").refused(event("VALIDATE")).message


@pytest.mark.mission("INT-FX")
def test_an_approval_carries_the_link_and_the_filled_draft() -> None:
    """The webhook of an approval has the interview's link and the draft with placeholders filled in."""
    life = interview("PENDING")
    life.send(event("APPROVE"))
    link = "https://talks.example.org/interviews/i1"
    draft = f"Hello Cleo, join at {link} for Baker {{{{unknown}}}}"
    assert [message.data for message in messages(life)] == [{"interviewLink": link, "inmailDraft": draft}]


@pytest.mark.mission("INT-ACT")
@pytest.mark.parametrize(
    ("state", "handler", "name"),
    [
        ("VALIDATING_SKILLS", "validate_skills", "SKILLS_VALIDATED"),
        ("GENERATING_PLAN", "generate_plan", "PLAN_READY"),
        ("COMPLETED", "assess", "ASSESS"),
    ],
)
def test_an_agent_ends_its_work_with_its_event(state: str, handler: str, name: str) -> None:
    """Planner and assessor work on handlers, and their event ends the work; a second one is late."""
    life = interview(state)
    (work,) = life.snapshot.work.values()
    assert [effect.handler for effect in life.steps[-1].effects if isinstance(effect, StartWork)] == [handler]
    sent = event(name)
    result = Event(sent.name, sent.data, sent.by, ref=work.id, attempt=1)
    life.send(result)
    assert life.states == (BY_NAME[name][2],)
    assert life.refused(result).code == "stale"


@pytest.mark.mission("INT-ACT")
@pytest.mark.parametrize("state", ["VALIDATING_SKILLS", "GENERATING_PLAN", "COMPLETED"])
def test_an_agent_that_gives_up_is_shown_and_started_again(state: str) -> None:
    """After five retries the interview stays where it is, says so, and an operator starts the agent anew."""
    life = interview(state)
    for _ in range(6):
        life.work_fails("model_unavailable")
    assert (life.states, life.snapshot.work) == ((state,), {})
    assert [message.name for message in messages(life)] == ["interview.stalled"]
    assert life.refused(Interview.RETRY(by=ACTORS["candidate"])).code == "actor"
    life.send(Interview.RETRY(by=ACTORS["hitl"]))
    assert list(life.snapshot.work) == [state]


@pytest.mark.mission("INT-T")
def test_the_chart_passes_its_check() -> None:
    """The checker finds nothing but the waits that are accepted with a reason."""
    report = check(Interview)
    assert report.findings == ()
    assert {each.finding.id for each in report.accepted} == {"wait-without-deadline"}
