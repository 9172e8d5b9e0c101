"""An application whose browser, or the connection to it, is lost: begun anew, connected anew, or failed."""

from __future__ import annotations

import pytest

from headway.lifecycles.applications.chart import Application
from headway.statechart.effects import StartWork
from tests.lifecycles.applying import (
    BROWSER,
    GOOD,
    SENT,
    USER,
    Applying,
    at,
    failed_with,
    switch,
)

NEW = {**BROWSER, "cdpUrl": "ws://new", "profileId": "p2", "liveViewUrl": "https://view/2"}


def started(life: Applying) -> list[str]:
    """The handlers that were to work, in their order."""
    return [effect.handler for effect in life.effects if isinstance(effect, StartWork)]


@pytest.mark.mission("APP-ERR", "APP-CHK")
@pytest.mark.parametrize("phase", ["navigating", "analyzing", "filling_page", "reading_back", "uploading"])
@pytest.mark.parametrize("code", ["BROWSER_CRASH", "cdp_disconnect"])
def test_a_crashed_browser_is_started_anew_and_the_form_filled_anew(phase: str, code: str) -> None:
    """A new browser shows an empty form: its first page is loaded, and all is filled in again."""
    life = Applying().until(phase)
    life.work_fails(code)
    assert life.states == ("restarting",)
    life.work_done(NEW)
    assert life.states == ("navigating",)
    assert {key: life.record[key] for key in NEW} == NEW
    assert life.checkpoints()[-1] == "provisioned"
    assert (life.record["fields"], life.record["pageIndex"]) == ([], 0)
    assert life.until("submitting").record["fields"] == [GOOD]


@pytest.mark.mission("APP-ERR", "APP-CHK", "APP-GATE")
def test_what_was_uploaded_into_a_lost_browser_is_uploaded_again() -> None:
    """Neither the resume, nor a page, nor a captcha of the old browser counts for the new one."""
    life = Applying().until("filling_page")
    life.work_done({"fields": [GOOD], "filesOnPage": True})
    life.work_done(SENT)
    life.turn_page().until("reading_back").work_done({"captchaPresent": True})
    life.work_fails("BROWSER_CRASH")
    life.work_done(NEW)
    forgotten = {
        key: life.record[key] for key in ("pageIndex", "resumeUploaded", "captchaPresent", "formLost")
    }
    assert forgotten == {"pageIndex": 0, "resumeUploaded": False, "captchaPresent": False, "formLost": False}
    assert life.until("submitting").record["resumeUploaded"]
    assert started(life)[-2:] == ["upload_resume", "submit"]


@pytest.mark.mission("APP-ERR", "APP-CHK")
def test_what_the_user_has_said_is_not_asked_again() -> None:
    """Answers, corrections and skipped questions outlive the browser."""
    life = Applying("starter").until("filling_page")
    life.worker("field_ambiguous", {"fieldName": "visa"})
    life.send(Application.field_answered({"fieldName": "visa", "value": "no"}, by=USER))
    life.worker("field_ambiguous", {"fieldName": "fax"})
    life.advance("120s")
    life.work_fails("BROWSER_CRASH")
    life.work_done(NEW)
    assert (life.record["corrections"], life.record["skippedFields"]) == ({"visa": "no"}, ["fax"])


@pytest.mark.mission("APP-ERR", "APP-ENGINE")
def test_a_new_browser_keeps_the_engine_that_was_switched_to() -> None:
    """The engine that has got further stays the one at work."""
    life = Applying("premium").until("filling_page")
    life.work_fails("canvas_element")
    switch(life)
    life.work_fails("BROWSER_CRASH")
    life.work_done({**NEW, "engine": "dom"})
    assert (life.states, life.record["engine"]) == (("navigating",), "vision")


@pytest.mark.mission("APP-ERR", "APP-T3")
@pytest.mark.parametrize("phase", ["filling_page", "submitting"])
def test_nobody_is_sent_to_the_view_of_a_lost_browser(phase: str) -> None:
    """With the browser its addresses are gone, until the new one tells of its own."""
    life = Applying().until(phase)
    life.work_fails("BROWSER_CRASH")
    assert (life.record["cdpUrl"], life.record["liveViewUrl"]) == ("", "")
    life.work_done({**NEW, "liveViewUrl": ""})
    life.work_fails("captcha_detected")
    assert (life.status, life.record["errorCode"]) == ("failed", "CAPTCHA_TIMEOUT")


@pytest.mark.mission("APP-ERR", "APP-P2")
@pytest.mark.parametrize("result", [{}, None, {"cdpUrl": "", "engine": "dom"}])
def test_a_restart_without_a_browser_fails(result: object) -> None:
    """The guard of the first start holds for a second one, too."""
    life = at("restarting")
    life.work_done(result)
    assert failed_with(life) == "BROWSER_START_FAILED"


