"""An application is submitted once: whatever is lost, fails or is broken off while it submits."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from headway import Event
from headway.lifecycles.applications.chart import Application
from headway.lifecycles.applications.failures import CODES, LOST, NOT_SENT, SIGNALS
from headway.statechart.effects import CancelWork, StartWork
from headway.statechart.snapshot import work_failed
from tests.fuzzing import seeds
from tests.lifecycles.applying import (
    BROWSER,
    GOOD,
    LAST_PAGE,
    PAGE,
    SENT,
    USER,
    WORKER,
    Applying,
    at,
    failed_with,
    switch,
)

BEFORE_THE_CLICK = ["selector_not_found", "selector_ambiguous", "shadow_dom_blocked"]
BEFORE_THE_CLICK += ["iframe_unreachable", "canvas_element"]
OF_ITS_OWN = {"ENGINE_CONNECT_FAILED", "SUBMIT_VALIDATION_ERROR", "SUBMIT_FAILED", "captcha_detected"}
OF_ITS_OWN |= {"budget_exceeded", "BUDGET_EXCEEDED", *LOST}
"""What has a way of its own, and a test of its own."""
DOUBTS = [*SIGNALS, *CODES, "unsure", "lost", "ValueError"]
DOUBTS = [code for code in DOUBTS if code not in {*BEFORE_THE_CLICK, *OF_ITS_OWN}]


def submissions(life: Applying) -> int:
    """How often a worker was to submit: work that its own step takes back is never seen."""
    begun = 0
    for step in life.steps:
        gone = {effect.work for effect in step.effects if isinstance(effect, CancelWork)}
        started = [effect for effect in step.effects if isinstance(effect, StartWork)]
        begun += sum(work.handler == "submit" and work.work not in gone for work in started)
    return begun


@pytest.mark.mission("APP-ERR", "APP-CHK")
@pytest.mark.parametrize("code", DOUBTS)
def test_a_submission_in_doubt_is_never_repeated(code: str) -> None:
    """Where nobody knows whether it was submitted, the confirmation is looked for, nothing sent again."""
    life = Applying("premium").until("submitting")
    life.work_fails(code)
    assert (life.states, life.record["submitAttempted"]) == (("verifying",), True)
    assert life.checkpoints()[-1] == "submitted"
    assert submissions(life) == 1


@pytest.mark.mission("APP-ERR", "APP-ENGINE")
@pytest.mark.parametrize("signal", BEFORE_THE_CLICK)
def test_a_button_that_was_never_pressed_is_looked_for_by_another_engine(signal: str) -> None:
    """Only where an engine did not even get to the button, it or the next one tries to submit again."""
    life = Applying("premium").until("submitting")
    life.work_fails(signal)
    while life.is_in("retrying"):
        life.rest()
        life.work_fails(signal)
    switch(life)
    assert (life.states, life.record["submitAttempted"]) == (("submitting",), False)


@pytest.mark.mission("APP-ERR", "APP-CHK")
def test_nothing_leads_to_a_second_submission() -> None:
    """A browser lost while submitting, another engine and a person: all come back to the verification."""
    life = Applying("premium").until("submitting")
    life.work_fails("BROWSER_CRASH")
    (work,) = life.snapshot.work.values()
    life.send(work_failed(work.id, work.attempt, "ENGINE_CONNECT_FAILED", liveViewUrl="https://view/2"))
    switch(life)
    assert (life.states, life.record["liveViewUrl"]) == (("verifying",), "https://view/2")
    life.work_fails("captcha_detected")
    life.send(Application.human_resolved({}, by=USER))
    life.work_done({"cleared": True})
    assert life.states == ("verifying",)
    assert submissions(life) == 1


@pytest.mark.mission("APP-ERR", "APP-CHK")
def test_a_connection_lost_while_submitting_is_made_anew_to_verify() -> None:
    """CDP_DISCONNECT while submitting reconnects to the same browser, which may show the confirmation."""
    life = Applying().until("submitting")
    life.work_fails("CDP_DISCONNECT")
    assert (life.states, life.checkpoints()[-1]) == (("reconnecting",), "submitted")
    life.work_done()
    assert life.states == ("verifying",)


@pytest.mark.mission("APP-ERR", "APP-CHK")
@pytest.mark.parametrize("code", ["BROWSER_CRASH", "cdp_disconnect"])
def test_a_browser_lost_while_submitting_is_started_anew_to_verify(code: str) -> None:
    """The new browser is for the confirmation only; what was filled in stays known."""
    life = Applying().until("submitting")
    life.work_fails(code)
    assert (life.states, life.checkpoints()[-1]) == (("restarting",), "submitted")
    life.work_done({**BROWSER, "profileId": "p2"})
    assert (life.states, life.record["profileId"]) == (("verifying",), "p2")
    assert (life.record["fields"], life.record["resumeUploaded"]) == ([GOOD], True)


@pytest.mark.mission("APP-ERR", "APP-CHK")
@pytest.mark.parametrize(
    ("code", "told"), [(code, SIGNALS[code].code if code in SIGNALS else code) for code in LOST]
)
def test_a_submission_whose_browser_is_lost_for_good_is_known_as_attempted(code: str, told: str) -> None:
    """With nothing left to start or connect anew the task fails, and says that it may be submitted."""
    life = Applying().until("filling_page")
    for _ in range(2):
        life.work_fails(code)
        life.work_done(BROWSER)
    life.until("submitting").work_fails(code)
    assert failed_with(life) == told
    assert life.record["submitAttempted"]
    assert life.checkpoints()[-1] == "submitted"


@pytest.mark.mission("APP-T8", "APP-T9", "APP-CHK")
@pytest.mark.parametrize("end", ["cancel", "overdue", "budget_exceeded"])
@pytest.mark.parametrize("state", ["uploading", "submitting"])
def test_what_is_broken_off_while_it_submits_may_be_submitted(end: str, state: str) -> None:
    """Who looks at the record afterwards is not told that nothing went out."""
    life = Applying().until(state)
    if end == "cancel":
        life.send(Application.cancel(by=USER))
    elif end == "overdue":
        life.advance("30m")
    else:
        life.send(Application.budget_exceeded({"spent": 2, "limit": 1}))
    assert life.snapshot.ended
    assert life.record["submitAttempted"] == (state == "submitting")


@pytest.mark.mission("APP-P16", "APP-CHK", "APP-HUMAN")
@pytest.mark.parametrize(
    ("event", "data", "answer"),
    [
        ("captcha_detected", {"captchaType": "hcaptcha"}, "captcha_solved"),
        ("captcha_detected", {"captchaType": "hcaptcha"}, "human_resolved"),
        ("security_challenged", {}, "security_resolved"),
        ("security_challenged", {}, "human_resolved"),
    ],
)
@pytest.mark.parametrize(("found", "after"), [({"confirmationId": "C-1"}, "completed"), ({}, "submitting")])
def test_a_person_at_the_browser_while_it_submits_may_have_submitted(
    *, event: str, data: object, answer: str, found: object, after: str
) -> None:
    """A solved captcha often sends the form by itself: the confirmation is looked for before all else."""
    life = Applying().until("submitting")
    life.worker(event, data)
    life.send(Event(answer, {} if answer != "security_resolved" else None, USER))
    if life.is_in("clearing_captcha"):
        life.work_done({"cleared": True})
    assert life.states == ("checking_submission",)
    life.work_done(found)
    assert life.states == (after,)


@pytest.mark.mission("APP-P17", "APP-CHK", "APP-HUMAN")
@pytest.mark.parametrize("phase", ["filling_page", "submitting"])
def test_a_captcha_after_a_takeover_comes_back_to_the_look_for_a_submission(phase: str) -> None:
    """Until a look has told otherwise, the person who took over may have submitted."""
    life = Applying("premium").until(phase)
    life.work_fails("canvas_element")
    switch(life)
    life.work_fails("canvas_element")
    life.work_done()
    life.send(Application.human_resolved({}, by=USER))
    life.work_fails("captcha_detected")
    life.send(Application.captcha_solved({}, by=USER))
    life.work_done({"cleared": True})
    assert life.states == ("checking_submission",)
    begun = submissions(life)
    life.work_done({})
    assert life.states == ({"submitting": "verifying"}.get(phase, phase),)
    assert submissions(life) == begun


@pytest.mark.mission("APP-P17", "APP-CHK", "APP-HUMAN")
@pytest.mark.parametrize("found", [{}, {"confirmationPage": True}])
@pytest.mark.parametrize("is_blind", [False, True])
def test_who_takes_over_at_the_submission_submits(*, found: dict[str, object], is_blind: bool) -> None:
    """After a takeover while submitting no engine presses the button: it is confirmed, or it fails."""
    life = Applying("premium").until("submitting")
    life.work_fails("canvas_element")
    switch(life)
    life.work_fails("canvas_element")
    life.work_fails("CDP_DISCONNECT") if is_blind else life.work_done()
    assert (life.states, life.checkpoints()[-1]) == (("waiting_takeover",), "submitted")
    begun = submissions(life)
    life.send(Application.human_resolved({}, by=USER))
    life.work_done(found)
    if not found:
        assert life.states == ("verifying",)
        life.work_done({})
    assert (life.status, submissions(life)) == ("completed" if found else "failed", begun)


def left_to_a_person(phase: str) -> Applying:
    """A person has had the browser, and says that they are done."""
    life = Applying("premium").until(phase)
    if phase == "submitting":
        life.work_fails("captcha_detected")
        life.send(Application.captcha_solved({}, by=USER))
        assert life.states == ("clearing_captcha",)
    else:
        life.work_fails("canvas_element")
        switch(life)
        life.work_fails("canvas_element")
        life.work_done()
        life.send(Application.human_resolved({"notes": "I have submitted it"}, by=USER))
        assert life.states == ("checking_submission",)
    return life


@pytest.mark.mission("APP-ERR", "APP-CHK", "APP-HUMAN")
@pytest.mark.parametrize("phase", ["filling_page", "submitting"])
@pytest.mark.parametrize("code", ["BROWSER_CRASH", "cdp_disconnect"])
def test_what_a_person_did_in_a_browser_that_is_lost_is_not_done_again(phase: str, code: str) -> None:
    """A new browser that finds no confirmation proves nothing: the task fails, nothing is sent again."""
    life = left_to_a_person(phase)
    begun = submissions(life)
    life.work_fails(code)
    assert (life.record["submitAttempted"], life.checkpoints()[-1]) == (True, "submitted")
    life.work_done(BROWSER)
    assert life.states == ("checking_submission",)
    life.work_done({})
    assert life.states == ("verifying",)
    life.work_done({})
    assert (failed_with(life), submissions(life)) == ("VERIFICATION_FAILED", begun)


@pytest.mark.mission("APP-ERR", "APP-CHK", "APP-T8", "APP-HUMAN")
@pytest.mark.parametrize("phase", ["filling_page", "submitting"])
@pytest.mark.parametrize("end", ["cancel", "overdue", "broken"])
def test_what_ends_before_the_look_after_a_person_may_be_submitted(phase: str, end: str) -> None:
    """Who looks at the record afterwards is not told that nothing went out."""
    life = left_to_a_person(phase)
    if end == "cancel":
        life.send(Application.cancel(by=USER))
    if end == "overdue":
        life.advance("30m")
    while end == "broken" and not life.snapshot.ended:
        life.work_fails("ValueError")
    assert life.snapshot.ended
    assert life.record["submitAttempted"]


RESULTS: dict[str, list[Any]] = {
    "provisioning": [BROWSER],
    "navigating": [PAGE],
    "analyzing": [{"fields": [GOOD]}, {"fields": [GOOD], "uploadNeeded": False}],
    "filling_page": [{"fields": [GOOD]}, {"filesOnPage": True}],
    "uploading_files": [SENT, {}],
    "reading_back": [{}, {"mismatches": ["email"]}, {"captchaPresent": True}],
    "finding_way": [LAST_PAGE, LAST_PAGE, {"hasNext": True}],
    "uploading": [SENT],
    "checking_browser": [{"alive": True}],
    "restarting": [BROWSER],
    "clearing_captcha": [{"cleared": True}, {"cleared": False}],
}
TROUBLE = [*LOST, *NOT_SENT, "timeout", "action_no_effect", "lost", "VERIFICATION_FAILED"]
TROUBLE = [code for code in TROUBLE if code.upper() != "BUDGET_EXCEEDED"]
ANSWERS = [
    Application.captcha_solved({}, by=USER),
    Application.security_resolved(by=USER),
    Application.field_answered({"fieldName": "visa", "value": "no"}, by=USER),
    Application.human_resolved({}, by=USER),
    Application.review_approved(by=USER),
    Application.review_edited({"corrections": {"email": "a@b.c"}}, by=USER),
]
REPORTS = [
    ("captcha_detected", {"captchaType": "custom"}),
    ("security_challenged", {}),
    ("field_ambiguous", {"fieldName": "visa"}),
]

CRUCIAL = ("submitting", "clearing_captcha", "checking_submission")
"""Where trouble means most, and comes most often."""


def wander(life: Applying, dice: Random) -> str:
    """Let something happen that can happen next; what it was."""
    if not life.snapshot.work:
        life.rest() if life.is_in("retrying") else life.attempt(dice.choice(ANSWERS))
        return "somebody or the time"
    ((state, work),) = life.snapshot.work.items()
    life.clock.move_to(max(work.due or life.clock.now(), life.clock.now()))
    if dice.random() < (0.3 if state in CRUCIAL else 0.85):
        life.work_done(dice.choice(RESULTS.get(state, [{}])))
        return "done"
    if dice.random() < 0.8:
        code = dice.choice(TROUBLE)
        life.send(work_failed(work.id, work.attempt, code))
        return code
    name, data = dice.choice(REPORTS)
    life.attempt(Event(name, data, WORKER, ref=work.id, attempt=work.attempt))
    return "captcha_detected"


@dataclass
class Onlooker:
    """Knows of a life whether it may have been submitted: by work that submits, or by a person's hands."""

    life: Applying
    is_sent: bool = False
    by_hand: bool = False
    """A person may have submitted, in a browser that can still show it."""

    def wander(self, dice: Random) -> None:
        """Let something happen, and see what it means."""
        life, was = self.life, self.life.states
        happened = wander(life, dice)
        was_submitting = was == ("submitting",)
        self.is_sent |= was_submitting and happened not in NOT_SENT
        self.by_hand |= life.is_in("waiting_takeover") or (was_submitting and life.is_in("waiting_human"))
        if was == ("checking_submission",) != life.states:
            self.by_hand &= happened not in {"done", "VERIFICATION_FAILED"}
        self.is_sent |= self.by_hand and life.is_in("restarting")


