"""The tables of an application as the document has them: codes, signals, waits, work, progress."""

from __future__ import annotations

from typing import Any

import pytest

from headway.clock import milliseconds, time_text
from headway.lifecycles.applications.chart import Application, ApplicationCleanup
from headway.lifecycles.applications.failures import ALL, CODES, DEFAULT, ENGINES, RETRIES, SIGNALS
from headway.statechart.effects import OpenedAsk, SpawnChild, StartWork, StoreRecord
from headway.statechart.model import Limit
from headway.testing import Journey
from tests.lifecycles.applying import GOOD, SENT, USER, Applying, at

CATEGORIES = {
    "infrastructure": "BROWSER_CRASH CDP_DISCONNECT BROWSER_START_FAILED ENGINE_CONNECT_FAILED "
    "PROFILE_LOCKED",
    "network": "NAVIGATION_TIMEOUT PROXY_BLOCKED",
    "application": "NAVIGATION_ERROR FORM_NOT_FOUND SUBMIT_VALIDATION_ERROR SUBMIT_FAILED "
    "VERIFICATION_FAILED SESSION_EXPIRED",
    "automation": "FIELD_FILL_FAILED UPLOAD_FAILED",
    "human": "CAPTCHA_TIMEOUT REVIEW_TIMEOUT HUMAN_TIMEOUT",
    "system": "BUDGET_EXCEEDED RATE_LIMITED WORKFLOW_TIMEOUT",
    "detection": "ANTI_BOT_DETECTED",
}
FINAL = "FORM_NOT_FOUND CAPTCHA_TIMEOUT REVIEW_TIMEOUT HUMAN_TIMEOUT BUDGET_EXCEEDED WORKFLOW_TIMEOUT"
AGAIN = {
    "BROWSER_START_FAILED": 2,
    "NAVIGATION_TIMEOUT": 2,
    "NAVIGATION_ERROR": 1,
    "UPLOAD_FAILED": 2,
    "SUBMIT_FAILED": 1,
    "VERIFICATION_FAILED": 2,
    "RATE_LIMITED": 3,
    "PROFILE_LOCKED": 2,
    "PROXY_BLOCKED": 2,
    "SESSION_EXPIRED": 2,
}
ELSEWHERE = {
    "BROWSER_CRASH": "restarting",
    "CDP_DISCONNECT": "reconnecting",
    "ENGINE_CONNECT_FAILED": "engine_cascade",
    "FIELD_FILL_FAILED": "engine_cascade",
    "SUBMIT_VALIDATION_ERROR": "filling",
    "ANTI_BOT_DETECTED": "engine_cascade",
}


@pytest.mark.mission("APP-ERR")
def test_the_twenty_two_codes() -> None:
    """Each code has its category, and is final, tried again by the same work, or mended by a state."""
    assert len(CODES) == 22
    assert {category: set(codes.split()) for category, codes in CATEGORIES.items()} == {
        category: {code for code, row in CODES.items() if row.category == category} for category in CATEGORIES
    }
    assert {code for code, row in CODES.items() if not row.retriable} == set(FINAL.split())
    assert {code: row.retries for code, row in CODES.items() if row.retries} == AGAIN
    left = {code: row.recovery for code, row in CODES.items() if row.retriable and not row.retries}
    assert left == ELSEWHERE
    assert {*left.values()} <= {*Application.chart.nodes}


@pytest.mark.mission("APP-ERR")
def test_every_error_of_the_work_is_in_the_tables() -> None:
    """Work declares codes and signals, and what leaves a submission in doubt."""
    declared = {code for state in Application.chart.model.states if state.run for code in state.run.errors}
    assert declared - {*ALL, *SIGNALS} == {"unsure", "lost"}


