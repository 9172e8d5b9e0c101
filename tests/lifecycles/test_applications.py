"""The status of an application: its transitions, its record, and what it tells."""

from __future__ import annotations

import pytest

from headway import Event, Statechart, person
from headway.clock import time_text
from headway.lifecycles.applications.chart import Application, ApplicationCleanup
from headway.statechart.check.check import check
from headway.statechart.effects import AddToCounter, CancelWork, PublishMessage, StartWork
from headway.statechart.people import may_read
from headway.statechart.snapshot import Actor
from headway.testing import Journey
from tests.lifecycles.applying import ADMIN, USER, WORKER, Applying, at, ended, failed_with, switch

PHASES = ["provisioning", "navigating", "analyzing", "filling_page", "uploading_files", "reading_back"]
PHASES += ["refilling", "finding_way", "clicking_next", "uploading", "submitting", "verifying"]
DETOURS = ["retrying", "capturing", "disconnecting", "checking_browser", "connecting", "restoring"]
DETOURS += ["checking_engine", "handing_over", "restarting", "reconnecting", "clearing_captcha"]
DETOURS += ["checking_submission", "last_look"]
WAITS = ["waiting_captcha", "reviewing", "gate_review", "waiting_takeover", "waiting_answer"]
WAITS += ["waiting_security"]
LIVE = ["created", "queued", *PHASES, *DETOURS, *WAITS]


@pytest.mark.mission("APP-T1")
def test_dispatch_queues_the_task_and_tells_the_workers() -> None:
    """A created task is queued once all limits allow it, without being started yet."""
    life = Applying()
    life.send(Application.dispatch())
    assert life.status == "queued"
    assert life.record["startedAt"] is None
    sent = {
        "taskId": "task1",
        "jobUrl": "https://jobs/1",
        "userId": "ann",
        "resumeId": "r1",
        "mode": "autopilot",
    }
    assert [m.data for m in life.last(PublishMessage) if m.name == "task:created"] == [sent]


@pytest.mark.mission("APP-T1", "APP-TIER")
@pytest.mark.parametrize(
    ("fact", "value", "said"),
    [("recentTasks", 6, "this is number 6"), ("runningTasks", 2, "2 of 2"), ("usage", 11, "number 11")],
)
def test_dispatch_is_refused_beyond_a_limit(fact: str, value: int, said: str) -> None:
    """Rate, concurrency and plan limits each refuse the dispatch with their reason, and one less does not."""
    life = Applying()
    life.facts[fact] = value - 1
    life.send(Application.dispatch())
    life = Applying()
    life.facts[fact] = value
    refusal = life.refused(Application.dispatch())
    assert (refusal.code, life.status) == ("guard", "created")
    assert said in refusal.message


@pytest.mark.mission("APP-TIER")
def test_the_free_tier_has_no_task() -> None:
    """A task of the free tier is never dispatched: it runs in the extension."""
    assert "extension" in Applying("free").refused(Application.dispatch()).message


@pytest.mark.mission("APP-TIER")
def test_creation_counts_one_usage_unit() -> None:
    """The user's usage goes up when the task is created."""
    (added,) = Applying().last(AddToCounter)
    assert (added.key, added.by) == ("usage:ann", 1)


@pytest.mark.mission("APP-T2", "APP-P1", "APP-REC")
def test_a_worker_picks_the_task_up() -> None:
    """A worker's pick-up starts the clock of the task and its first phase."""
    life = Applying().until("provisioning")
    assert life.status == "in_progress"
    assert life.record["startedAt"] == time_text(life.clock.now())
    assert life.record["currentStep"] == "provisioning"
    assert [work.handler for work in life.last(StartWork)] == ["start_browser"]
    change = {
        "taskId": "task1",
        "from": "queued",
        "to": "in_progress",
        "timestamp": time_text(life.clock.now()),
    }
    assert life.told("state_change")[-1] == change
    assert life.log("checkpoint") == [{"subType": "workflow_started"}]


