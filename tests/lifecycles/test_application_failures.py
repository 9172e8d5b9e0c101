"""An application whose work fails: retries by code, and the cascade of engines."""

from __future__ import annotations

from typing import Any

import pytest

from headway import Event
from headway.lifecycles.applications.failures import CODES, ENGINES, SIGNALS, next_engine
from headway.statechart.effects import OpenedAsk
from headway.statechart.snapshot import work_timed_out
from tests.lifecycles.applying import BROWSER, GOOD, WORKER, Applying, at, failed_with, switch

RETRIED = [
    ("provisioning", "BROWSER_START_FAILED", 2),
    ("provisioning", "PROFILE_LOCKED", 2),
    ("provisioning", "PROXY_BLOCKED", 2),
    ("navigating", "NAVIGATION_TIMEOUT", 2),
    ("navigating", "NAVIGATION_ERROR", 1),
    ("navigating", "RATE_LIMITED", 3),
    ("navigating", "SESSION_EXPIRED", 2),
    ("analyzing", "FORM_NOT_FOUND", 0),
    ("uploading", "UPLOAD_FAILED", 2),
    ("uploading", "BUDGET_EXCEEDED", 0),
    ("submitting", "SUBMIT_FAILED", 1),
]


@pytest.mark.mission("APP-ERR", "APP-T7")
@pytest.mark.parametrize(("phase", "code", "retries"), RETRIED)
def test_work_is_tried_again_by_code(phase: str, code: str, retries: int) -> None:
    """Each code has its number of retries; after them the task fails with it."""
    life = Applying().until(phase)
    for _ in range(retries):
        life.work_fails(code)
        assert life.is_in(phase)
    (work,) = life.snapshot.work.values()
    data = {"code": code, "message": "the site said no", "screenshotUrl": "https://shot/error"}
    life.clock.move_to(work.due or life.clock.now())
    life.send(Event("work.failed", data, WORKER, ref=work.id, attempt=work.attempt))
    assert failed_with(life) == code
    assert life.record["errorMessage"] == "the site said no"
    assert life.record["screenshotUrl"] == "https://shot/error"
    assert life.log("error") == [
        {"code": code, "message": "the site said no", "retriable": CODES[code].retriable}
    ]


@pytest.mark.mission("APP-ENGINE")
def test_the_cascade_goes_from_dom_over_cua_to_vision_and_a_person() -> None:
    """DOM has 2 retries, CUA 1, vision 2; each switch carries the page over; a person comes last."""
    life = Applying("premium").until("filling_page")
    for engine, retries in ENGINES.items():
        assert life.record["engine"] == engine
        for _ in range(retries):
            life.work_fails("selector_not_found")
            assert life.states == ("retrying",)
            life.rest()
            assert life.states == ("filling_page",)
        life.work_fails("selector_not_found")
        if engine != "vision":
            switch(life)
            assert life.states == ("filling_page",)
    assert life.states == ("handing_over",)
    life.work_done({"pageState": {"url": "u9"}, "screenshotUrl": "s9"})
    assert (life.states, life.record["currentStep"]) == (("waiting_takeover",), "engine_exhausted")
    (ask,) = life.last(OpenedAsk)
    view = {"screenshotUrl": "s9", "liveViewUrl": "https://view/1"}
    assert ask.shows == {**view, "fields": [GOOD], "pageState": {"url": "u9"}}
    assert life.logged().count("engine_switch") == 2


@pytest.mark.mission("APP-ENGINE")
@pytest.mark.parametrize(
    ("signal", "retries", "target"),
    [
        ("selector_not_found", 2, "cua"),
        ("selector_ambiguous", 1, "cua"),
        ("action_no_effect", 2, "cua"),
        ("shadow_dom_blocked", 0, "vision"),
        ("iframe_unreachable", 0, "vision"),
        ("canvas_element", 0, "vision"),
        ("dynamic_rendering", 1, "vision"),
        ("timeout", 1, "cua"),
        ("anti_bot_detected", 0, "vision"),
    ],
)
def test_each_signal_retries_and_switches_as_its_row_says(signal: str, retries: int, target: str) -> None:
    """The nine signals that engines can get past: retries on the same engine, then the target."""
    life = Applying("premium").until("filling_page")
    for _ in range(retries):
        life.work_fails(signal)
        assert life.states == ("retrying",)
        life.rest()
    life.work_fails(signal)
    switch(life)
    assert (life.states, life.record["engine"]) == (("filling_page",), target)