STATUS_ROWS = {
    "T1": "created → queued",
    "T2": "queued → in_progress",
    "T3": "in_progress → waiting_human",
    "T4": "waiting_human → in_progress",
    "T5": "waiting_human → failed, in_progress → failed",  # the last look after a takeover
    "T6": "in_progress → completed",
    "T7": "in_progress → failed",
    "T8": "* → cancelled, * → failed",
    "T9": "in_progress → failed",
}
PHASE_ROWS = {
    "P1": "queued → in_progress",
    "P2": "provisioning → navigating",
    "P3": "navigating → analyzing",
    "P4": "analyzing → filling",
    "P5": "filling → uploading",
    "P6": "filling → reviewing",
    "P7": "uploading → reviewing",
    "P8": "quality_check → submitting",
    "P9": "reviewing → submitting, gate_review → submitting",
    "P10": "reviewing → filling, gate_review → filling, reviewing → navigating, gate_review → navigating",
    "P11": "submitting → verifying",
    "P12": "submitting → filling, submitting → navigating",
    "P13": "verifying → completed",
    "P14": "verifying → failed",
    "P15": "clicking_next → navigating",
    "P16": "applying → waiting_captcha, clearing_captcha → waiting_captcha, "
    "checking_submission → waiting_captcha",
    "P17": "handing_over → waiting_takeover",
}


@pytest.mark.mission("APP-T1", "APP-T9", "APP-P1", "APP-P17")
@pytest.mark.parametrize(("row", "pairs"), [*STATUS_ROWS.items(), *PHASE_ROWS.items()])
def test_every_row_of_the_document_is_in_the_chart(row: str, pairs: str) -> None:
    """Each of the nine transitions of the status and the seventeen of the phases leads where it should."""
    nodes = Application.chart.nodes
    found = {
        (each.source, target)
        for each in Application.chart.model.transitions
        if row in {word.strip(",:") for word in each.meaning.split()}
        for target in each.targets
    }
    if row in STATUS_ROWS:
        top = {name: node.path[0].id for name, node in nodes.items() if node.path} | {"*": "*"}
        found = {(top[source], top[target]) for source, target in found}
    assert found == {tuple(pair.split(" → ")) for pair in pairs.split(", ")}


@pytest.mark.mission("APP-P1", "APP-T2")
def test_the_first_phase_is_provisioning() -> None:
    """What a worker picks up begins with its browser."""
    assert Application.chart.nodes["in_progress"].model.initial == ("provisioning",)


@pytest.mark.mission("APP-ERR")
def test_the_default_retry() -> None:
    """2 retries from 1 s, doubling, at most 10 s, jitter 0.3."""
    assert RETRIES[-1] is DEFAULT
    policy = (DEFAULT.times, DEFAULT.base, DEFAULT.factor, DEFAULT.cap, DEFAULT.jitter)
    assert policy == (2, "1s", 2, "10s", 0.3)


@pytest.mark.mission("APP-ERR")
def test_every_retry_has_the_default_policy() -> None:
    """However often a code is tried again: the waits double from 1 s, at most 10 s, give or take 30 %."""
    policies = {
        code: (policy.base, policy.factor, policy.cap, policy.jitter)
        for state in Application.chart.model.states
        if state.run
        for policy in state.run.retry
        for code in policy.on
    }
    assert {*CODES, *SIGNALS} <= policies.keys()
    assert policies.pop("PROFILE_LOCKED") == (10_000, 2, 10_000, 0)
    assert {*policies.values()} == {(1_000, 2, 10_000, 0.3)}


@pytest.mark.mission("APP-ERR", "APP-ENGINE")
def test_an_engine_backs_off_like_other_work() -> None:
    """An engine rests about 1 s before its first retry and about 2 s before its second."""
    waits = []
    life = Applying("premium").until("filling_page")
    for _ in range(2):
        before = life.clock.now()
        life.work_fails("selector_not_found")
        life.rest()
        waits.append((life.clock.now() - before).total_seconds())
    assert [round(wait / seconds) for wait, seconds in zip(waits, (1, 2), strict=True)] == [1, 1]
    assert all(0.7 <= wait / seconds <= 1.3 for wait, seconds in zip(waits, (1, 2), strict=True))
    assert waits != [1, 2]


