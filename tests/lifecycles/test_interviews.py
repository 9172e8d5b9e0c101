"""The interview chart, stepped beside the tables of its document."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from headway import Event, person
from headway.lifecycles.interviews.chart import Interview
from headway.lifecycles.interviews.rules import REQUIRED
from headway.statechart.check.check import check
from headway.statechart.effects import OpenedAsk, RemindAsk, StartWork
from headway.statechart.snapshot import work_done
from tests.lifecycles.interviewing import (
    ACTORS,
    BY_NAME,
    ENDS,
    LIVE,
    STATES,
    TABLE,
    WAITS,
    before,
    event,
    interview,
    messages,
    standing_in,
)

WORK = {
    "RECEIVED": "validate_request",
    "VALIDATING_SKILLS": "validate_skills",
    "GENERATING_PLAN": "generate_plan",
    "COMPLETED": "assess",
}
FORBIDDEN = [(state, line.name) for state, line in product(STATES, TABLE) if line.source != state]


@pytest.mark.mission("INT-S")
def test_there_are_the_thirteen_states() -> None:
    """Ten live states and three terminal ones, no others."""
    nodes = Interview.chart.nodes
    assert len(STATES) == 13
    assert set(nodes) == set(STATES)
    assert {name for name, node in nodes.items() if node.kind == "final"} == set(ENDS)


@pytest.mark.mission("INT-S")
@pytest.mark.parametrize("state", STATES)
def test_a_state_says_what_it_waits_for(state: str) -> None:
    """Each live state waits for what the document says, a terminal one for nothing."""
    told = Interview.chart.nodes[state].model
    assert told.meaning
    assert WAITS[state] in told.waits_for if state in WAITS else told.waits_for == ""


@pytest.mark.mission("INT-T", "INT-FX")
@pytest.mark.parametrize(
    ("name", "actor"), [(line.name, actor) for line in TABLE for actor in line.actors.split()]
)
def test_each_line_of_the_table(name: str, actor: str) -> None:
    """A transition takes each of its actors from its source to its target and tells what it must."""
    line, life = BY_NAME[name], before(name)
    assert life.states == (line.source,)
    life.send(event(name, actor))
    assert life.states == (line.target,)
    assert tuple((message.kind, message.name) for message in messages(life)) == line.told


@pytest.mark.mission("INT-T")
def test_there_is_no_other_way() -> None:
    """Beside the table there are only CANCEL, and the restart of work that gave up."""
    allowed = {(line.name, line.source, line.target) for line in TABLE}
    more = {("RETRY", state, state) for state in WORK} | {("CANCEL", state, "CANCELLED") for state in LIVE}
    found = {
        (row.name, state, target)
        for row in Interview.chart.model.transitions
        for state in ([row.source] if row.source in STATES else LIVE)
        for target in row.targets
    }
    assert found == allowed | more


@pytest.mark.mission("INT-ACT")
@pytest.mark.parametrize(
    ("name", "actor"),
    [(line.name, actor) for line in TABLE for actor in ACTORS if actor not in line.actors.split()],
)
def test_a_wrong_actor_is_refused_and_changes_nothing(name: str, actor: str) -> None:
    """Whoever is not named in the line is refused as the wrong actor."""
    life = before(name)
    unchanged = life.snapshot
    assert life.refused(event(name, actor)).code == "actor"
    assert life.snapshot == unchanged


@pytest.mark.mission("INT-T")
@pytest.mark.parametrize(("state", "name"), FORBIDDEN)
def test_a_transition_leaves_no_other_state_than_its_own(state: str, name: str) -> None:
    """Every pair that is not in the table is refused: it has ended, is there already, or cannot go there."""
    life = standing_in(state)
    unchanged = life.snapshot
    refusal = life.refused(event(name))
    if BY_NAME[name].target == state:
        assert refusal.code == "already"
    else:
        assert refusal.code == ("terminal" if state in ENDS else "illegal")
    assert refusal.states == (state,)
    assert life.snapshot == unchanged


@pytest.mark.mission("INT-T", "INT-ACT", "INT-FX")
@pytest.mark.parametrize(("state", "actor"), list(product(LIVE, ACTORS)))
def test_cancel_from_every_live_state(state: str, actor: str) -> None:
    """An admin or a recruiter can cancel at any stage, nobody else; work, questions and timers end."""
    life = interview(state)
    cancel = Event("CANCEL", by=ACTORS[actor], reason="called off")
    if actor not in {"admin", "recruiter"}:
        assert life.refused(cancel).code == "actor"
        return
    life.send(cancel)
    it = life.snapshot
    assert (life.states, it.ended, it.work, it.asks, it.timers) == (("CANCELLED",), True, {}, {}, {})
    assert [(told.kind, told.name, told.data) for told in messages(life)] == [
        ("webhook", "interview.cancelled", {"reason": "called off"})
    ]


@pytest.mark.mission("INT-T")
@pytest.mark.parametrize("state", ENDS)
def test_what_has_ended_cannot_be_cancelled(state: str) -> None:
    """Nothing leaves a terminal state, CANCEL neither."""
    life = standing_in(state)
    assert life.snapshot.ended
    refusal = life.refused(Event("CANCEL", by=ACTORS["admin"]))
    assert refusal.code == ("already" if state == "CANCELLED" else "terminal")


@pytest.mark.mission("INT-T")
@pytest.mark.parametrize("missing", REQUIRED)
@pytest.mark.parametrize("blank", [None, "", " "])
def test_the_system_takes_the_way_the_data_allows(missing: str, blank: object) -> None:
    """VALIDATE is refused naming what is missing, REQUEST_INFO when nothing is."""
    blanks: dict[str, Any] = {missing: blank}
    life = interview(**blanks)
    refusal = life.refused(event("VALIDATE"))
    assert (refusal.code, missing in refusal.message) == ("guard", True)
    life.send(event("REQUEST_INFO"))
    assert life.snapshot.context["missing"] == [missing]
    assert interview().refused(event("REQUEST_INFO")).code == "guard"


@pytest.mark.mission("INT-T")
@pytest.mark.parametrize(("skills", "state"), [(["bread"], "VALIDATING_SKILLS"), ([], "INFO_NEEDED")])
def test_validation_ends_in_the_way_the_data_allows(skills: list[str], state: str) -> None:
    """The end of the system's validation is VALIDATE or REQUEST_INFO: nobody has to send it."""
    life = interview(skills=skills)
    life.work_done()
    assert life.states == (state,)


