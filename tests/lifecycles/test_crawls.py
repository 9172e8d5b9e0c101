"""Crawl and ingestion jobs: states, events, retries by error class, codes, heartbeat, time, counters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headway.lifecycles.crawls.chart import CrawlJob
from headway.lifecycles.crawls.faults import ANTI_BOT, CODES, PERMANENT, POLICIES, TRANSIENT
from headway.statechart.check import check
from headway.statechart.effects import CancelWork, Message, StartWork
from headway.statechart.snapshot import Event, person
from tests.lifecycles.world import World

BOT = person("w_1", "worker")
ANN = person("ann", "user")
START = CrawlJob.start({"worker_id": "w_1"}, by=BOT)
LONG = 86_400.0

PATHS: dict[str, list[Event]] = {
    "queued": [],
    "running": [START],
    "retry_pending": [START, CrawlJob.error({"code": "network_error"}, by=BOT)],
    "succeeded": [START, CrawlJob.complete({"documents_emitted": 2}, by=BOT)],
    "failed": [START, CrawlJob.error({"code": "invalid_url"}, by=BOT)],
    "canceled": [CrawlJob.cancel(by=ANN)],
}


def job_in(state: str, **context: Any) -> World:
    """A job that has come to a state by its events."""
    world = World(CrawlJob)
    world.create(CrawlJob, **{"url": "https://example.org/a", "domain": "example.org", **context})
    for event in PATHS[state]:
        world.send(event)
    assert world.status() == state
    return world


def wait_for_retry(world: World) -> float:
    """Let time pass until the next attempt; the seconds that took."""
    (due,) = [timer.due for timer in world.of["it"].timers.values() if timer.event.endswith(".retry")]
    seconds: float = (due - world.now).total_seconds()
    world.pass_time(seconds)
    assert world.status() == "running"
    return seconds


@pytest.mark.mission("CRW-S")
@pytest.mark.parametrize("state", PATHS)
def test_a_job_reaches_each_state(state: str) -> None:
    """Each of the six states is reached by the document's events; three of them are final."""
    assert job_in(state).of["it"].ended == (state in {"succeeded", "failed", "canceled"})
    assert set(CrawlJob.chart.nodes) == set(PATHS)


@pytest.mark.mission("CRW-S")
@pytest.mark.parametrize(
    ("state", "event", "code"),
    [
        ("queued", CrawlJob.heartbeat(by=BOT), "illegal"),
        ("queued", CrawlJob.progress({}, by=BOT), "illegal"),
        ("queued", CrawlJob.complete({}, by=BOT), "illegal"),
        ("queued", CrawlJob.error({"code": "captcha"}, by=BOT), "illegal"),
        ("running", START, "already"),
        ("running", CrawlJob.cancel(by=BOT), "actor"),
        ("running", CrawlJob.complete({}, by=ANN), "actor"),
        ("running", CrawlJob.error({"code": "captcha"}, by=ANN), "actor"),
        ("retry_pending", CrawlJob.complete({}, by=BOT), "illegal"),
        ("succeeded", CrawlJob.cancel(by=ANN), "terminal"),
        ("failed", START, "terminal"),
        ("canceled", CrawlJob.cancel(by=ANN), "already"),
    ],
)
def test_what_a_job_refuses(state: str, event: Event, code: str) -> None:
    """An event out of place, by the wrong actor or after the end changes nothing and says which it is."""
    assert job_in(state).refused(event).code == code


@pytest.mark.mission("CRW-S")
@pytest.mark.parametrize("state", ["queued", "running", "retry_pending"])
def test_cancel_works_in_every_live_state(state: str) -> None:
    """Queued, running or waiting for a retry: the job is canceled, its work and its timers with it."""
    world = job_in(state)
    world.send(CrawlJob.cancel(by=ANN))
    job = world.of["it"]
    assert (world.status(), job.timers, job.work) == ("canceled", {}, {})
    assert job.context["canceled_at"] == world.now.isoformat()
    assert len(world.found(CancelWork)) == len(world.found(StartWork))


@pytest.mark.mission("CRW-RETRY")
@pytest.mark.parametrize("error", [*TRANSIENT, *ANTI_BOT])
@pytest.mark.parametrize("how", ["event", "work"])
def test_what_may_pass_is_tried_seven_times(error: str, how: str) -> None:
    """Six retries, reported by an event or by the work itself; the seventh failure is the last."""
    world = job_in("running", wall_clock_seconds=LONG)
    for attempt in range(1, 8):
        assert world.of["it"].counters["attempts"] == attempt
        if how == "event":
            world.send(CrawlJob.error({"code": error}, by=BOT))
        else:
            world.failed(error)
        if attempt < 7:
            assert world.status() == "retry_pending"
            wait_for_retry(world)
    assert world.status() == "failed"


