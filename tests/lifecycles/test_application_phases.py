"""The phases of an application, its pages, and the gates before it is submitted."""

from __future__ import annotations

import pytest

from headway import Event
from headway.clock import time_text
from headway.lifecycles.applications.chart import Application
from headway.lifecycles.applications.guards import judge
from headway.lifecycles.applications.record import Field
from tests.lifecycles.applying import (
    DOUBTFUL,
    GOOD,
    LAST_PAGE,
    PAGE,
    SENT,
    USER,
    WORKER,
    Applying,
    failed_with,
)

PHASES = ["provisioning", "navigating", "analyzing", "filling", "uploading"]


@pytest.mark.mission(
    "APP-TIER", "APP-P2", "APP-P3", "APP-P4", "APP-P5", "APP-P11", "APP-P13", "APP-T6", "APP-REC"
)
@pytest.mark.parametrize(("tier", "gate"), [("starter", ["reviewing"]), ("pro", []), ("premium", [])])
def test_the_plain_path_of_each_tier(tier: str, gate: list[str]) -> None:
    """Each tier goes through its phases, copilot with a review, to the confirmed submission."""
    life = Applying(tier).until("verifying")
    life.clock.advance("42s")
    life.work_done({"confirmationId": "C-1", "screenshotUrl": "https://shot/1"})
    steps = [message["step"] for message in life.told("progress")]
    assert steps == [*PHASES, *gate, "submitting", "verifying", "completed"]
    assert life.told("progress")[-1] == {
        "taskId": "task1",
        "step": "completed",
        "pct": 100,
        "message": "Application submitted!",
    }
    assert (life.status, life.snapshot.progress, life.snapshot.ended) == ("completed", 100, True)
    assert life.record["completedAt"] == time_text(life.clock.now())
    assert life.record["durationSeconds"] == 42
    assert life.record["status"] == "completed"


@pytest.mark.mission("APP-P2", "APP-P3", "APP-P4", "APP-T7", "APP-ERR")
@pytest.mark.parametrize(
    ("phase", "result", "code"),
    [
        ("provisioning", {}, "BROWSER_START_FAILED"),
        ("provisioning", {"cdpUrl": "", "engine": "dom"}, "BROWSER_START_FAILED"),
        ("provisioning", {"cdpUrl": "ws://b"}, "ENGINE_CONNECT_FAILED"),
        ("provisioning", {"cdpUrl": "ws://b", "engine": ""}, "ENGINE_CONNECT_FAILED"),
        ("navigating", {"settled": True, "matches": False}, "NAVIGATION_ERROR"),
        ("navigating", {"settled": False, "matches": True}, "NAVIGATION_ERROR"),
        ("analyzing", {"fields": []}, "FORM_NOT_FOUND"),
        ("finding_way", {}, "NAVIGATION_ERROR"),
        ("uploading", {}, "UPLOAD_FAILED"),
        ("uploading", {"resumeUploaded": False}, "UPLOAD_FAILED"),
        ("verifying", {}, "VERIFICATION_FAILED"),
    ],
)
def test_a_phase_whose_guard_says_no_fails_with_its_code(
    phase: str, result: dict[str, object], code: str
) -> None:
    """A result that does not let the next phase begin ends the task with its code and its screenshot."""
    life = Applying().until(phase)
    life.work_done({**result, "screenshotUrl": "https://shot/error"} if "cdpUrl" not in result else result)
    assert failed_with(life) == code
    assert life.record["screenshotUrl"] == ("" if "cdpUrl" in result else "https://shot/error")
    assert life.told("error")[-1]["errorCode"] == code


@pytest.mark.mission("APP-P7", "APP-P8", "APP-ERR")
@pytest.mark.parametrize("tier", ["starter", "pro"])
def test_an_upload_that_did_not_happen_is_none(tier: str) -> None:
    """Neither a review nor the gates follow on work that does not say that the resume is uploaded."""
    life = Applying(tier).until("uploading")
    life.work_done({"captchaPresent": False})
    assert failed_with(life) == "UPLOAD_FAILED"
    assert "resume_uploaded" not in life.checkpoints()


@pytest.mark.mission("APP-P6")
def test_copilot_without_upload_is_reviewed_after_filling() -> None:
    """In copilot mode, a form that takes no file goes from filling to the review."""
    life = Applying("starter").until("analyzing")
    life.work_done({"fields": [GOOD], "uploadNeeded": False})
    assert life.until("reviewing").history[-1].transition == "filled_for_review"