@pytest.mark.mission("INT-T")
def test_complete_info_names_what_is_still_missing() -> None:
    """COMPLETE_INFO is refused, naming the missing data, until nothing is missing."""
    life = interview("INFO_NEEDED", skills=[], jobTitle="")
    (ask,) = [effect for effect in life.effects if isinstance(effect, OpenedAsk)]
    assert (ask.roles, ask.shows) == (("hitl",), {"missing": ["jobTitle", "skills"]})
    refusal = life.refused(event("COMPLETE_INFO", data={"jobTitle": "Baker", "skills": []}))
    assert refusal.code == "guard"
    assert "skills" in refusal.message
    assert "jobTitle" not in refusal.message
    life.send(event("COMPLETE_INFO", data={"jobTitle": "Baker", "skills": ["bread"]}))
    assert life.states == ("VALIDATING_SKILLS",)
    assert life.snapshot.context["skills"] == ["bread"]
    assert life.snapshot.context["missing"] is None


@pytest.mark.mission("INT-T", "INT-ACT")
@pytest.mark.parametrize(
    ("state", "role", "answers"),
    [
        ("INFO_NEEDED", "hitl", {"COMPLETE_INFO"}),
        ("PENDING", "recruiter", {"APPROVE", "REJECT", "MODIFY"}),
        ("ASSESSMENT_PENDING", "recruiter", {"APPROVE_ASSESSMENT"}),
    ],
)
def test_people_are_asked_and_reminded_daily(state: str, role: str, answers: set[str]) -> None:
    """A person decides where the document says so, and is reminded every day until then."""
    life = interview(state)
    (ask,) = [effect for effect in life.steps[-1].effects if isinstance(effect, OpenedAsk)]
    assert (ask.roles, ask.deadline) == ((role,), None)
    assert answers <= set(ask.answers) <= {*answers, "CANCEL"}
    life.advance("2d")
    assert life.states == (state,)
    assert len([effect for effect in life.effects if isinstance(effect, RemindAsk)]) == 2