@pytest.mark.mission("CRW-RETRY")
@pytest.mark.parametrize(
    ("kind", "error", "base", "cap"), [("transient", "rate_limited", 2, 60), ("anti_bot", "captcha", 10, 600)]
)
def test_the_wait_doubles_up_to_a_cap_with_jitter(kind: Any, error: str, base: int, cap: int) -> None:
    """Transient errors wait 2 s doubling; bot defence starts slower and has the higher cap."""
    jitter = POLICIES[kind].jitter
    waits = []
    for name in ("it", "other"):
        world = World(CrawlJob)
        world.create(CrawlJob, name, wall_clock_seconds=LONG)
        world.send(START, name)
        if name == "it":
            for failure in range(6):
                world.failed(error)
                waits.append(wait_for_retry(world))
                exact = min(base * 2**failure, cap)
                assert exact * (1 - jitter) <= waits[-1] <= min(exact * (1 + jitter), cap)
        else:
            world.failed(error, name)
            (again,) = [
                timer.due for timer in world.of[name].timers.values() if timer.event.endswith(".retry")
            ]
            assert again - world.now != timedelta(seconds=waits[0])


@pytest.mark.mission("CRW-RETRY")
@pytest.mark.parametrize("error", [*PERMANENT, "something_new"])
def test_what_no_retry_mends_fails_at_once(error: str) -> None:
    """A permanent class, and one nobody knows, ends the job at the first failure."""
    world = job_in("running")
    world.failed(error)
    assert (world.status(), world.of["it"].counters["attempts"]) == ("failed", 1)


@pytest.mark.mission("CRW-RETRY")
def test_bot_defence_makes_the_job_careful() -> None:
    """Each signal brings slow start, a fresh session and less at once for the domain, never less than one."""
    world = job_in("running", wall_clock_seconds=LONG)
    seen = []
    for error in ("captcha", "403_waf", "503_shield"):
        world.failed(error)
        wait_for_retry(world)
        job = world.of["it"].context
        seen.append((job["slow_start"], job["session"], job["domain_concurrency"]))
    assert seen == [(True, 2, 2), (True, 3, 1), (True, 4, 1)]
    plain = job_in("retry_pending").of["it"].context
    assert (plain["slow_start"], plain["session"], plain["domain_concurrency"]) == (False, 1, 4)


@pytest.mark.mission("CRW-RETRY")
def test_the_classes_are_those_of_the_document() -> None:
    """Six transient classes, five permanent ones and three signs of bot defence."""
    assert (len(TRANSIENT), len(PERMANENT), len(ANTI_BOT)) == (6, 5, 3)


@pytest.mark.mission("CRW-CODE")
@pytest.mark.parametrize(
    ("error", "code"),
    [*TRANSIENT.items(), *PERMANENT.items(), *ANTI_BOT.items(), *zip(CODES, CODES, strict=True)],
)
def test_an_error_is_recorded_with_code_and_context(error: str, code: str) -> None:
    """Whether a worker reports class or code, the code is kept with message, place, attempt and worker."""
    assert code in CODES
    world = job_in("running")
    world.failed(error, message="it broke")
    job = world.of["it"].context
    assert (job["error_code"], job["message"]) == (code, "it broke")
    assert job["error_context"] == {
        "domain": "example.org",
        "url": "https://example.org/a",
        "attempt": 1,
        "worker_id": "w_1",
    }


@pytest.mark.mission("CRW-CODE")
def test_the_codes_are_those_of_the_document() -> None:
    """There are eleven codes, and each says by itself whether it is tried again."""
    assert len(CODES) == 11
    for code, kind in CODES.items():
        world = job_in("running")
        world.send(CrawlJob.error({"code": code, "url": "https://example.org/b"}, by=BOT))
        assert world.status() == ("failed" if kind == "permanent" else "retry_pending")
        assert world.of["it"].context["error_context"]["url"] == "https://example.org/b"