@pytest.mark.mission("APP-T1", "APP-T3", "APP-T4", "APP-T8", "APP-T9")
def test_each_event_has_its_actors() -> None:
    """Workers report, the user answers, the system dispatches; only cancel and the budget have two actors."""
    rows = [row for row in Application.chart.model.transitions if row.by]
    named = {actors: {row.name for row in rows if row.by == actors} for actors in {row.by for row in rows}}
    assert named == {
        ("system",): {"dispatch"},
        ("{owner}", "admin"): {"cancel"},
        ("worker", "system"): {"budget_exceeded"},
        ("worker",): {
            "captcha_detected",
            "security_challenged",
            "field_ambiguous",
            "field_filled",
            "engine_operation",
            "screenshot",
        },
        ("{owner}",): {
            "captcha_solved",
            "security_resolved",
            "field_answered",
            "human_resolved",
            "review_approved",
            "review_edited",
        },
    }


@pytest.mark.mission("APP-T2", "APP-T7")
def test_a_task_that_workers_keep_losing_fails() -> None:
    """A task whose worker is lost before it starts is offered again twice."""
    life = Applying().until("queued")
    for _ in range(3):
        assert life.status == "queued"
        life.work_fails("lost")
    assert failed_with(life) == "lost"
    assert [(added.key, added.by) for added in life.last(AddToCounter)] == [
        ("usage:ann", -1),
        ("running:ann", -1),
    ]


@pytest.mark.mission("APP-T2")
def test_a_task_nobody_takes_fails_after_five_minutes() -> None:
    """The queue has a limit of 5 minutes."""
    life = Applying().until("queued")
    life.advance("4m 59s")
    assert life.status == "queued"
    life.advance("1s")
    assert failed_with(life) == "QUEUE_TIMEOUT"


@pytest.mark.mission("APP-T6", "APP-WS")
def test_completion_tells_the_confirmation_and_releases_the_browser() -> None:
    """A confirmed submission is told with its proof, and cleanup is started."""
    life = Applying().until("verifying")
    life.work_done({"confirmationId": "C-1", "screenshotUrl": "https://shot/1"})
    assert life.told("completed") == [
        {"taskId": "task1", "confirmationId": "C-1", "screenshotUrl": "https://shot/1"}
    ]
    ended(life, "completed")


@pytest.mark.mission("APP-T7")
def test_cleanup_is_tried_again_and_ends() -> None:
    """The browser's release is work of its own, with retries."""
    life = Journey(ApplicationCleanup)
    life.work_fails("lost")
    life.work_done()
    assert life.states == ("released",)


@pytest.mark.mission("APP-T7", "APP-DUR")
def test_a_browser_that_is_not_released_is_left_to_its_pool() -> None:
    """After three attempts the cleanup ends, and says that something is leaked."""
    life = Journey(ApplicationCleanup)
    for _ in range(3):
        assert life.states == ("releasing",)
        life.work_fails("lost")
    assert (life.states, life.snapshot.ended) == (("leaked",), True)


@pytest.mark.mission("APP-T8")
@pytest.mark.parametrize("state", LIVE)
@pytest.mark.parametrize("who", [USER, ADMIN], ids=["user", "admin"])
def test_cancel_from_every_live_state(state: str, who: Actor) -> None:
    """Cancelling aborts the work, releases the browser and gives the usage unit back."""
    life = at(state)
    working = bool(life.snapshot.work)
    life.send(Application.cancel(by=who))
    ended(life, "cancelled")
    running = [] if state == "created" else [("running:ann", -1)]
    assert [(added.key, added.by) for added in life.last(AddToCounter)] == [("usage:ann", -1), *running]
    assert bool(life.last(CancelWork)) == working
    assert [told.data for told in life.last(PublishMessage) if told.name == "task:cancelled"] == [
        {"taskId": "task1"}
    ]
    assert not life.snapshot.timers
    assert life.refused(Application.dispatch()).code == "terminal"


