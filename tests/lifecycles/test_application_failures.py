"""An application whose work fails: retries by code, the cascade of engines, lost browsers."""

from __future__ import annotations

import pytest

from headway.lifecycles.applications.chart import Application
from headway.lifecycles.applications.error_codes import CODES, DEFAULT, RETRIES
from headway.lifecycles.applications.signals import ENGINES, SIGNALS, next_engine
from headway.statechart.effects import WriteLog
from tests.lifecycles.applying import BROWSER, Applying, failed_with, switch


@pytest.mark.mission("APP-ERR")
@pytest.mark.parametrize("code", ["unsure", "lost", "timeout"])
def test_a_submission_in_doubt_is_never_repeated(code: str) -> None:
    """Work lost while submitting leads to a look for the confirmation, not to a second submission."""
    life = Applying().until("submitting")
    life.work_fails(code)
    assert (life.states, life.record["submitAttempted"]) == (("verifying",), True)
    assert life.checkpoints()[-1] == "submitted"


@pytest.mark.mission("APP-ERR")
@pytest.mark.parametrize(("phase", "after"), [("filling_page", "filling_page"), ("submitting", "verifying")])
def test_a_crashed_browser_is_started_anew(phase: str, after: str) -> None:
    """A crash restarts the browser and goes on from the phase; a submission in doubt is only verified."""
    life = Applying().until(phase)
    life.work_fails("BROWSER_CRASH")
    assert life.states == ("restarting",)
    assert ("submitted" in life.checkpoints()) == (phase == "submitting")
    life.work_done({**BROWSER, "profileId": "p2"})
    assert (life.states, life.record["profileId"]) == ((after,), "p2")
    assert life.checkpoints()[-1] == "provisioned"


@pytest.mark.mission("APP-ERR")
@pytest.mark.parametrize("phase", ["filling_page", "submitting"])
def test_a_browser_that_keeps_crashing_fails_the_task(phase: str) -> None:
    """Two restarts, then BROWSER_CRASH."""
    life = Applying().until(phase)
    for _ in range(2):
        life.work_fails("BROWSER_CRASH")
        life.work_done(BROWSER)
    life.work_fails("BROWSER_CRASH")
    assert failed_with(life) == "BROWSER_CRASH"


@pytest.mark.mission("APP-ERR")
def test_a_crash_while_submitting_is_one_of_the_restarts() -> None:
    """With both restarts used up, a crash while submitting fails the task."""
    life = Applying().until("filling_page")
    for _ in range(2):
        life.work_fails("BROWSER_CRASH")
        life.work_done(BROWSER)
    life.until("submitting").work_fails("BROWSER_CRASH")
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
    life.work_fails(code, "the site said no")
    assert failed_with(life) == code
    assert life.record["errorMessage"] == "the site said no"
    assert life.logged()[-1] == "error"


@pytest.mark.mission("APP-ERR")
def test_the_table_has_twenty_two_codes_and_the_default_retry() -> None:
    """22 codes; by default 2 retries from 1 s, doubling, at most 10 s, jitter 0.3."""
    assert len(CODES) == 22
    assert RETRIES[-1] is DEFAULT
    assert (DEFAULT.times, DEFAULT.base, DEFAULT.factor, DEFAULT.cap, DEFAULT.jitter) == (
        2,
        "1s",
        2,
        "10s",
        0.3,
    )
    assert {code for code in CODES if not CODES[code].retriable} == {
        "FORM_NOT_FOUND",
        "CAPTCHA_TIMEOUT",
        "REVIEW_TIMEOUT",
        "HUMAN_TIMEOUT",
        "BUDGET_EXCEEDED",
        "WORKFLOW_TIMEOUT",
    }
    assert {each.recovery for each in CODES.values() if each.retriable and not each.retries} <= set(
        Application.chart.nodes
    )


@pytest.mark.mission("APP-ENGINE")
def test_the_cascade_goes_from_dom_over_cua_to_vision_and_a_person() -> None:
    """DOM has 2 retries, CUA 1, vision 2; each switch carries the page over; a person comes last."""
    life = Applying("premium").until("filling_page")
    for engine, retries in ENGINES.items():
        assert life.record["engine"] == engine
        for _ in range(retries):
            life.work_fails("selector_not_found")
            assert life.states == ("retrying",)
            life.advance("1s")
            assert life.states == ("filling_page",)
        life.work_fails("selector_not_found")
        if engine != "vision":
            switch(life)
            assert life.states == ("filling_page",)
    assert (life.states, life.record["currentStep"]) == (("waiting_takeover",), "engine_exhausted")
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
        life.advance("1s")
    life.work_fails(signal)
    switch(life)
    assert (life.states, life.record["engine"]) == (("filling_page",), target)


@pytest.mark.mission("APP-ENGINE")
def test_a_switch_carries_the_page_over() -> None:
    """The page's state is captured before the switch and known to the step that restores it."""
    life = Applying("premium").until("filling_page")
    life.work_fails("canvas_element", "a drawing")
    switch(life)
    assert life.record["pageState"] == {"url": "u"}
    (logged,) = [
        log.data for log in life.effects if isinstance(log, WriteLog) and log.label == "engine_switch"
    ]
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
def test_tiers_below_premium_have_one_engine(tier: str) -> None:
    """Without other engines the task fails after the retries of its own."""
    life = Applying(tier).until("filling_page")
    for _ in range(2):
        life.work_fails("FIELD_FILL_FAILED")
        life.advance("1s")
    life.work_fails("FIELD_FILL_FAILED")
    assert failed_with(life) == "FIELD_FILL_FAILED"


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


@pytest.mark.mission("APP-ENGINE", "APP-ERR")
def test_a_first_engine_that_does_not_connect_is_replaced() -> None:
    """Premium starts over with the next engine when the first one does not connect."""
    life = Applying("premium").until("provisioning")
    life.work_fails("ENGINE_CONNECT_FAILED")
    switch(life)
    assert (life.states, life.record["engine"]) == (("provisioning",), "cua")