@pytest.mark.fuzz
@pytest.mark.mission("APP-CHK", "APP-GATE", "APP-P5", "APP-HUMAN")
@pytest.mark.parametrize("tier", ["starter", "pro", "premium"])
def test_no_life_submits_in_doubt_or_without_the_resume(tier: str) -> None:
    """Whatever happens in whichever order, a submission begins complete, and with nothing sent before."""
    begun = 0
    for seed in seeds(300):
        dice, life = Random(seed), Applying(tier).until("provisioning")
        onlooker = Onlooker(life)
        while not life.snapshot.ended and len(life.steps) < 100:
            before = submissions(life)
            onlooker.wander(dice)
            if submissions(life) > before:
                begun += 1
                assert not onlooker.is_sent, (tier, seed)
                assert not onlooker.by_hand, (tier, seed)
                assert life.record["resumeUploaded"] or not life.record["uploadNeeded"], (tier, seed)
    assert begun > 100


@pytest.mark.mission("APP-CHK")
@pytest.mark.parametrize("state", ["waiting_captcha", "waiting_security", "waiting_takeover"])
def test_a_person_at_the_browser_before_is_not_looked_after(state: str) -> None:
    """Elsewhere than at the submission only a takeover is followed by a look for the confirmation."""
    assert not at(state).record["takenOver"]