@pytest.mark.mission("APP-P8", "APP-GATE")
def test_passed_gates_submit_without_a_person() -> None:
    """In autopilot mode, good fields and an uploaded resume go straight to submitting."""
    life = Applying().until("uploading")
    life.work_done(SENT)
    assert life.states == ("submitting",)
    assert life.record["gates"] == {
        "passed": True,
        "failures": [],
        "overallConfidence": 0.95,
        "lowConfidenceFields": [],
    }


@pytest.mark.mission("APP-GATE", "APP-HUMAN")
def test_failed_gates_ask_the_user_for_120_seconds() -> None:
    """A doubtful field makes autopilot ask; silence ends with QUALITY_GATE_TIMEOUT."""
    life = Applying().until("uploading", [GOOD, DOUBTFUL])
    life.work_done(SENT)
    assert (life.status, life.record["currentStep"]) == ("waiting_human", "review_before_submit")
    assert life.record["gates"]["lowConfidenceFields"] == [{"name": "salary", "confidence": 0.3}]
    life.advance("120s")
    assert failed_with(life) == "QUALITY_GATE_TIMEOUT"


@pytest.mark.mission("APP-GATE")
def test_failed_gates_can_be_approved() -> None:
    """The user may submit in spite of the doubts."""
    life = Applying("premium").until("uploading", [DOUBTFUL])
    life.work_done(SENT)
    life.send(Application.review_approved(by=USER))
    assert life.states == ("submitting",)


@pytest.mark.mission("APP-GATE", "APP-P10")
@pytest.mark.parametrize("tier", ["starter", "pro"])
def test_a_review_can_be_edited(tier: str) -> None:
    """Corrections lead back to filling, with all its rounds for fields that do not read back."""
    life = Applying(tier).until("reading_back", [DOUBTFUL])
    life.work_done({"mismatches": ["salary"]})
    life.work_done()
    life.until("waiting_human")
    life.send(Application.review_edited({"corrections": {"salary": "1"}}, by=USER))
    assert (life.record["corrections"], life.record["refills"]) == ({"salary": "1"}, 0)
    assert life.states == ("filling_page",)


@pytest.mark.mission("APP-GATE")
@pytest.mark.parametrize("seen_in", ["reading_back", "uploading"])
def test_a_captcha_on_the_last_page_fails_its_gate(seen_in: str) -> None:
    """Nothing is submitted by itself while a captcha is seen."""
    life = Applying().until(seen_in)
    life.work_done({**SENT, "captchaPresent": True})
    life.until("gate_review")
    assert life.record["gates"]["failures"] == ["no_captcha"]


@pytest.mark.mission("APP-GATE")
@pytest.mark.parametrize(
    ("fields", "resume", "captcha", "failures"),
    [
        ([Field("a", "x", 0.9)], True, False, []),
        ([Field("a", "x", 0.7)], True, False, []),
        ([Field("a", "x", 0.9), Field("b", "", 0.9, required=True)], True, False, ["required_fields"]),
        ([Field("a", "x", 0.69)], True, False, ["average_confidence"]),
        (
            [Field("a", "x", 1.0), Field("b", "x", 1.0), Field("c", "x", 0.39)],
            True,
            False,
            ["low_confidence"],
        ),
        ([Field("a", "x", 1.0), Field("b", "x", 0.4)], True, False, []),
        ([Field("a", "x", 0.9)], False, False, ["resume_uploaded"]),
        ([Field("a", "x", 0.9)], True, True, ["no_captcha"]),
        ([Field("a", "x", 0.9)], False, True, ["resume_uploaded", "no_captcha"]),
        ([Field("a", "x", 0.9), Field("cv", "", required=True, type="file")], True, False, []),
        ([Field("a", "x", 0.9), Field("cv", "cv.pdf", 0.0, type="file")], True, False, []),
        ([Field("a", "", 0.9)], True, False, ["average_confidence"]),
    ],
)
def test_the_five_gates(fields: list[Field], resume: bool, captcha: bool, failures: list[str]) -> None:  # noqa: FBT001 - columns of a table
    """Each gate fails on its own at its threshold."""
    result = judge(fields, resume_uploaded=resume, captcha_present=captcha)
    assert (result["failures"], result["passed"]) == (failures, not failures)