@pytest.mark.mission("APP-T8")
def test_cancel_is_for_the_user_and_admins() -> None:
    """A worker cannot cancel."""
    assert Applying().refused(Application.cancel(by=WORKER)).code == "actor"


@pytest.mark.mission("APP-T8", "APP-ERR")
def test_the_wall_clock_runs_through_waits() -> None:
    """30 minutes after its creation the task fails with WORKFLOW_TIMEOUT, wherever it stands."""
    life = Applying("starter").until("reviewing")
    for _ in range(6):
        life.advance("299s")
        life.send(Application.review_edited({"corrections": {}}, by=USER))
        life.until("reviewing")
    life.advance("6s")
    assert failed_with(life) == "WORKFLOW_TIMEOUT"
    assert time_text(life.clock.now()) == life.record["completedAt"]


@pytest.mark.mission("APP-T8")
def test_the_wall_clock_ends_work_and_undispatched_tasks() -> None:
    """Work and tasks that were never dispatched end after 30 minutes, too."""
    for state in ("created", "filling"):
        life = Applying().until(state)
        life.advance("29m 59s")
        assert not life.snapshot.ended
        life.advance("1s")
        assert failed_with(life) == "WORKFLOW_TIMEOUT"


@pytest.mark.mission("APP-T9", "APP-ERR")
def test_an_exceeded_budget_aborts_at_once() -> None:
    """Reported from outside or by the work itself, an exceeded budget fails the task."""
    life = Applying().until("filling")
    refusal = life.refused(Application.budget_exceeded({"spent": 0.5, "limit": 0.5}))
    assert (refusal.code, life.status) == ("guard", "in_progress")
    life.send(Application.budget_exceeded({"spent": 0.51, "limit": 0.5}))
    assert life.last(CancelWork)
    assert failed_with(life) == "BUDGET_EXCEEDED"
    life = Applying().until("filling")
    life.work_fails("budget_exceeded")
    assert failed_with(life) == "BUDGET_EXCEEDED"


@pytest.mark.mission("APP-REC")
def test_the_record_follows_status_and_phase() -> None:
    """`status` and `currentStep` are what the active states say, through a wait and back."""
    phases = ["provisioning", "navigating", "analyzing", "filling"]
    phases += ["uploading", "reviewing", "submitting", "verifying"]
    life = Applying("starter")
    seen = []
    for state in ("created", "queued", *phases):
        life.until(state)
        seen.append((life.record["status"], life.record["currentStep"]))
    waiting = {"reviewing": "waiting_human"}
    assert seen == [
        ("created", ""),
        ("queued", ""),
        *((waiting.get(phase, "in_progress"), phase) for phase in phases),
    ]
    told = [(change["from"], change["to"]) for change in life.told("state_change")]
    assert told == [
        ("created", "queued"),
        ("queued", "in_progress"),
        ("in_progress", "waiting_human"),
        ("waiting_human", "in_progress"),
    ]


@pytest.mark.mission("APP-WS")
def test_progress_per_phase_and_field() -> None:
    """Each phase begins at its percentage with its text; filling moves on field by field."""
    life = Applying("starter").until("provisioning")
    life.work_progress(0.5)
    assert life.snapshot.progress == 5
    life.until("filling_page")
    life.work_progress(0.5, fieldName="Phone")
    assert life.snapshot.progress == 45
    assert life.told("progress")[-1]["message"] == "Filling field: Phone"
    life.until("verifying")
    begun = {
        each["step"]: (each["pct"], each["message"]) for each in life.told("progress") if "taskId" in each
    }
    assert begun == {
        "provisioning": (0, "Starting browser..."),
        "navigating": (10, "Loading application page..."),
        "analyzing": (15, "Analyzing form fields..."),
        "filling": (25, "Filling field: ..."),
        "uploading": (65, "Uploading resume..."),
        "reviewing": (75, "Waiting for your review..."),
        "submitting": (80, "Submitting application..."),
        "verifying": (90, "Verifying submission..."),
    }


