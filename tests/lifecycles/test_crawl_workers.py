"""Crawl and ingestion jobs: who has a job, how it shows that it lives, and whose word counts."""

from __future__ import annotations

import pytest

from headway.clock import time_text
from headway.lifecycles.crawls.chart import CrawlJob
from headway.statechart.effects import CancelWork, StartWork
from headway.statechart.snapshot import SYSTEM, Actor, Event, person, work_done, work_failed, work_lost
from tests.lifecycles.crawling import (
    ANN,
    BOT,
    ENGINE,
    LONG,
    PERMANENT,
    START,
    TRANSIENT,
    back_off,
    begin,
    fail,
    job_in,
    running,
    wait_for_retry,
)
from tests.lifecycles.world import World

OTHER = person("w_2", "worker")
REPORTS = {
    "heartbeat": CrawlJob.heartbeat(by=BOT),
    "progress": CrawlJob.progress({"urls_processed": 1}, by=BOT),
    "complete": CrawlJob.complete({"documents_emitted": 2}, by=BOT),
    "error": CrawlJob.error({"code": "invalid_url"}, by=BOT),
}


def lost_and_taken_up() -> World:
    """A job whose first worker fell silent, and whose second attempt another one has."""
    world = job_in("running", wall_clock_seconds=LONG)
    world.pass_time(90)
    back_off(world)
    world.send(CrawlJob.start({"worker_id": "w_2"}, by=OTHER))
    return world


@pytest.mark.mission("CRW-S", "CRW-BEAT")
def test_a_worker_of_the_engine_takes_the_job_up() -> None:
    """Nobody sends an event: the work of a queued job is done, and the job runs on the engine's lease."""
    world = running("work")
    job = world.of["it"]
    assert (job.state, job.counters["attempts"]) == ("working", 1)
    assert (job.context["worker_id"], job.context["started_at"]) == ("node-1", time_text(world.now))
    take, crawl = world.found(StartWork)
    assert (take.handler, crawl.handler) == ("take_job", "crawl")
    assert (crawl.heartbeat, crawl.lease) == (10_000, 90_000)
    assert crawl.priority > take.priority


@pytest.mark.mission("CRW-S", "CRW-BEAT")
@pytest.mark.parametrize("due", [False, True])
def test_a_worker_from_outside_takes_the_job_from_the_engine(due: bool) -> None:  # noqa: FBT001 - a parameter
    """Once it has started, no worker of the engine can take the job up, nor is any work on offer."""
    world = job_in("queued")
    if due:
        begin(world, "work")
        fail(world, "work", "network_error")
        back_off(world)
    (take,) = world.of["it"].work.values()
    world.send(START)
    assert (world.of["it"].state, world.of["it"].work) == ("reporting", {})
    assert world.found(CancelWork)[-1].work == take.id
    assert world.refused(work_done(take.id, take.attempt, by=ENGINE)).code == "stale"


@pytest.mark.mission("CRW-S")
def test_no_worker_from_outside_takes_the_job_of_another() -> None:
    """A job that a worker has, of the engine or not, is not started again."""
    other = CrawlJob.start({"worker_id": "w_2"}, by=OTHER)
    for how in ("event", "work"):
        world = running(how)
        unchanged = world.of["it"]
        world.refused(other)
        assert world.of["it"] == unchanged


@pytest.mark.mission("CRW-S", "CRW-RETRY")
def test_each_attempt_has_a_worker_of_its_own() -> None:
    """Between two attempts nobody has the job; a worker of the engine or one from outside takes each up."""
    world = running("event")
    for how, following, worker in (("event", "work", "node-1"), ("work", "event", "w_1")):
        fail(world, how, "network_error")
        assert world.of["it"].context["worker_id"] is None
        assert world.refused(START).code == "illegal"
        wait_for_retry(world, following)
        assert world.of["it"].context["worker_id"] == worker
    assert world.of["it"].counters["attempts"] == 3