@pytest.mark.mission("CRW-BEAT")
def test_work_beats_every_10_s_and_is_lost_after_90_s() -> None:
    """The work carries its heartbeat and lease; a lost lease is timeout_soft, and the job is rescheduled."""
    world = job_in("running")
    (work,) = world.found(StartWork)
    assert (work.heartbeat, work.lease) == (10_000, 90_000)
    run = CrawlJob.chart.nodes["running"].model.run
    assert run is not None
    world.failed(run.lost_code)
    assert (run.lost_code, world.status()) == ("timeout_soft", "retry_pending")
    assert world.of["it"].context["error_code"] == "E_TIMEOUT"


@pytest.mark.mission("CRW-BEAT")
def test_a_heartbeat_refreshes_the_time_of_the_last_sign() -> None:
    """The heartbeat event changes `updated_at` and nothing else."""
    world = job_in("running")
    before = world.of["it"].context
    world.pass_time(10)
    world.send(CrawlJob.heartbeat(by=BOT))
    assert world.of["it"].context == {**before, "updated_at": world.now.isoformat()}


@pytest.mark.mission("CRW-BEAT")
@pytest.mark.parametrize("wall_clock", [None, 45.0])
@pytest.mark.parametrize("state", ["queued", "running", "retry_pending"])
def test_the_wall_clock_ends_a_job(state: str, wall_clock: float | None) -> None:
    """300 s, or what the job was given, from its acceptance on: attempts do not extend it."""
    world = job_in(state, **({} if wall_clock is None else {"wall_clock_seconds": wall_clock}))
    limit = wall_clock or 300.0
    world.pass_time(limit - 0.001)
    assert not world.of["it"].ended
    world.pass_time(0.001)
    job = world.of["it"].context
    assert (world.status(), job["error_code"]) == ("failed", "E_TIMEOUT")
    assert f"{limit:g} s" in job["message"]


@pytest.mark.mission("CRW-BEAT", "CRW-RETRY")
def test_the_wall_clock_does_not_wait_for_the_next_attempt() -> None:
    """A job whose next attempt would come too late fails while it waits for it."""
    world = job_in("running", wall_clock_seconds=3.0)
    world.failed("captcha")
    world.pass_time(3)
    assert (world.status(), world.of["it"].counters["attempts"]) == ("failed", 1)


def eta(world: World) -> Any:
    """How long the job is estimated to take still."""
    return world.of["it"].context["eta_seconds"]


@pytest.mark.mission("CRW-COUNT")
def test_progress_adds_to_the_counters_and_estimates_the_rest() -> None:
    """Six counters add up over attempts, the estimate follows the speed so far, the end counts seconds."""
    world = job_in("running", wall_clock_seconds=LONG)
    assert eta(world) is None
    world.pass_time(20)
    world.send(CrawlJob.progress({"urls_total": 10, "urls_enqueued": 8, "urls_processed": 2}, by=BOT))
    assert eta(world) == 80.0
    world.failed("browser_crash")
    waited = wait_for_retry(world)
    world.send(CrawlJob.progress({"urls_processed": 8, "documents_emitted": 7, "chunks_indexed": 70}, by=BOT))
    assert eta(world) == 0.0
    world.send(CrawlJob.complete({"documents_emitted": 1, "tokens_estimated": 999}, by=BOT))
    assert world.of["it"].counters == {
        "attempts": 2,
        "urls_total": 10,
        "urls_enqueued": 8,
        "urls_processed": 10,
        "documents_emitted": 8,
        "chunks_indexed": 70,
        "tokens_estimated": 999,
        "duration_seconds": round(20 + waited),
    }


@pytest.mark.mission("CRW-COUNT")
def test_progress_that_is_no_amount_is_refused() -> None:
    """A counter takes whole numbers only."""
    assert job_in("running").refused(CrawlJob.progress({"urls_total": "many"}, by=BOT)).code == "payload"


@pytest.mark.mission("CRW-S")
def test_the_end_of_the_work_completes_the_job_and_tells_of_its_results() -> None:
    """A worker that finishes its work needs no further event; the statistics it returns are counted."""
    world = job_in("running")
    world.done(documents_emitted=3, note="not a counter")
    assert world.status() == "succeeded"
    assert world.of["it"].counters["documents_emitted"] == 3
    assert "note" not in world.of["it"].counters
    (message,) = world.found(Message)
    assert (message.kind, message.name) == ("topic", "crawl.succeeded")


@pytest.mark.mission("CRW-S")
def test_the_chart_passes_its_check() -> None:
    """The checker looks at every configuration and finds nothing."""
    report = check(CrawlJob)
    assert (report.findings, report.complete) == ((), True)
