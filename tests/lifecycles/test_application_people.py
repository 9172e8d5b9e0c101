"""An application that waits for a person: asked, answered, or not in time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headway import Event
from headway.clock import time_text
from headway.lifecycles.applications.chart import Application
from headway.statechart.effects import OpenedAsk, StartWork
from headway.statechart.snapshot import work_failed
from tests.lifecycles.applying import BROWSER, GOOD, USER, WORKER, Applying, at, failed_with


@pytest.mark.mission("APP-P7", "APP-T3", "APP-HUMAN", "APP-WS")
def test_copilot_review_shows_the_fields() -> None:
    """After the upload, the user gets the filled fields and 300 seconds; the status is waiting_human."""
    life = Applying("starter").until("reviewing")
    assert (life.status, life.record["currentStep"], life.snapshot.progress) == (
        "waiting_human",
        "reviewing",
        75,
    )
    shown = {key: GOOD[key] for key in ("name", "value", "confidence", "source")}
    assert life.told("field_review") == [{"taskId": "task1", "fields": [shown]}]
    (ask,) = life.last(OpenedAsk)
    assert ask.deadline == life.clock.now() + timedelta(seconds=300)
    assert set(ask.answers) >= {"review_approved", "review_edited"}


@pytest.mark.mission("APP-P9", "APP-T4", "APP-EV")
def test_an_approved_review_is_submitted() -> None:
    """`review_approved` goes on to submitting."""
    life = Applying("starter").until("reviewing")
    life.send(Application.review_approved(by=USER))
    assert (life.status, life.states) == ("in_progress", ("submitting",))


@pytest.mark.mission("APP-P10", "APP-EV")
def test_an_edited_review_is_filled_anew() -> None:
    """`review_edited` goes back to filling with the corrections, and is reviewed again."""
    life = Applying("starter").until("reviewing")
    life.send(Application.review_edited({"corrections": {"email": "a@b.c"}}, by=USER))
    assert (life.states, life.record["corrections"]) == (("filling_page",), {"email": "a@b.c"})
    assert life.until("reviewing").status == "waiting_human"
    assert life.refused(Application.review_edited({"corrections": 1}, by=USER)).code == "payload"


@pytest.mark.mission("APP-P10", "APP-EV")
def test_corrections_add_up() -> None:
    """What the user has said before, to a question or in a review, is not lost with the next correction."""
    life = Applying("starter").until("filling_page")
    life.worker("field_ambiguous", {"fieldName": "visa"})
    life.send(Application.field_answered({"fieldName": "visa", "value": "no"}, by=USER))
    for corrections in ({"email": "a@b.c"}, {"salary": "1"}, {"salary": "2"}):
        life.until("reviewing").send(Application.review_edited({"corrections": corrections}, by=USER))
    assert life.record["corrections"] == {"visa": "no", "email": "a@b.c", "salary": "2"}


@pytest.mark.mission("APP-P10", "APP-P12", "APP-PAGES")
@pytest.mark.parametrize("how", ["edited", "rejected"])
@pytest.mark.parametrize(
    ("field", "state", "page"),
    [("email", "navigating", 0), ("salary", "filling_page", 1), ("", "filling_page", 1)],
)
def test_a_value_of_an_earlier_page_is_corrected_there(how: str, field: str, state: str, page: int) -> None:
    """The last page is filled anew where it stands; for one before it the form is gone through again."""
    life = Applying("starter").until("filling_page").turn_page()
    life.until("reading_back", [{**GOOD, "name": "salary"}]).work_done({"fields": [GOOD]})
    life.until("reviewing")
    assert [(each["name"], each["page"]) for each in life.record["fields"]] == [("email", 0), ("salary", 1)]
    if how == "edited":
        life.send(Application.review_edited({"corrections": {field: "x"} if field else {}}, by=USER))
    else:
        (work,) = life.until("submitting").snapshot.work.values()
        errors: dict[str, Any] = {"validationErrors": {field: "no"}} if field else {}
        life.send(work_failed(work.id, work.attempt, "SUBMIT_VALIDATION_ERROR", **errors))
    assert (life.states, life.record["pageIndex"]) == ((state,), page)
    assert life.record["resumeUploaded"] == (page == 1)
    kept = "corrections" if how == "edited" else "validationErrors"
    assert set(life.record[kept]) == ({field} if field else set())


WAITS = [
    (
        "captcha_detected",
        {"captchaType": "hcaptcha", "screenshotUrl": "s"},
        "captcha",
        120,
        "CAPTCHA_TIMEOUT",
    ),
    ("security_challenged", {"screenshotUrl": "s"}, "security_challenge", 120, "SECURITY_TIMEOUT"),
]


@pytest.mark.mission("APP-T3", "APP-T5", "APP-P16", "APP-HUMAN", "APP-WS")
@pytest.mark.parametrize(
    "phase", ["navigating", "analyzing", "filling", "uploading", "submitting", "verifying"]
)
@pytest.mark.parametrize(("event", "data", "reason", "seconds", "code"), WAITS)
def test_a_wait_for_a_person_ends_at_its_deadline(
    *, event: str, data: object, reason: str, seconds: int, code: str, phase: str
) -> None:
    """From any phase a person is asked, told where to look and until when, and silence fails the task."""
    life = Applying().until(phase)
    progress = life.snapshot.progress
    life.worker(event, data)
    assert life.snapshot.progress == progress
    assert (life.status, life.record["currentStep"]) == ("waiting_human", reason)
    assert "human_takeover" in life.logged()
    until = time_text(life.clock.now() + timedelta(seconds=seconds))
    seen = {"vncUrl": "https://view/1", "screenshotUrl": "s", "deadline": until}
    assert life.told("human_needed") == [{"taskId": "task1", "reason": reason, **seen}]
    life.advance(seconds - 1)
    assert life.status == "waiting_human"
    life.advance(1)
    assert failed_with(life) == code


@pytest.mark.mission("APP-T3", "APP-HUMAN", "APP-WS")
@pytest.mark.parametrize(
    ("state", "reason", "fields_shown"),
    [
        ("reviewing", "review_before_submit", True),
        ("gate_review", "review_before_submit", True),
        ("waiting_takeover", "engine_exhausted", False),
        ("waiting_answer", "ambiguous_field", False),
    ],
)
def test_each_wait_calls_for_help(state: str, reason: str, *, fields_shown: bool) -> None:
    """Whatever a person is needed for is told with its reason, and logged; reviews show the fields."""
    life = at(state)
    assert life.told("human_needed")[-1]["reason"] == reason
    assert life.log("human_takeover") == [{"reason": reason, "interventionUrl": "https://view/1"}]
    assert bool(life.told("field_review")) == fields_shown


@pytest.mark.mission("APP-T5", "APP-HUMAN")
def test_a_review_ends_after_300_seconds() -> None:
    """Silence in the copilot review fails with REVIEW_TIMEOUT."""
    life = Applying("starter").until("reviewing")
    life.advance("300s")
    assert failed_with(life) == "REVIEW_TIMEOUT"
    assert life.refused(Application.review_approved(by=USER)).code == "terminal"


@pytest.mark.mission("APP-T4", "APP-EV", "APP-HUMAN")
def test_a_solved_captcha_resumes_the_paused_phase() -> None:
    """After `captcha_solved` the captcha is looked for again, then the work goes on where it was."""
    life = Applying().until("reading_back")
    life.worker("captcha_detected", {"captchaType": "turnstile"})
    life.send(Application.captcha_solved({"solvedBy": "user"}, by=USER))
    assert (life.status, life.states) == ("in_progress", ("clearing_captcha",))
    life.work_done({"cleared": False})
    assert life.status == "waiting_human"
    life.send(Application.captcha_solved({}, by=USER))
    life.work_done({"cleared": True})
    assert (life.states, life.record["currentStep"]) == (("reading_back",), "filling")
    assert [work.handler for work in life.last(StartWork)] == ["read_back"]


@pytest.mark.mission("APP-P16", "APP-ENGINE")
def test_a_captcha_signal_asks_a_person() -> None:
    """Work that fails by the captcha signal waits for a person, without a retry."""
    life = Applying().until("uploading")
    (work,) = life.snapshot.work.values()
    found = {"code": "captcha_detected", "captchaType": "hcaptcha", "screenshotUrl": "s"}
    life.send(Event("work.failed", found, WORKER, ref=work.id, attempt=1))
    assert life.states == ("waiting_captcha",)
    assert (life.record["captchaType"], life.record["screenshotUrl"]) == ("hcaptcha", "s")
    assert "captcha_detected" in life.logged()


@pytest.mark.mission("APP-T3")
def test_nobody_is_asked_to_look_at_a_browser_without_view() -> None:
    """Without a live view a person could do nothing: reports are refused, a signal fails the task."""
    life = Applying().until("provisioning")
    life.work_done({**BROWSER, "liveViewUrl": ""})
    for event in (
        Event("captcha_detected", {"captchaType": "custom"}, WORKER),
        Event("security_challenged", {}, WORKER),
    ):
        assert "live view" in life.refused(event).message
    (work,) = life.snapshot.work.values()
    life.send(work_failed(work.id, work.attempt, "captcha_detected", screenshotUrl="s"))
    assert failed_with(life) == "CAPTCHA_TIMEOUT"
    assert "nobody can see" in life.record["errorMessage"]
    assert life.record["screenshotUrl"] == "s"


@pytest.mark.mission("APP-T4", "APP-EV", "APP-HUMAN")
def test_a_met_security_check_resumes() -> None:
    """`security_resolved` resumes the paused phase."""
    life = Applying().until("filling")
    life.worker("security_challenged", {})
    life.send(Application.security_resolved(by=USER))
    assert life.states == ("filling_page",)


@pytest.mark.mission("APP-EV", "APP-HUMAN")
@pytest.mark.parametrize(
    ("trouble", "data", "after"),
    [
        ("security_challenged", {}, "filling_page"),
        ("captcha_detected", {"captchaType": "custom"}, "clearing_captcha"),
    ],
)
def test_a_person_can_say_that_all_is_done(trouble: str, data: object, after: str) -> None:
    """`human_resolved` ends any wait at the browser, and keeps the person's notes."""
    life = Applying().until("filling")
    life.worker(trouble, data)
    life.send(Application.human_resolved({"notes": "done"}, by=USER))
    assert (life.states, life.record["notes"]) == ((after,), "done")


