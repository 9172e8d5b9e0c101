"""Crawl and ingestion jobs: states, events, cancellation, time."""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from typing import Any

import pytest

from headway.clock import time_text
from headway.errors import InputError
from headway.lifecycles.crawls.chart import CrawlJob
from headway.lifecycles.crawls.record import CrawlData
from headway.statechart.check.check import check
from headway.statechart.effects import CancelWork, StartWork
from headway.statechart.snapshot import SYSTEM, Event, person, work_done
from headway.statechart.step.step import start
from tests.lifecycles.crawling import (
    ALLOWED,
    ANN,
    BOT,
    EVENTS,
    FINAL,
    LIVE,
    PATHS,
    REFUSED,
    back_off,
    fail,
    job_in,
    running,
)
from tests.lifecycles.lifecycle_page import payloads, published, table_of
from tests.lifecycles.world import BEGIN


@pytest.mark.mission("CRW-S")
@pytest.mark.parametrize("state", PATHS)
def test_a_job_reaches_each_state(state: str) -> None:
    """Each of the six states is reached by the document's events; three of them are final."""
    assert job_in(state).of["it"].ended == (state in FINAL)
    assert {node.id for node in CrawlJob.chart.root.children} == {*LIVE, *FINAL}


@pytest.mark.mission("CRW-S")
def test_a_job_is_accepted_by_its_creation() -> None:
    """The event `accept` is the creation: the job is queued, for the engine's workers to take up."""
    world = job_in("queued")
    job = world.of["it"].context
    assert job["accepted_at"] == job["updated_at"] == time_text(world.now)
    assert [work.handler for work in world.found(StartWork)] == ["take_job"]
    assert world.of["it"].counters == {}


@pytest.mark.mission("CRW-S")
@pytest.mark.parametrize(("pair", "target"), ALLOWED.items())
def test_an_event_leads_where_the_document_says(pair: tuple[str, str], target: str) -> None:
    """Each pair of a state and an event that the document allows."""
    world = job_in(pair[0])
    world.pass_time(1)
    world.send(EVENTS[pair[1]])
    assert world.status() == target
    assert world.of["it"].context["updated_at"] == time_text(world.now)


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
    """The system may speak for a worker; a user reports nothing, a worker or a stranger cancels nothing."""
    state, name = pair
    event = EVENTS[name]
    for other in ({BOT, ANN} - {event.by}) | {person("eve")}:
        assert job_in(state).refused(Event(name, event.data, other)).code == "actor"
    job_in(state).send(Event(name, {**(event.data or {}), "worker_id": "w_1"}, SYSTEM))


@pytest.mark.mission("CRW-S")
@pytest.mark.parametrize("state", LIVE)
def test_cancel_works_in_every_live_state(state: str) -> None:
    """Queued, running or waiting for a retry: the job is canceled, its work and its timers with it."""
    world = job_in(state)
    world.send(CrawlJob.cancel(by=ANN))
    job = world.of["it"]
    assert (world.status(), job.timers, job.work) == ("canceled", {}, {})
    assert job.context["canceled_at"] == time_text(world.now)
    assert len(world.found(CancelWork)) == len(world.found(StartWork))


@pytest.mark.mission("CRW-S")
@pytest.mark.parametrize("due", [False, True])
def test_cancel_stops_the_work_of_the_engine(due: bool) -> None:  # noqa: FBT001 - a parameter
    """The handler at work is stopped, and an attempt that is due is not taken up any more."""
    world = running("work")
    if due:
        fail(world, "work", "network_error")
        back_off(world)
    (work,) = world.of["it"].work.values()
    world.send(CrawlJob.cancel(by=ANN))
    assert [each.work for each in world.found(CancelWork)] == [work.id]
    assert world.refused(work_done(work.id, work.attempt)).code == "stale"


@pytest.mark.mission("CRW-S")
def test_a_canceled_job_keeps_what_it_has_and_takes_nothing_more() -> None:
    """Partial results stay counted; what the worker says when it is stopped comes too late."""
    world = job_in("running")
    world.send(CrawlJob.progress({"documents_emitted": 3}, by=BOT))
    world.send(CrawlJob.cancel(by=ANN))
    assert world.refused(CrawlJob.complete({"documents_emitted": 9}, by=BOT)).code == "terminal"
    assert world.of["it"].counters["documents_emitted"] == 3


@pytest.mark.mission("CRW-S")
@pytest.mark.parametrize(
    "event",
    [
        CrawlJob.start({}, by=BOT),
        CrawlJob.start({"worker_id": " "}, by=BOT),
        CrawlJob.heartbeat({"attempt": "first"}, by=BOT),
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
    world = running("work", wall_clock_seconds=3.0)
    fail(world, "work", "captcha")
    world.pass_time(3)
    assert (world.status(), world.of["it"].counters["attempts"]) == ("failed", 1)


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