@pytest.mark.mission("APP-PAGES", "APP-P15")
def test_a_further_page_is_loaded_and_analyzed() -> None:
    """A page with Next is left for the next one, also where Submit is beside it."""
    for buttons in ({"hasNext": True}, {"hasNext": True, "hasSubmit": True}):
        life = Applying().until("finding_way")
        life.work_done(buttons)
        assert life.states == ("clicking_next",)
        life.work_done()
        assert (life.states, life.record["pageIndex"]) == (("navigating",), 1)
        assert life.until("submitting").status == "in_progress"


@pytest.mark.mission("APP-PAGES", "APP-GATE", "APP-P7")
def test_the_review_shows_the_fields_of_all_pages() -> None:
    """What is filled on a page stays known: the person sees all of it, as it was read last."""
    life = Applying("starter").until("reading_back", [DOUBTFUL])
    life.work_done({"fields": [{**DOUBTFUL, "confidence": 0.8}]})
    life.work_done({"hasNext": True})
    life.work_done()
    life.until("reviewing", [GOOD])
    (review,) = life.told("field_review")
    assert [(each["name"], each["confidence"]) for each in review["fields"]] == [
        ("salary", 0.8),
        ("email", 0.95),
    ]


@pytest.mark.mission("APP-PAGES", "APP-P4")
def test_a_later_page_may_have_no_fields() -> None:
    """Only the first page must have a field: a last one may just sum up and submit."""
    life = Applying().until("finding_way")
    life.work_done({"hasNext": True})
    life.work_done()
    life.work_done(PAGE)
    life.work_done({"fields": []})
    assert life.states == ("filling_page",)


@pytest.mark.mission("APP-PAGES")
def test_each_page_has_all_its_rounds() -> None:
    """Fields of a page are filled again twice, however often those of the page before were."""
    life = Applying().until("reading_back")
    for _ in range(2):
        life.work_done({"mismatches": ["email"]})
        life.work_done()
    life.work_done()
    life.work_done({"hasNext": True})
    life.work_done()
    life.until("reading_back").work_done({"mismatches": ["email"]})
    assert life.states == ("refilling",)


@pytest.mark.mission("APP-PAGES")
def test_fields_that_differ_are_filled_again() -> None:
    """What does not read back is filled again, at most twice, then another way is tried."""
    life = Applying().until("reading_back")
    for _ in range(2):
        life.work_done({"mismatches": ["email"]})
        assert life.states == ("refilling",)
        life.work_done({"fields": [{**GOOD, "confidence": 0.8}]})
        assert life.record["fields"] == [{**GOOD, "confidence": 0.8}]
    life.work_done({"mismatches": ["email"]})
    assert life.states == ("retrying",)
    life.rest()
    life.work_done({})
    assert life.states == ("finding_way",)


@pytest.mark.mission("APP-PAGES")
def test_files_of_a_page_are_uploaded_there() -> None:
    """A page that takes the resume gets it before it is read back, and no second upload follows."""
    life = Applying().until("filling_page")
    life.work_done({"fields": [GOOD, DOUBTFUL], "filesOnPage": True})
    assert life.states == ("uploading_files",)
    assert life.record["fields"] == [GOOD, DOUBTFUL]
    life.work_done({"resumeUploaded": True})
    assert (life.states, life.checkpoints()[-1]) == (("reading_back",), "resume_uploaded")
    life.work_done({})
    life.work_done(LAST_PAGE)
    assert life.states == ("gate_review",)
    assert life.record["gates"]["failures"] == ["average_confidence", "low_confidence"]


@pytest.mark.mission("APP-PAGES", "APP-P5")
def test_other_files_of_a_page_do_not_stand_for_the_resume() -> None:
    """A page that took something else leaves the resume to be uploaded."""
    life = Applying().until("filling_page")
    life.work_done({"filesOnPage": True})
    life.work_done({})
    assert "resume_uploaded" not in life.checkpoints()
    life.work_done({})
    life.work_done(LAST_PAGE)
    assert life.states == ("uploading",)