@pytest.mark.mission("CRW-S", "CRW-BEAT")
@pytest.mark.parametrize("name", REPORTS)
def test_what_a_lost_worker_says_later_is_refused(name: str) -> None:
    """The first worker's word no longer counts when the second has the job; the refusal says who has it."""
    world = lost_and_taken_up()
    unchanged = world.of["it"]
    refusal = world.refused(REPORTS[name])
    assert (refusal.code, world.of["it"]) == ("guard", unchanged)
    assert "w_2 has attempt 2, not w_1" in refusal.message
    mine = REPORTS[name]
    world.send(Event(mine.name, mine.data, OTHER))


@pytest.mark.mission("CRW-S", "CRW-BEAT")
@pytest.mark.parametrize("name", REPORTS)
def test_a_worker_that_comes_back_does_not_mix_its_attempts_up(name: str) -> None:
    """What names another attempt than the present one is refused, from the same worker too."""
    world = job_in("running", wall_clock_seconds=LONG)
    world.pass_time(90)
    wait_for_retry(world)
    report = REPORTS[name]
    late = Event(name, {**(report.data or {}), "attempt": 1}, BOT)
    assert "attempt 1 is over, it is 2" in world.refused(late).message
    world.send(Event(name, {**(report.data or {}), "attempt": 2}, BOT))


@pytest.mark.mission("CRW-S")
@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("by", [SYSTEM, person("fleet", "worker")])
def test_a_sender_with_another_name_says_for_whom_it_speaks(name: str, by: Actor) -> None:
    """Many workers may share a key: then each report names its worker."""
    report = REPORTS[name]
    world = job_in("running")
    assert world.refused(Event(name, report.data, by)).code == "guard"
    world.send(Event(name, {**(report.data or {}), "worker_id": "w_1"}, by))


@pytest.mark.mission("CRW-S", "CRW-BEAT")
@pytest.mark.parametrize("name", REPORTS)
def test_events_do_not_disturb_a_worker_of_the_engine(name: str) -> None:
    """While a worker of the engine has the job, no event from elsewhere reports, ends or fails it."""
    world = running("work")
    unchanged = world.of["it"]
    for by in (BOT, ENGINE):
        assert world.refused(Event(name, REPORTS[name].data, by)).code in {"guard", "illegal"}
    assert world.of["it"] == unchanged


@pytest.mark.mission("CRW-S")
@pytest.mark.parametrize(("name", "state"), [("complete", "succeeded"), ("error", "failed")])
def test_a_handler_may_end_its_work_by_an_event(name: str, state: str) -> None:
    """What names the work comes from the worker that has it; when the work is over it is refused."""
    world = running("work")
    (work,) = world.of["it"].work.values()
    event = Event(name, REPORTS[name].data, ENGINE, ref=work.id, attempt=work.attempt)
    world.send(event)
    assert world.status() == state
    assert world.refused(event).code in {"stale", "terminal"}


@pytest.mark.mission("CRW-BEAT", "CRW-CODE")
def test_a_worker_of_the_engine_is_lost_with_its_lease() -> None:
    """A lost worker is timeout_soft, the job is rescheduled, and the lost worker ends nothing any more."""
    world = running("work")
    (work,) = world.of["it"].work.values()
    world.send(work_lost(work.id, work.attempt))
    job = world.of["it"].context
    assert (world.status(), job["error_code"]) == ("retry_pending", "E_TIMEOUT")
    assert job["error_context"]["worker_id"] == "node-1"
    assert world.refused(work_done(work.id, work.attempt)).code == "stale"
    wait_for_retry(world, "work")


@pytest.mark.mission("CRW-CODE")
def test_an_error_names_the_worker_that_met_it() -> None:
    """One worker of the engine may take a job up and another one work on it."""
    world = running("work")
    (work,) = world.of["it"].work.values()
    other = Actor("node-2", "service", frozenset({"system"}))
    world.send(work_failed(work.id, work.attempt, "browser_crash", by=other))
    assert world.of["it"].context["error_context"]["worker_id"] == "node-2"