@pytest.mark.mission("APP-DUR", "APP-TIER")
def test_work_is_done_where_the_browser_is() -> None:
    """All work on a task's browser, its release too, prefers the worker that has it; taking it does not."""
    charts = (Application.chart, ApplicationCleanup.chart)
    runs = {state.id: state.run for chart in charts for state in chart.model.states if state.run}
    queued, release = runs.pop("queued"), runs.pop("releasing")
    assert (queued.affinity, queued.concurrency) == (None, Limit(key="user:{userId}", most=1))
    assert release.affinity == "browser:{taskId}"
    assert {run.affinity for run in runs.values()} == {"browser:{instance}"}
    life = Applying().until("filling_page")
    (work,) = life.last(StartWork)
    life.send(Application.cancel(by=USER))
    (child,) = life.last(SpawnChild)
    cleanup = Journey(ApplicationCleanup, context=child.context)
    (last,) = [effect for effect in cleanup.effects if isinstance(effect, StartWork)]
    assert last.affinity == work.affinity == "browser:task1"


@pytest.mark.mission("APP-ERR")
@pytest.mark.parametrize(
    ("state", "code", "waits"),
    [
        ("navigating", "RATE_LIMITED", (1, 2, 4)),
        ("navigating", "NAVIGATION_TIMEOUT", (1, 2)),
        ("provisioning", "PROFILE_LOCKED", (10, 10)),
        ("filling_page", "rate_limited", (1, 2, 4)),
        ("filling_page", "SomethingNew", (1, 2)),
    ],
)
def test_retries_back_off(state: str, code: str, waits: tuple[int, ...]) -> None:
    """The wait before each retry doubles, give or take 30 %, and is never longer than 10 s."""
    life = at(state)
    for seconds in waits:
        life.work_fails(code)
        (work,) = life.snapshot.work.values()
        assert work.due is not None
        wait = (work.due - life.clock.now()).total_seconds()
        exact = 0 if code == "PROFILE_LOCKED" else 0.3
        assert (1 - exact) * seconds <= wait <= min(10, (1 + exact) * seconds)
    life.work_fails(code)
    assert life.status == "failed"


@pytest.mark.mission("APP-ENGINE")
def test_the_thirteen_signals() -> None:
    """Retries on the same engine, and where to go then."""
    assert {name: (row.retries, row.target) for name, row in SIGNALS.items()} == {
        "selector_not_found": (2, "next"),
        "selector_ambiguous": (1, "next"),
        "action_no_effect": (2, "next"),
        "shadow_dom_blocked": (0, "vision"),
        "iframe_unreachable": (0, "vision"),
        "canvas_element": (0, "vision"),
        "dynamic_rendering": (1, "vision"),
        "cdp_disconnect": (0, "restart"),
        "timeout": (1, "next"),
        "anti_bot_detected": (0, "vision"),
        "captcha_detected": (0, "human"),
        "rate_limited": (3, "same"),
        "budget_exceeded": (0, "fail"),
    }
    assert list(ENGINES.items()) == [("dom", 2), ("cua", 1), ("vision", 2)]


@pytest.mark.mission("APP-HUMAN", "APP-GATE")
@pytest.mark.parametrize(
    ("state", "seconds", "shown"),
    [
        ("waiting_captcha", 120, {"captchaType"}),
        ("reviewing", 300, {"fields"}),
        ("gate_review", 120, {"fields", "gates"}),
        ("waiting_takeover", 300, {"fields", "pageState"}),
        ("waiting_answer", 120, {"fieldName", "fieldOptions"}),
        ("waiting_security", 120, set()),
    ],
)
def test_the_waits_for_a_person(state: str, seconds: int, shown: set[str]) -> None:
    """Each wait has its deadline, and shows what the person needs; most of them where to look, too."""
    life = at(state)
    (ask,) = life.last(OpenedAsk)
    assert (ask.deadline - life.clock.now()).total_seconds() == seconds
    seen = set() if state == "waiting_answer" else {"screenshotUrl", "liveViewUrl"}
    assert (set(ask.shows), ask.roles) == (shown | seen, ("@ann",))
    assert life.told("human_needed")[-1]["deadline"] == time_text(ask.deadline)