@pytest.mark.mission("APP-ENGINE", "APP-P17")
@pytest.mark.parametrize("phase", ["navigating", "analyzing", "reading_back", "uploading", "submitting"])
def test_engines_are_exhausted_in_any_phase(phase: str) -> None:
    """Whatever the engines were at: in the end a person is asked, and without a picture if there is none."""
    life = Applying("premium").until(phase)
    life.work_fails("canvas_element")
    switch(life)
    assert life.is_in(phase)
    life.work_fails("canvas_element")
    life.work_fails("CDP_DISCONNECT")
    assert life.states == ("waiting_takeover",)


@pytest.mark.mission("APP-ENGINE")
@pytest.mark.parametrize("step", ["capturing", "disconnecting"])
def test_an_engine_that_cannot_be_left_in_order_is_left(step: str) -> None:
    """Only the browser must live for a switch: an engine that does not answer is what it is for."""
    life = at(step)
    life.work_fails("CDP_DISCONNECT")
    assert life.states == ("checking_browser",)
    life.work_fails("timeout")
    assert failed_with(life) == "BROWSER_CRASH"


@pytest.mark.mission("APP-ENGINE")
def test_a_switch_carries_the_page_over() -> None:
    """The page's state is captured before the switch and known to the step that restores it."""
    life = Applying("premium").until("filling_page")
    life.work_fails("canvas_element", "a drawing")
    switch(life)
    assert life.record["pageState"] == {"url": "u"}
    (logged,) = life.log("engine_switch")
    assert logged == {"from": "dom", "to": "vision", "reason": "canvas_element", "durationMs": 5000}


@pytest.mark.mission("APP-ENGINE")
def test_the_other_signals_go_their_own_way() -> None:
    """Of thirteen signals four never switch: restart, a person, backing off, failing."""
    assert len(SIGNALS) == 13
    assert next_engine("vision", "timeout") is None
    ways = {
        "cdp_disconnect": "restarting",
        "captcha_detected": "waiting_captcha",
        "budget_exceeded": "failed",
    }
    for signal, state in ways.items():
        life = Applying("premium").until("filling_page")
        life.work_fails(signal)
        assert life.states == (state,)
    life = Applying("premium").until("filling_page")
    for _ in range(3):
        life.work_fails("rate_limited")
        assert life.states == ("filling_page",)
    life.work_fails("rate_limited")
    assert failed_with(life) == "RATE_LIMITED"


@pytest.mark.mission("APP-ENGINE", "APP-TIER")
@pytest.mark.parametrize("tier", ["starter", "pro"])
@pytest.mark.parametrize(
    ("failure", "retries", "code"),
    [
        ("selector_not_found", 2, "FIELD_FILL_FAILED"),
        ("selector_ambiguous", 1, "FIELD_FILL_FAILED"),
        ("action_no_effect", 2, "FIELD_FILL_FAILED"),
        ("shadow_dom_blocked", 0, "FIELD_FILL_FAILED"),
        ("iframe_unreachable", 0, "FIELD_FILL_FAILED"),
        ("canvas_element", 0, "FIELD_FILL_FAILED"),
        ("dynamic_rendering", 1, "FIELD_FILL_FAILED"),
        ("timeout", 1, "FIELD_FILL_FAILED"),
        ("anti_bot_detected", 0, "ANTI_BOT_DETECTED"),
        ("FIELD_FILL_FAILED", 2, "FIELD_FILL_FAILED"),
        ("ANTI_BOT_DETECTED", 0, "ANTI_BOT_DETECTED"),
        ("ENGINE_CONNECT_FAILED", 0, "ENGINE_CONNECT_FAILED"),
    ],
)
def test_tiers_below_premium_have_one_engine(tier: str, failure: str, retries: int, code: str) -> None:
    """Without other engines the task fails after the retries of its own, with the code of the failure."""
    life = Applying(tier).until("filling_page")
    for _ in range(retries):
        life.work_fails(failure)
        assert life.states == ("retrying",)
        life.rest()
    life.work_fails(failure)
    assert failed_with(life) == code