@pytest.mark.mission("INT-T")
@pytest.mark.parametrize("name", ["REJECT", "CANCEL"])
def test_the_history_tells_who_did_what_from_where_to_where_and_why(name: str) -> None:
    """A line of the history has the states, the transition, who triggered it and the reason."""
    life = interview("PENDING")
    life.send(Event(name, by=ACTORS["recruiter"], reason="too short"))
    row = life.history[-1]
    assert (row.before, row.after) == (("PENDING",), ({"REJECT": "REJECTED"}.get(name, "CANCELLED"),))
    assert (row.transition, row.actor, row.reason) == (name, "rita", "too short")
    assert interview("VALIDATING_SKILLS").history[-1].actor == "system"


@pytest.mark.mission("INT-ACT")
@pytest.mark.parametrize("name", ["SKILLS_VALIDATED", "PLAN_READY", "ASSESS"])
def test_an_agent_ends_its_work_with_its_event(name: str) -> None:
    """Planner and assessor end their work by the event with its result; a second one is late."""
    life = before(name)
    (work,) = life.snapshot.work.values()
    sent = event(name)
    found = Event(sent.name, sent.data, sent.by, ref=work.id, attempt=1)
    life.send(found)
    assert life.states == (BY_NAME[name].target,)
    assert life.refused(found).code == "stale"


@pytest.mark.mission("INT-ACT", "INT-FX")
@pytest.mark.parametrize("name", ["SKILLS_VALIDATED", "PLAN_READY", "ASSESS"])
def test_an_agent_may_return_what_its_event_carries(name: str) -> None:
    """The plain result of planner and assessor goes the same way as their event, and is told alike."""
    line, life, by_event = BY_NAME[name], before(name), before(name)
    assert line.data is not None
    life.work_done({**line.data, "tokens": 120})
    by_event.send(event(name))
    assert (life.states, life.snapshot.context) == ((line.target,), by_event.snapshot.context)
    assert [(told.kind, told.name, told.data) for told in messages(life)] == [
        (told.kind, told.name, told.data) for told in messages(by_event)
    ]


@pytest.mark.mission("INT-T", "INT-ACT")
@pytest.mark.parametrize("name", ["SKILLS_VALIDATED", "PLAN_READY", "ASSESS"])
@pytest.mark.parametrize("result", [None, "fine", ["q"], {}, {"plan": None}, {"validatedSkills": "bread"}, 7])
def test_work_that_returns_nothing_of_use_is_shown_and_started_again(name: str, result: object) -> None:
    """The interview stays, says so with what came back, and an operator starts the work anew."""
    life, state = before(name), BY_NAME[name].source
    life.work_done(result)
    assert (life.states, life.snapshot.work) == ((state,), {})
    assert [(told.name, told.data) for told in messages(life)] == [
        ("interview.stalled", {"instance": "i1", "event": f"done.work.{state}", "data": result})
    ]
    life.send(Event("RETRY", by=ACTORS["hitl"]))
    assert list(life.snapshot.work) == [state]