@pytest.mark.mission("APP-DUR")
def test_the_work_has_the_limits_of_its_step() -> None:
    """The seven steps' time limits are those of the work in their states."""
    limits = {
        "60s": {"provisioning", "restarting"},
        "30s": {"navigating", "analyzing", "finding_way", "clicking_next", "verifying", "releasing"},
        "120s": {"filling_page", "uploading_files", "reading_back", "refilling", "uploading"},
        "180s": {"clearing_captcha"},
        "300s": {"submitting"},
    }
    charts = (Application.chart, ApplicationCleanup.chart)
    runs = {state.id: state.run for chart in charts for state in chart.model.states if state.run}
    for limit, states in limits.items():
        for state in states:
            assert runs[state].timeout == milliseconds(limit), state
    assert {name for name, run in runs.items() if run.timeout is None} == {"queued"}


CHECKPOINTS: dict[str, dict[str, Any]] = {
    "provisioned": {"cdpUrl": "ws://b", "profileId": "p1", "tier": "pro", "engine": "dom"},
    "analyzed": {"platform": "lever", "formFlow": {"pages": 1}, "uploadNeeded": True, "fields": [GOOD]},
    "page_filled": {"pageIndex": 0, "fields": [GOOD], "screenshotUrl": ""},
    "resume_uploaded": {"resumeUploaded": True},
    "submitted": {"submitAttempted": True},
    "verified": {"confirmationId": "C-1", "confirmationPage": False, "screenshotUrl": "s"},
}


@pytest.mark.mission("APP-CHK")
def test_the_six_checkpoints_store_their_data() -> None:
    """What is needed to go on after a crash is stored when it is known."""
    life = Applying().until("verifying")
    life.work_done({"confirmationId": "C-1", "screenshotUrl": "s"})
    stored = {each.key: each.data for each in life.effects if isinstance(each, StoreRecord)}
    keys = {name: f"task1:{name}" for name in CHECKPOINTS} | {"page_filled": "task1:page_filled:0"}
    assert stored == {keys[name]: data for name, data in CHECKPOINTS.items()}
    subtypes = [each["subType"] for each in life.log("checkpoint")]
    assert subtypes == ["workflow_started", *CHECKPOINTS, "workflow_completed"]


@pytest.mark.mission("APP-WS")
def test_the_range_of_progress_of_each_phase() -> None:
    """Work moves the progress within the range of its phase."""
    ranges = {
        "provisioning": (0, 10),
        "navigating": (10, 15),
        "analyzing": (15, 25),
        "filling": (25, 65),
        "uploading": (65, 75),
        "reviewing": (75, 80),
        "submitting": (80, 90),
        "verifying": (90, 100),
        "completed": (100, 100),
    }
    states = Application.chart.model.states
    outer = {state.id: state.progress for state in states if state.progress and state.id != "filling_page"}
    assert outer == ranges


@pytest.mark.mission("APP-TIER")
@pytest.mark.parametrize(
    ("tier", "mode", "gate"),
    [
        ("starter", "copilot", "reviewing"),
        ("starter", "autopilot", "reviewing"),
        ("pro", "copilot", "reviewing"),
        ("pro", "autopilot", "submitting"),
        ("premium", "copilot", "reviewing"),
        ("premium", "autopilot", "submitting"),
    ],
)
def test_who_looks_before_an_application_is_submitted(tier: str, mode: str, gate: str) -> None:
    """On the starter tier a person reviews in any mode; above, in copilot mode."""
    life = Applying(tier, mode).until("uploading")
    life.work_done(SENT)
    assert life.states == (gate,)