@pytest.mark.mission("APP-ENGINE", "APP-ERR")
def test_a_site_that_refuses_automation_gets_the_vision_engine() -> None:
    """The code ANTI_BOT_DETECTED switches as its signal does."""
    life = Applying("premium").until("navigating")
    life.work_fails("ANTI_BOT_DETECTED")
    switch(life)
    assert (life.states, life.record["engine"]) == (("navigating",), "vision")


@pytest.mark.mission("APP-ENGINE")
def test_an_engine_that_does_not_connect_is_passed_over() -> None:
    """A switch whose engine does not connect goes on to the next one; a dead browser ends the task."""
    life = Applying("premium").until("filling_page")
    life.work_fails("ENGINE_CONNECT_FAILED")
    life.work_done({})
    life.work_done()
    life.work_done({"alive": True})
    life.work_fails("ENGINE_CONNECT_FAILED")
    assert life.states == ("capturing",)
    life.work_done({})
    life.work_done()
    assert life.states == ("checking_browser",)
    life.work_done({"alive": False})
    assert failed_with(life) == "BROWSER_CRASH"


FIRST_ENGINES = [
    ("fails", "ENGINE_CONNECT_FAILED"),
    ("done", {**BROWSER, "engine": ""}),
    ("done", {**BROWSER, "engine": "stagehand"}),
]


@pytest.mark.mission("APP-ENGINE", "APP-ERR", "APP-P2")
@pytest.mark.parametrize("start", ["provisioning", "restarting"])
@pytest.mark.parametrize("tier", ["pro", "premium"])
@pytest.mark.parametrize(("how", "what"), FIRST_ENGINES)
def test_a_first_engine_that_does_not_connect_is_replaced(
    *, how: str, what: Any, tier: str, start: str
) -> None:
    """Premium goes on to the page with the next engine, in the browser that runs; below, the task fails."""
    life = Applying(tier).until("filling_page" if start == "restarting" else start)
    if start == "restarting":
        life.work_fails("BROWSER_CRASH")
    life.work_fails(what) if how == "fails" else life.work_done(what)
    if tier == "pro":
        assert failed_with(life) == "ENGINE_CONNECT_FAILED"
        return
    switch(life)
    assert (life.states, life.record["engine"]) == (("navigating",), "cua")
    assert life.checkpoints()[-1] == "provisioned"
    assert life.log("engine_switch")[-1].items() >= {"from": "dom", "to": "cua"}.items()


@pytest.mark.mission("APP-ENGINE", "APP-EV")
def test_the_log_of_a_switch_tells_of_the_engine_that_failed() -> None:
    """An engine that is passed over, because it does not connect, is neither where it came from nor why."""
    life = Applying("premium").until("filling_page")
    life.work_fails("selector_ambiguous")
    life.rest()
    life.work_fails("selector_ambiguous")
    for result in ({}, None, {"alive": True}):
        life.clock.advance("1s")
        life.work_done(result)
    assert (life.states, life.record["engine"]) == (("connecting",), "cua")
    life.work_fails("ENGINE_CONNECT_FAILED")
    switch(life)
    told = {"from": "dom", "to": "vision", "reason": "selector_ambiguous", "durationMs": 8000}
    assert life.log("engine_switch") == [told]


@pytest.mark.mission("APP-ERR", "APP-T7")
@pytest.mark.parametrize(
    ("phase", "code"),
    [
        ("provisioning", "BROWSER_START_FAILED"),
        ("navigating", "NAVIGATION_TIMEOUT"),
        ("uploading_files", "UPLOAD_FAILED"),
        ("clicking_next", "NAVIGATION_ERROR"),
        ("uploading", "UPLOAD_FAILED"),
        ("reconnecting", "ENGINE_CONNECT_FAILED"),
        ("verifying", "VERIFICATION_FAILED"),
        ("clearing_captcha", "CAPTCHA_TIMEOUT"),
        ("filling_page", "FIELD_FILL_FAILED"),
    ],
)
def test_work_that_takes_too_long_fails_with_its_code(phase: str, code: str) -> None:
    """The timeout of each piece of work has the code of what did not come about."""
    life = at(phase, "pro")
    for _ in range(5):
        if life.snapshot.ended:
            break
        if life.is_in("retrying"):
            life.rest()
        (work,) = life.snapshot.work.values()
        life.clock.move_to(max(work.due or life.clock.now(), life.clock.now()))
        life.send(work_timed_out(work.id, work.attempt))
    assert failed_with(life) == code