@pytest.mark.mission("APP-EV", "APP-HUMAN")
def test_an_answered_field_resumes_filling() -> None:
    """`field_answered` gives the value to fill in and resumes."""
    life = Applying().until("filling")
    life.worker("field_ambiguous", {"fieldName": "visa", "fieldOptions": ["yes", "no"]})
    (ask,) = life.last(OpenedAsk)
    question = {"fieldName": "visa", "fieldOptions": ["yes", "no"]}
    assert ask.shows == question
    assert life.told("human_needed")[-1].items() >= question.items()
    refusal = life.refused(Application.field_answered({"fieldName": "salary", "value": "1"}, by=USER))
    assert (refusal.code, "visa" in refusal.message) == ("guard", True)
    life.send(Application.field_answered({"fieldName": "visa", "value": "no"}, by=USER))
    assert (life.states, life.record["corrections"]) == (("filling_page",), {"visa": "no"})


@pytest.mark.mission("APP-HUMAN")
def test_an_unanswered_field_is_skipped_with_a_warning() -> None:
    """After 120 seconds the field is skipped, a warning logged, and filling goes on."""
    life = Applying().until("filling")
    life.worker("field_ambiguous", {"fieldName": "visa"})
    life.advance("120s")
    assert (life.states, life.record["skippedFields"]) == (("filling_page",), ["visa"])
    assert life.log("warning") == [{"skipped": "visa"}]
    late = Application.field_answered({"fieldName": "visa", "value": "no"}, by=USER)
    assert life.refused(late).code == "illegal"