@pytest.mark.mission("APP-ERR", "APP-P2")
@pytest.mark.parametrize("code", ["BROWSER_CRASH", "cdp_disconnect", "CDP_DISCONNECT"])
def test_a_browser_that_dies_at_its_start_is_started_once_more(code: str) -> None:
    """A browser that never came up has no address to reconnect to; the new one goes straight to the page."""
    life = Applying().until("provisioning")
    life.work_fails(code)
    assert life.states == ("restarting",)
    life.work_fails(code)
    assert life.states == ("restarting",)
    life.work_done(NEW)
    assert life.states == ("navigating",)
    assert started(life).count("start_browser") == 3
    life.work_fails("BROWSER_CRASH")
    assert failed_with(life) == "BROWSER_CRASH"


@pytest.mark.mission("APP-ERR")
def test_a_browser_that_keeps_crashing_fails_the_task() -> None:
    """Two restarts, then BROWSER_CRASH."""
    life = Applying().until("filling_page")
    for _ in range(2):
        life.work_fails("BROWSER_CRASH")
        life.work_done(BROWSER)
        life.until("filling_page")
    life.work_fails("BROWSER_CRASH")
    assert failed_with(life) == "BROWSER_CRASH"


@pytest.mark.mission("APP-ERR")
def test_a_lost_connection_is_made_anew() -> None:
    """CDP_DISCONNECT reconnects the engine and resumes, twice."""
    life = Applying().until("filling_page")
    for _ in range(2):
        life.work_fails("CDP_DISCONNECT")
        assert life.states == ("reconnecting",)
        life.work_done()
        assert life.states == ("filling_page",)
    life.work_fails("CDP_DISCONNECT")
    assert failed_with(life) == "CDP_DISCONNECT"


@pytest.mark.mission("APP-ERR")
def test_a_reconnection_that_is_lost_is_tried_again_or_ends_in_a_restart() -> None:
    """While there is something left to try, a browser lost under the reconnection is no end."""
    life = Applying().until("filling_page")
    life.work_fails("CDP_DISCONNECT")
    life.work_fails("CDP_DISCONNECT")
    assert life.states == ("reconnecting",)
    life.work_fails("BROWSER_CRASH")
    assert life.states == ("restarting",)
    life.work_done(NEW)
    assert life.states == ("navigating",)


@pytest.mark.mission("APP-ERR")
@pytest.mark.parametrize(
    ("code", "after"), [("BROWSER_CRASH", "navigating"), ("CDP_DISCONNECT", "filling_page")]
)
def test_a_browser_lost_under_a_captcha_comes_back(code: str, after: str) -> None:
    """A browser that is lost while a captcha is looked for is brought back, and the work goes on."""
    life = at("clearing_captcha")
    life.work_fails(code)
    life.work_done(BROWSER)
    assert life.states == (after,)


@pytest.mark.mission("APP-ERR", "APP-HUMAN")
@pytest.mark.parametrize(
    ("code", "after"), [("BROWSER_CRASH", "verifying"), ("CDP_DISCONNECT", "filling_page")]
)
def test_a_browser_lost_after_a_takeover_comes_back_to_the_look(code: str, after: str) -> None:
    """Whether the person has submitted is looked for; only in the same browser nothing found means no."""
    life = at("checking_submission")
    life.work_fails(code)
    life.work_done(BROWSER)
    assert life.states == ("checking_submission",)
    life.work_done({})
    assert life.states == (after,)


@pytest.mark.mission("APP-ERR", "APP-HUMAN", "APP-P17")
def test_nobody_is_asked_to_take_over_a_dead_browser() -> None:
    """A browser that is lost before a person gets it is started anew, or the task fails."""
    life = Applying("premium").until("submitting")
    life.work_fails("canvas_element")
    switch(life)
    life.work_fails("canvas_element")
    life.work_fails("BROWSER_CRASH")
    assert (life.states, life.record["submitAttempted"]) == (("restarting",), False)
    life.work_done(NEW)
    assert life.states == ("navigating",)
    life = Applying("premium").until("navigating")
    for _ in range(2):
        life.work_fails("BROWSER_CRASH")
        life.work_done(BROWSER)
    life.work_fails("canvas_element")
    switch(life)
    life.work_fails("canvas_element")
    life.work_fails("BROWSER_CRASH")
    assert failed_with(life) == "BROWSER_CRASH"


@pytest.mark.mission("APP-ERR", "APP-ENGINE")
@pytest.mark.parametrize(("state", "after"), [("restarting", "navigating"), ("reconnecting", "filling_page")])
@pytest.mark.parametrize("tier", ["pro", "premium"])
def test_an_engine_that_does_not_come_back_is_replaced(state: str, after: str, tier: str) -> None:
    """With ENGINE_CONNECT_FAILED premium goes on with the next engine; below, the task fails."""
    life = Applying(tier).until("filling_page")
    life.work_fails({"restarting": "BROWSER_CRASH", "reconnecting": "CDP_DISCONNECT"}[state])
    life.work_fails("ENGINE_CONNECT_FAILED")
    if tier == "pro":
        assert failed_with(life) == "ENGINE_CONNECT_FAILED"
        return
    switch(life)
    assert (life.states, life.record["engine"]) == ((after,), "cua")