@pytest.mark.mission("APP-P5", "APP-P6", "APP-GATE")
@pytest.mark.parametrize(("tier", "review"), [("starter", "reviewing"), ("pro", "gate_review")])
def test_an_empty_required_field_reaches_a_person_with_the_resume_uploaded(tier: str, review: str) -> None:
    """A field that nobody could fill keeps back neither the upload nor the person who looks at it."""
    life = Applying(tier).until("filling_page", [{**GOOD, "value": ""}])
    life.worker("field_ambiguous", {"fieldName": "email"})
    life.advance("120s")
    life.until("uploading", [{**GOOD, "value": ""}])
    assert life.history[-1].transition == "text_missing"
    life.work_done(SENT)
    assert life.states == (review,)
    assert life.record["gates"].get("failures", ["required_fields"])[0] == "required_fields"
    life.send(Application.review_approved(by=USER))
    assert (life.states, life.record["resumeUploaded"]) == (("submitting",), True)


@pytest.mark.mission("APP-P5", "APP-GATE")
def test_a_field_for_a_file_is_no_text_to_fill_in() -> None:
    """A required field for the resume is filled by its upload: it does not stand in the upload's way."""
    resume = {"name": "resume", "required": True, "type": "file"}
    life = Applying().until("uploading", [GOOD, resume])
    assert life.history[-1].transition == "text_filled"
    life.work_done(SENT)
    assert life.states == ("submitting",)


@pytest.mark.mission("APP-PAGES", "APP-P5", "APP-GATE")
@pytest.mark.parametrize(("first", "then"), [(True, False), (False, True), (True, None)])
def test_a_resume_that_one_page_wants_is_uploaded(*, first: bool, then: bool | None) -> None:
    """What a later page says of the form adds to what the pages before have said."""
    life = Applying().until("analyzing")
    life.work_done({"fields": [GOOD], "uploadNeeded": first, "formFlow": {"pages": 2, "kind": "wizard"}})
    life.turn_page().until("analyzing")
    wanted = {} if then is None else {"uploadNeeded": then}
    life.work_done({"fields": [], "formFlow": {"last": True}, **wanted})
    assert life.record["formFlow"] == {"pages": 2, "kind": "wizard", "last": True}
    assert life.until("uploading").record["uploadNeeded"]


@pytest.mark.mission("APP-PAGES", "APP-GATE")
def test_a_form_that_wants_no_resume_gets_none() -> None:
    """The first page's analysis is what counts until a later page wants more."""
    life = Applying().until("analyzing")
    life.work_done({"fields": [GOOD], "uploadNeeded": False})
    life.turn_page().until("analyzing")
    life.work_done({"fields": [], "uploadNeeded": False})
    assert not life.until("submitting").record["resumeUploaded"]


@pytest.mark.mission("APP-GATE", "APP-HUMAN")
def test_a_captcha_that_is_solved_does_not_fail_its_gate() -> None:
    """What was seen before a person has solved it, or on a page before, is not there any more."""
    life = Applying().until("reading_back")
    life.work_done({"captchaPresent": True})
    life.worker("captcha_detected", {"captchaType": "hcaptcha"})
    life.send(Application.captcha_solved({}, by=USER))
    life.work_done({"cleared": True})
    assert life.until("submitting").record["gates"]["passed"]
    life = Applying().until("reading_back")
    life.work_done({"captchaPresent": True})
    assert life.turn_page().until("submitting").record["gates"]["passed"]


@pytest.mark.mission("APP-P12", "APP-ERR")
def test_rejected_values_are_mended_twice() -> None:
    """Validation errors lead back to filling twice, then the task fails."""
    life = Applying()
    for _ in range(2):
        (work,) = life.until("submitting").snapshot.work.values()
        errors = {"code": "SUBMIT_VALIDATION_ERROR", "validationErrors": {"email": "no"}}
        life.send(Event("work.failed", errors, WORKER, ref=work.id, attempt=1))
        assert (life.record["currentStep"], life.record["submitAttempted"]) == ("filling", False)
        assert life.record["validationErrors"] == {"email": "no"}
    life.until("submitting").work_fails("SUBMIT_VALIDATION_ERROR")
    assert failed_with(life) == "SUBMIT_VALIDATION_ERROR"


@pytest.mark.mission("APP-P14", "APP-ERR")
def test_three_looks_without_confirmation_fail() -> None:
    """The confirmation is looked for three times."""
    life = Applying().until("verifying")
    for _ in range(2):
        life.work_fails("VERIFICATION_FAILED")
        assert life.states == ("verifying",)
    life.work_fails("VERIFICATION_FAILED")
    assert failed_with(life) == "VERIFICATION_FAILED"