@pytest.mark.mission("INT-ACT")
@pytest.mark.parametrize(
    ("known", "sender", "own"),
    [
        ({"candidateId": "cleo"}, "cleo", True),
        ({"candidateId": "cleo"}, "Cleo", False),
        ({"candidateId": "cleo"}, "cleo@example.org", False),
        ({"candidateId": "cleo"}, "dan", False),
        ({"candidateId": None}, "cleo@example.org", True),
        ({"candidateId": "", "candidateEmail": " Cleo@Example.org "}, "cleo@example.org", True),
        ({"candidateId": None}, "dan@example.org", False),
    ],
)
def test_a_candidate_starts_no_interview_but_their_own(
    known: dict[str, Any],
    sender: str,
    own: bool,  # noqa: FBT001 - a parameter
) -> None:
    """START is for the candidate of this interview, by id, or else by mail address; others learn nothing."""
    life = interview("SCHEDULED", **known)
    unchanged = life.snapshot
    start = Event("START", by=person(sender, "candidate"))
    if own:
        life.send(start)
        assert life.states == ("IN_PROGRESS",)
        return
    refusal = life.refused(start)
    assert (refusal.code, refusal.states, refusal.allowed, life.snapshot) == ("owner", (), (), unchanged)
    assert refusal.message == f"i1 does not belong to {sender}"


@pytest.mark.mission("INT-T")
@pytest.mark.parametrize("state", WORK)
def test_work_has_a_limit_and_five_retries(state: str) -> None:
    """Work is tried six times, with waits that double from 2 s on."""
    life = interview(state)
    (begun,) = [effect for effect in life.steps[-1].effects if isinstance(effect, StartWork)]
    limit, queue = (60_000, "default") if state == "RECEIVED" else (600_000, "agents")
    assert (begun.handler, begun.timeout, begun.queue) == (WORK[state], limit, queue)
    for wait in (2, 4, 8, 16, 32):
        life.work_fails("model_unavailable")
        due = life.snapshot.work[state].due
        assert due is not None
        assert 0.7 * wait <= (due - life.clock.now()).total_seconds() <= 1.3 * wait
    life.work_fails("model_unavailable")
    assert (life.states, life.snapshot.work) == ((state,), {})


@pytest.mark.mission("INT-T", "INT-ACT")
@pytest.mark.parametrize("state", WORK)
def test_work_that_gives_up_is_shown_and_started_again(state: str) -> None:
    """The interview stays where it is and says so; operator and admin start the work anew, nobody else."""
    for actor, sender in ACTORS.items():
        life = interview(state)
        for _ in range(6):
            life.work_fails("model_unavailable")
        assert [(told.kind, told.name) for told in messages(life)] == [("live", "interview.stalled")]
        if actor in {"hitl", "admin"}:
            life.send(Event("RETRY", by=sender))
            assert list(life.snapshot.work) == [state]
        else:
            assert life.refused(Event("RETRY", by=sender)).code == "actor"


@pytest.mark.mission("INT-T")
@pytest.mark.parametrize("state", [state for state in STATES if state not in WORK])
def test_where_nothing_works_nothing_is_retried(state: str) -> None:
    """RETRY is for the four states with work."""
    refusal = standing_in(state).refused(Event("RETRY", by=ACTORS["admin"]))
    assert refusal.code == ("terminal" if state in ENDS else "illegal")


@pytest.mark.mission("INT-T")
def test_a_restart_fences_off_what_worked_before() -> None:
    """After a RETRY the old attempt can no longer say anything."""
    life = interview("COMPLETED")
    (old,) = life.snapshot.work.values()
    life.send(Event("RETRY", by=ACTORS["hitl"]))
    assert life.refused(work_done(old.id, old.attempt)).code == "stale"


@pytest.mark.mission("INT-T")
def test_the_chart_passes_its_check() -> None:
    """The checker finds nothing but the five waits that are accepted with a reason."""
    report = check(Interview)
    assert report.findings == ()
    assert {each.finding.id for each in report.accepted} == {"wait-without-deadline"}
    assert len(report.accepted) == 5
