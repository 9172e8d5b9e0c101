"""Crawl and ingestion jobs: states, events, cancellation, heartbeat, time, counters."""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from typing import Any

import pytest

from headway.errors import InputError
from headway.lifecycles.crawls.chart import CrawlJob
from headway.lifecycles.crawls.rules import CrawlData
from headway.statechart.check import check
from headway.statechart.effects import CancelWork, Message, StartWork
from headway.statechart.snapshot import SYSTEM, Event, person, work_done, work_lost
from headway.statechart.step import start
from tests.lifecycles.crawling import (
    ALLOWED,
    ANN,
    BOT,
    EVENTS,
    FINAL,
    LIVE,
    LONG,
    PATHS,
    REFUSED,
    START,
    job_in,
    wait_for_retry,
)
from tests.lifecycles.lifecycle_page import payloads, published, table_of
from tests.lifecycles.world import BEGIN, World

COUNTERS = (
    "urls_total",
    "urls_enqueued",
    "urls_processed",
    "documents_emitted",
    "chunks_indexed",
    "tokens_estimated",
)


@pytest.mark.mission("CRW-S")
@pytest.mark.parametrize("state", PATHS)
def test_a_job_reaches_each_state(state: str) -> None:
    """Each of the six states is reached by the document's events; three of them are final."""
    assert job_in(state).of["it"].ended == (state in FINAL)
    assert set(CrawlJob.chart.nodes) == {*LIVE, *FINAL}


@pytest.mark.mission("CRW-S")
def test_a_job_is_accepted_by_its_creation() -> None:
    """The event `accept` is the creation: the job is queued, and nothing works on it yet."""
    world = job_in("queued")
    job = world.of["it"].context
    assert job["accepted_at"] == job["updated_at"] == world.now.isoformat()
    assert (world.found(StartWork), world.of["it"].counters) == ([], {})


@pytest.mark.mission("CRW-S")
@pytest.mark.parametrize(("pair", "target"), ALLOWED.items())
def test_an_event_leads_where_the_document_says(pair: tuple[str, str], target: str) -> None:
    """Each pair of a state and an event that the document allows."""
    world = job_in(pair[0])
    world.pass_time(1)
    world.send(EVENTS[pair[1]])
    assert world.status() == target
    assert world.of["it"].context["updated_at"] == world.now.isoformat()


@pytest.mark.mission("CRW-S")
@pytest.mark.parametrize(("pair", "code"), REFUSED.items())
def test_an_event_out_of_place_changes_nothing(pair: tuple[str, str], code: str) -> None:
    """Each other pair is refused, and the refusal says whether it is illegal, there already, or over."""
    world = job_in(pair[0])
    unchanged = world.of["it"]
    assert world.refused(EVENTS[pair[1]]).code == code
    assert world.of["it"] == unchanged


@pytest.mark.mission("CRW-S")
def test_every_pair_is_in_one_of_the_tables() -> None:
    """Six states, six events: no pair is left out."""
    assert sorted([*ALLOWED, *REFUSED]) == sorted(product(PATHS, EVENTS))


@pytest.mark.mission("CRW-S")
@pytest.mark.parametrize("pair", ALLOWED)
def test_events_are_for_the_worker_and_cancel_is_for_the_user(pair: tuple[str, str]) -> None:
    """The system may send all; a user reports nothing, and a worker or a stranger cancels nothing."""
    state, name = pair
    event = EVENTS[name]
    for other in ({BOT, ANN} - {event.by}) | {person("eve")}:
        assert job_in(state).refused(Event(name, event.data, other)).code == "actor"
    job_in(state).send(Event(name, event.data, SYSTEM))


@pytest.mark.mission("CRW-S")
@pytest.mark.parametrize("state", LIVE)
def test_cancel_works_in_every_live_state(state: str) -> None:
    """Queued, running or waiting for a retry: the job is canceled, its work and its timers with it."""
    world = job_in(state)
    world.send(CrawlJob.cancel(by=ANN))
    job = world.of["it"]
    assert (world.status(), job.timers, job.work) == ("canceled", {}, {})
    assert job.context["canceled_at"] == world.now.isoformat()
    assert len(world.found(CancelWork)) == len(world.found(StartWork))


@pytest.mark.mission("CRW-S")
def test_a_canceled_job_keeps_what_it_has_and_takes_nothing_more() -> None:
    """Partial results stay counted; what the worker says when it is stopped comes too late."""
    world = job_in("running")
    (work,) = world.of["it"].work.values()
    world.send(CrawlJob.progress({"documents_emitted": 3}, by=BOT))
    world.send(CrawlJob.cancel(by=ANN))
    assert world.refused(work_done(work.id, work.attempt, {"documents_emitted": 9})).code == "stale"
    assert world.of["it"].counters["documents_emitted"] == 3


@pytest.mark.mission("CRW-S")
@pytest.mark.parametrize(
    "event",
    [
        CrawlJob.start({}, by=BOT),
        CrawlJob.progress({"urls_total": "many"}, by=BOT),
        CrawlJob.progress({"urls_total": -1}, by=BOT),
        CrawlJob.complete({"documents_emitted": 1.5}, by=BOT),
        CrawlJob.error({}, by=BOT),
        CrawlJob.error({"code": " "}, by=BOT),
        CrawlJob.error({"code": 500}, by=BOT),
    ],
)
def test_data_that_does_not_fit_is_refused(event: Event) -> None:
    """A worker without id, an amount that is none, an error that says nothing: nothing changes."""
    world = job_in("queued" if event.name == "start" else "running")
    assert world.refused(event).code == "payload"