@pytest.mark.mission("APP-EV")
def test_the_event_log_has_its_types() -> None:
    """What happens is logged by type with its data; changes of state and phase are in the history."""
    reported = {
        "field_filled": {"name": "email", "value": "a@b.c", "confidence": 0.9, "source": "qa_bank"},
        "engine_operation": {"engine": "dom", "operation": "fill", "success": True, "durationMs": 40},
        "screenshot": {"url": "s", "label": "page 1"},
    }
    life = Applying("premium").until("filling_page")
    for name, data in reported.items():
        life.send(Event(name, data, WORKER))
        assert life.states == ("filling_page",)
    assert life.record["screenshotUrl"] == "s"
    life.worker("captcha_detected", {"captchaType": "hcaptcha"})
    life.send(Application.captcha_solved({}, by=USER))
    life.work_done({"cleared": True})
    life.work_fails("canvas_element")
    switch(life)
    life.send(Application.budget_exceeded({"spent": 2, "limit": 1}))
    told = {
        "captcha_detected": {"type": "hcaptcha"},
        "human_takeover": {"reason": "captcha", "interventionUrl": "https://view/1"},
        "engine_switch": {"from": "dom", "to": "vision", "reason": "canvas_element", "durationMs": 5000},
        "error": {
            "code": "BUDGET_EXCEEDED",
            "message": "The application would cost too much.",
            "retriable": False,
        },
    }
    assert set(life.logged()) == {"checkpoint", *reported, *told}
    assert {kind: life.log(kind) for kind in (*reported, *told)} == {
        kind: [data] for kind, data in {**reported, **told}.items()
    }
    rows = [(row.before, row.after, row.transition) for row in life.history]
    assert (("queued",), ("provisioning",), "pick_up") in rows
    assert (("provisioning",), ("navigating",), "browser_started") in rows


@pytest.mark.mission("APP-T6")
@pytest.mark.parametrize("tier", ["starter", "pro"])
def test_six_checkpoints_are_stored(tier: str) -> None:
    """Provisioning, analysis, each page, upload, submission and verification are stored as they pass."""
    life = Applying(tier).until("verifying")
    known = {key: life.record[key] for key in ("cdpUrl", "profileId", "engine", "liveViewUrl")}
    assert known == {"cdpUrl": "ws://b", "profileId": "p1", "engine": "dom", "liveViewUrl": "https://view/1"}
    assert (life.record["platform"], life.record["formFlow"]) == ("lever", {"pages": 1})
    assert (life.record["resumeUploaded"], life.record["submitAttempted"]) == (True, True)
    life.work_done({"confirmationId": "C-1"})
    assert life.checkpoints() == [
        "provisioned",
        "analyzed",
        "page_filled",
        "resume_uploaded",
        "submitted",
        "verified",
    ]


@pytest.mark.mission("ENG-20", "ENG-14")
@pytest.mark.parametrize("chart", [Application, ApplicationCleanup])
def test_strangers_read_nothing_of_a_users_browser(chart: type[Statechart]) -> None:
    """Neither an application nor its cleanup, which has the browser's address, for a role of other work."""
    life = Journey(chart, context={"userId": "ann"} if chart is Application else None)
    whole, people = chart.chart.model, chart.chart.people
    assert not may_read(whole, people, life.snapshot, person("eve", "support"))
    assert may_read(whole, people, life.snapshot, person("root", "admin"))


@pytest.mark.mission("APP-T8", "APP-ERR")
def test_the_chart_passes_its_check() -> None:
    """Every wait has a deadline, every error code a way on, every live state can be cancelled."""
    for chart in (Application, ApplicationCleanup):
        assert check(chart).findings == ()