@pytest.mark.mission("CRW-BEAT", "CRW-CODE")
def test_a_worker_from_outside_is_lost_after_90_s_of_silence() -> None:
    """89 s are no reason to worry; after 90 s the job has failed with timeout_soft and is rescheduled."""
    world = job_in("running", wall_clock_seconds=LONG)
    world.pass_time(89.999)
    assert world.status() == "running"
    world.pass_time(0.001)
    job = world.of["it"].context
    assert (world.status(), job["error_code"], job["message"]) == (
        "retry_pending",
        "E_TIMEOUT",
        "no sign of life for 90 s",
    )
    assert (job["error_context"]["worker_id"], job["error_context"]["attempt"]) == ("w_1", 1)
    wait_for_retry(world)


@pytest.mark.mission("CRW-BEAT", "CRW-RETRY")
def test_the_seventh_silence_is_the_last() -> None:
    """Lost workers use up attempts as errors do."""
    world = job_in("running", wall_clock_seconds=LONG)
    for _ in range(6):
        world.pass_time(90)
        wait_for_retry(world)
    world.pass_time(90)
    assert (world.status(), world.of["it"].context["error_code"]) == ("failed", "E_TIMEOUT")


@pytest.mark.mission("CRW-BEAT")
@pytest.mark.parametrize("name", ["heartbeat", "progress"])
def test_a_sign_of_life_begins_the_90_s_anew(name: str) -> None:
    """A worker that beats or reports keeps its job, in the same attempt, for as long as it does."""
    world = job_in("running", wall_clock_seconds=LONG)
    for _ in range(10):
        world.pass_time(80)
        world.send(REPORTS[name])
    assert (world.status(), world.of["it"].counters["attempts"]) == ("running", 1)
    world.pass_time(90)
    assert world.status() == "retry_pending"


@pytest.mark.mission("CRW-BEAT")
def test_a_heartbeat_refreshes_the_time_of_the_last_sign() -> None:
    """The heartbeat changes `updated_at` and nothing else, whatever time the worker says it is."""
    world = job_in("running")
    before = world.of["it"]
    world.pass_time(10)
    world.send(CrawlJob.heartbeat({"t": "1999-01-01T00:00:00Z"}, by=BOT))
    after = world.of["it"]
    assert after.context == {**before.context, "updated_at": time_text(world.now)}
    assert (after.work, after.counters) == (before.work, before.counters)


@pytest.mark.mission("CRW-BEAT")
@pytest.mark.parametrize("state", ["queued", "retry_pending"])
def test_a_job_that_nobody_has_is_not_silent(state: str) -> None:
    """While no worker has the job, 90 s without a sign mean nothing."""
    world = job_in(state, wall_clock_seconds=LONG)
    world.pass_time(3_600)
    assert world.status() == state


@pytest.mark.mission("CRW-S", "CRW-RETRY")
@pytest.mark.parametrize("due", [False, True])
@pytest.mark.parametrize("error", [*TRANSIENT, *PERMANENT, "something_new"])
def test_a_job_that_cannot_be_taken_up_fails(error: str, due: bool) -> None:  # noqa: FBT001 - a parameter
    """What may pass is tried seven times, what cannot once; no attempt begins, and the error is recorded."""
    world = job_in("queued", wall_clock_seconds=LONG)
    if due:
        begin(world, "work")
        fail(world, "work", "network_error")
        back_off(world)
    tries = 0
    while not world.of["it"].ended:
        (work,) = world.of["it"].work.values()
        world.send(work_failed(work.id, work.attempt, error, by=ENGINE))
        tries += 1
    job = world.of["it"]
    assert (world.status(), tries) == ("failed", 7 if error in TRANSIENT else 1)
    assert job.context["error_code"] == {**TRANSIENT, **PERMANENT}.get(error, error)
    assert job.context["error_context"]["attempt"] == int(due)


@pytest.mark.mission("CRW-S")
def test_a_job_that_nobody_takes_up_can_be_canceled_or_runs_out_of_time() -> None:
    """A queued job waits for a worker, within its wall clock."""
    world = job_in("queued")
    world.pass_time(300)
    assert (world.status(), world.of["it"].context["error_code"]) == ("failed", "E_TIMEOUT")
    assert world.refused(CrawlJob.cancel(by=ANN)).code == "terminal"