@pytest.mark.mission("CRW-S", "CRW-BEAT")
@pytest.mark.parametrize(
    "context",
    [{"wall_clock_seconds": 0}, {"wall_clock_seconds": -1}, {"domain_concurrency": 0}, {"kind": "x"}],
)
def test_a_job_that_could_not_run_does_not_begin(context: dict[str, Any]) -> None:
    """No time, no place at the domain, or neither a crawl nor an ingestion: the job is not accepted."""
    with pytest.raises(InputError, match="CrawlData"):
        start(CrawlJob, "it", now=BEGIN, context=context)


@pytest.mark.mission("CRW-BEAT")
def test_work_beats_every_10_s_and_is_lost_after_90_s() -> None:
    """The work carries its heartbeat and lease; a lost worker is timeout_soft, and the job is rescheduled."""
    world = job_in("running")
    (work,) = world.found(StartWork)
    assert (work.handler, work.heartbeat, work.lease) == ("crawl", 10_000, 90_000)
    world.send(work_lost(work.work, work.attempt))
    job = world.of["it"].context
    assert (world.status(), job["error_code"], job["error_context"]["worker_id"]) == (
        "retry_pending",
        "E_TIMEOUT",
        "w_1",
    )
    assert world.refused(work_done(work.work, work.attempt)).code == "stale"
    wait_for_retry(world)


@pytest.mark.mission("CRW-BEAT")
def test_a_heartbeat_refreshes_the_time_of_the_last_sign() -> None:
    """The heartbeat event changes `updated_at` and nothing else, whatever time the worker says it is."""
    world = job_in("running")
    before = world.of["it"]
    world.pass_time(10)
    world.send(CrawlJob.heartbeat({"t": "1999-01-01T00:00:00Z"}, by=BOT))
    after = world.of["it"]
    assert after.context == {**before.context, "updated_at": world.now.isoformat()}
    assert (after.work, after.timers, after.counters) == (before.work, before.timers, before.counters)


@pytest.mark.mission("CRW-BEAT")
@pytest.mark.parametrize("wall_clock", [None, 45.0])
@pytest.mark.parametrize("state", LIVE)
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
@pytest.mark.parametrize("counter", COUNTERS)
def test_each_counter_is_reported_on_the_way_and_at_the_end(counter: str) -> None:
    """What progress, the end and the result of the work report is added up."""
    for last in ("complete", "work"):
        world = job_in("running")
        world.send(CrawlJob.progress({counter: 2}, by=BOT))
        if last == "complete":
            world.send(CrawlJob.complete({counter: 3}, by=BOT))
        else:
            counted: dict[str, Any] = {counter: 3}
            world.done(**counted)
        assert world.of["it"].counters[counter] == 5


@pytest.mark.mission("CRW-COUNT")
@pytest.mark.parametrize("state", FINAL)
def test_a_job_that_has_ended_knows_how_long_it_took_and_expects_nothing(state: str) -> None:
    """The seconds from the first start to the end are counted once; there is no estimate any more."""
    world = job_in("running")
    world.pass_time(30)
    world.send(CrawlJob.progress({"urls_total": 4, "urls_processed": 1}, by=BOT))
    assert eta(world) == 90.0
    world.send({"canceled": CrawlJob.cancel(by=ANN)}.get(state, PATHS[state][-1]))
    assert (world.status(), eta(world)) == (state, None)
    assert world.of["it"].counters["duration_seconds"] == 30
    assert world.of["it"].context["ended_at"] == world.now.isoformat()


@pytest.mark.mission("CRW-S", "CRW-COUNT")
def test_the_end_of_the_work_completes_the_job_and_tells_of_its_results() -> None:
    """A worker that finishes its work needs no further event; the statistics it returns are counted."""
    world = job_in("running")
    world.done(documents_emitted=3, note="no counter", urls_total="many", chunks_indexed=-1)
    assert world.status() == "succeeded"
    counters = world.of["it"].counters
    assert counters["documents_emitted"] == 3
    assert counters.keys().isdisjoint({"note", "urls_total", "chunks_indexed"})
    (message,) = world.found(Message)
    assert (message.kind, message.name) == ("topic", "crawl.succeeded")
    assert message.data == {"kind": "crawl", "url": "https://example.org/a", "domain": "example.org"}


@pytest.mark.mission("CRW-S")
def test_the_page_tells_what_events_and_messages_carry() -> None:
    """The tables of the page are those of the chart."""
    assert table_of("crawls.md", "Event") == payloads(CrawlJob)
    assert table_of("crawls.md", "Transition") == published(CrawlJob)


@pytest.mark.mission("CRW-S", "CRW-BEAT")
def test_the_page_tells_what_a_job_is_given() -> None:
    """The defaults on the page are those of a job."""
    defaults = asdict(CrawlData())
    told = {name: default for name, default, _ in table_of("crawls.md", "Field")}
    assert told == {name: f"{defaults[name]}" for name in told}


@pytest.mark.mission("CRW-S")
def test_the_chart_passes_its_check() -> None:
    """The checker looks at every configuration and finds nothing."""
    report = check(CrawlJob)
    assert (report.findings, report.complete) == ((), True)


@pytest.mark.mission("CRW-S", "CRW-CODE")
def test_each_attempt_has_a_worker_of_its_own() -> None:
    """After a retry the next worker says who it is; while one has the job no other can."""
    world = job_in("running")
    other = CrawlJob.start({"worker_id": "w_2"}, by=BOT)
    assert "w_1 has it" in world.refused(other).message
    world.failed("network_error")
    wait_for_retry(world)
    assert world.of["it"].context["worker_id"] is None
    world.send(other)
    assert world.refused(START).code == "guard"
    world.failed("network_error")
    assert world.of["it"].context["error_context"]["worker_id"] == "w_2"
    assert world.of["it"].counters["attempts"] == 2
