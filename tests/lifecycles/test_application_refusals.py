"""What an application takes where, and from whom; everything else changes nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from headway import Event, person
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import SYSTEM, Actor, delegate_ask
from tests.lifecycles.applying import ADMIN, USER, WORKER, Applying, at

FILLING = {"filling_page", "uploading_files", "reading_back", "refilling", "finding_way", "clicking_next"}
SEEN = {"navigating", "analyzing", *FILLING, "uploading", "submitting", "verifying"}
CASCADE = {"retrying", "capturing", "disconnecting", "checking_browser", "connecting", "restoring"}
CASCADE |= {"checking_engine", "handing_over"}
DETOURS = {*CASCADE, "restarting", "reconnecting", "clearing_captcha", "checking_submission", "last_look"}
IN_PROGRESS = {"provisioning", *SEEN, *DETOURS}
REVIEWS = {"reviewing", "gate_review"}
AT_THE_BROWSER = {"waiting_captcha", "waiting_takeover", "waiting_security"}
WAITING = {*REVIEWS, *AT_THE_BROWSER, "waiting_answer"}
LIVE = {"created", "queued", *IN_PROGRESS, *WAITING}
ENDED = {"completed", "failed", "cancelled"}


class Row(NamedTuple):
    """An event: where it is taken, from whom, with what, and what is not taken with it."""

    states: set[str]
    actors: tuple[Actor, ...]
    data: Any = None
    bad: Any = None


EVENTS = {
    "dispatch": Row({"created"}, (SYSTEM,)),
    "captcha_detected": Row(SEEN, (WORKER,), {"captchaType": "turnstile"}, {"captchaType": "riddle"}),
    "security_challenged": Row(SEEN, (WORKER,), {}, {"screenshotUrl": 1}),
    "field_ambiguous": Row(FILLING, (WORKER,), {"fieldName": "visa"}, {"fieldOptions": ["yes"]}),
    "captcha_solved": Row({"waiting_captcha"}, (USER,), {"solvedBy": "user"}, {"solvedBy": "robot"}),
    "security_resolved": Row({"waiting_security"}, (USER,)),
    "field_answered": Row({"waiting_answer"}, (USER,), {"fieldName": "visa", "value": "no"}, {"value": "no"}),
    "human_resolved": Row(AT_THE_BROWSER, (USER,), {"notes": "done"}, {"notes": 1}),
    "review_approved": Row(REVIEWS, (USER,)),
    "review_edited": Row(REVIEWS, (USER,), {"corrections": {"email": "a@b.c"}}, {}),
    "cancel": Row(LIVE, (USER, ADMIN)),
    "budget_exceeded": Row(IN_PROGRESS, (WORKER, SYSTEM), {"spent": 2, "limit": 1}, {"spent": 2}),
    "field_filled": Row(FILLING, (WORKER,), {"name": "email"}, {"value": "a@b.c"}),
    "engine_operation": Row(
        IN_PROGRESS,
        (WORKER,),
        {"engine": "dom", "operation": "click", "success": False},
        {"engine": "dom", "operation": "click"},
    ),
    "screenshot": Row(IN_PROGRESS, (WORKER,), {"url": "s"}, {"label": "page 1"}),
}
"""All that comes from outside, as the document has it."""


def attempt(life: Applying, name: str, data: object, by: Actor) -> Refusal | None:
    """What an event is refused with; a refusal changes nothing."""
    before = life.snapshot
    answer = life.attempt(Event(name, data, by))
    if not isinstance(answer, Refusal):
        return None
    assert life.snapshot == before
    return answer


@pytest.mark.mission("APP-T1", "APP-T3", "APP-T4", "APP-T8", "APP-T9", "APP-EV", "ENG-2")
@pytest.mark.parametrize("state", sorted(LIVE | ENDED))
@pytest.mark.parametrize("name", EVENTS)
def test_each_pair_of_event_and_state(name: str, state: str) -> None:
    """An event is taken in its states; elsewhere it is refused, and what is possible is named."""
    event = EVENTS[name]
    refusal = attempt(at(state), name, event.data, event.actors[0])
    assert (refusal is None) == (state in event.states)
    if refusal is not None:
        possible = {name for name, row in EVENTS.items() if state in row.states and row != EVENTS["dispatch"]}
        assert {each.event for each in refusal.allowed} == possible
        assert refusal.code in ({"terminal", "already"} if state in ENDED else {"illegal", "already"})


@pytest.mark.mission("APP-T1", "APP-T3", "APP-T4", "APP-T8", "APP-T9", "APP-HUMAN")
@pytest.mark.parametrize("name", EVENTS)
def test_each_event_is_for_its_actors(name: str) -> None:
    """Of the user, an admin, a worker and the system, those who are not meant are refused."""
    event = EVENTS[name]
    state = min(event.states)
    for actor in (USER, ADMIN, WORKER, SYSTEM):
        refusal = attempt(at(state), name, event.data, actor)
        assert (None if refusal is None else refusal.code) == (None if actor in event.actors else "actor")


@pytest.mark.mission("APP-T4", "APP-T8", "APP-HUMAN", "APP-EV")
@pytest.mark.parametrize("name", [name for name, event in EVENTS.items() if USER in event.actors])
def test_each_task_is_its_users(name: str) -> None:
    """Another user can neither answer nor cancel, and learns nothing of the task."""
    event, (state, *_) = EVENTS[name], sorted(EVENTS[name].states)
    refusal = attempt(at(state), name, event.data, person("bob", "user"))
    assert refusal is not None
    assert (refusal.code, refusal.message) == ("owner", "task1 does not belong to bob")
    assert (refusal.states, refusal.allowed, refusal.objections) == ((), (), ())


@pytest.mark.mission("APP-HUMAN")
def test_a_user_can_leave_a_question_to_somebody_else() -> None:
    """Who is no user, and was delegated to by the one who is asked, answers in their place."""
    life = at("reviewing")
    (ask,) = life.snapshot.asks.values()
    helper = person("helper")
    assert attempt(life, "review_approved", None, helper) is not None
    life.send(delegate_ask(ask.id, "helper", USER))
    assert attempt(life, "review_approved", None, helper) is None


@pytest.mark.mission("APP-HUMAN", "ENG-8")
def test_another_user_cannot_leave_the_question_to_somebody() -> None:
    """A question is delegated by the one who is asked, and by nobody else."""
    life = at("reviewing")
    (ask,) = life.snapshot.asks.values()
    refusal = life.refused(delegate_ask(ask.id, "helper", person("mal", "user")))
    assert refusal.code == "owner"
    assert attempt(life, "review_approved", None, person("helper")) is not None


@pytest.mark.mission("APP-EV", "APP-HUMAN", "APP-T9")
@pytest.mark.parametrize("name", [name for name, event in EVENTS.items() if event.bad is not None])
def test_each_event_carries_what_it_must(name: str) -> None:
    """An event whose data are not of its kind is refused before anything happens."""
    event = EVENTS[name]
    refusal = attempt(at(min(event.states)), name, event.bad, event.actors[0])
    assert refusal is not None
    assert refusal.code == "payload"