@pytest.mark.mission("APP-HUMAN")
def test_only_the_user_answers() -> None:
    """A worker cannot answer in the user's place."""
    life = Applying("starter").until("reviewing")
    assert life.refused(Application.review_approved(by=WORKER)).code == "actor"


@pytest.mark.mission("APP-P17", "APP-T3", "APP-HUMAN", "APP-EV")
@pytest.mark.parametrize(
    ("found", "status", "state"),
    [({"confirmationId": "C-9"}, "completed", "completed"), ({}, "in_progress", "filling_page")],
)
def test_a_takeover_is_checked_for_a_submission(found: dict[str, str], status: str, state: str) -> None:
    """After `human_resolved` the submission is looked for: completed if there, else the work goes on."""
    life = at("waiting_takeover")
    assert (life.status, life.states) == ("waiting_human", ("waiting_takeover",))
    life.send(Application.human_resolved({"notes": "did it"}, by=USER))
    assert life.record["currentStep"] == "verifying"
    life.work_done(found)
    assert (life.status, life.states, life.record["notes"]) == (status, (state,), "did it")
    assert life.record["confirmationId"] == found.get("confirmationId", "")
    assert ("verified" in life.checkpoints()) == bool(found)
    assert life.snapshot.progress == (100 if found else 25)


@pytest.mark.mission("APP-HUMAN")
def test_a_takeover_without_submission_goes_on() -> None:
    """Three looks that find no confirmation mean that the person has not submitted: the work goes on."""
    life = at("checking_submission")
    for _ in range(3):
        assert life.states == ("checking_submission",)
        life.work_fails("VERIFICATION_FAILED")
    assert (life.status, life.states) == ("in_progress", ("filling_page",))


@pytest.mark.mission("APP-T5")
def test_a_last_look_that_fails_ends_the_takeover() -> None:
    """Where even the last look fails, the task ends with HUMAN_TIMEOUT."""
    life = at("waiting_takeover")
    life.advance("300s")
    life.work_fails("BROWSER_CRASH")
    assert failed_with(life) == "HUMAN_TIMEOUT"


@pytest.mark.mission("APP-T5", "APP-HUMAN")
@pytest.mark.parametrize(("found", "status"), [({"confirmationPage": True}, "completed"), ({}, "failed")])
def test_a_silent_takeover_is_checked_too(found: object, status: str) -> None:
    """After 300 seconds one last look decides between completed and HUMAN_TIMEOUT."""
    life = at("waiting_takeover")
    life.advance("300s")
    assert (life.status, life.record["currentStep"]) == ("in_progress", "verifying")
    life.work_done(found)
    assert life.status == status
    assert life.record["confirmationPage"] == bool(found)
    assert ("verified" in life.checkpoints()) == bool(found)
    assert life.record["errorCode"] == (None if status == "completed" else "HUMAN_TIMEOUT")
