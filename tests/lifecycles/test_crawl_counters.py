"""Crawl and ingestion jobs: what is counted, what is estimated, and what jobs of a domain know together."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headway.clock import time_text
from headway.lifecycles.crawls.chart import CrawlJob
from headway.lifecycles.crawls.record import AMOUNTS
from headway.statechart.effects import PublishMessage, StartWork, StoreRecord
from headway.statechart.snapshot import work_progress
from tests.lifecycles.crawling import (
    ANN,
    BOT,
    FINAL,
    LONG,
    PATHS,
    begin,
    fail,
    job_in,
    running,
    wait_for_retry,
)
from tests.lifecycles.world import BEGIN, World


def eta(world: World) -> Any:
    """How long the job is estimated to take still."""
    return world.of["it"].context["eta_seconds"]


def tell(world: World, **counters: int) -> None:
    """The work of the engine's worker counts."""
    (work,) = world.of["it"].work.values()
    world.send(work_progress(work.id, work.attempt, 0.5, counters=counters))


@pytest.mark.mission("CRW-COUNT")
def test_progress_adds_to_the_counters_and_estimates_the_rest() -> None:
    """Six counters add up, the estimate follows the speed so far, the end counts seconds."""
    world = job_in("running")
    assert eta(world) is None
    world.pass_time(20)
    world.send(CrawlJob.progress({"urls_total": 10, "urls_enqueued": 8, "urls_processed": 2}, by=BOT))
    assert eta(world) == 80.0
    world.send(CrawlJob.progress({"urls_processed": 8, "documents_emitted": 7, "chunks_indexed": 70}, by=BOT))
    assert eta(world) == 0.0
    world.send(CrawlJob.complete({"documents_emitted": 1, "tokens_estimated": 999}, by=BOT))
    assert world.of["it"].counters == {
        "attempts": 1,
        "urls_total": 10,
        "urls_enqueued": 8,
        "urls_processed": 10,
        "documents_emitted": 8,
        "chunks_indexed": 70,
        "tokens_estimated": 999,
        "duration_seconds": 20,
    }


@pytest.mark.mission("CRW-COUNT")
@pytest.mark.parametrize("how", ["event", "work"])
def test_an_attempt_that_begins_anew_counts_anew(how: str) -> None:
    """The same pages are not counted twice, and the estimate follows the speed of this attempt."""
    world = running(how, wall_clock_seconds=LONG)
    count(world, how, urls_total=10, urls_processed=8)
    fail(world, how, "browser_crash")
    assert world.of["it"].counters["urls_total"] == 10
    wait_for_retry(world, how)
    assert [world.of["it"].counters[name] for name in AMOUNTS if name in world.of["it"].counters] == [0, 0]
    world.pass_time(20)
    count(world, how, urls_total=10, urls_processed=2)
    assert world.of["it"].counters["urls_total"] == 10
    assert eta(world) == 80.0


@pytest.mark.mission("CRW-COUNT")
@pytest.mark.parametrize("how", ["event", "work"])
def test_an_attempt_that_goes_on_counts_on(how: str) -> None:
    """A worker that resumes where the last one stopped keeps what was counted, and the time it took."""
    world = running(how, wall_clock_seconds=LONG)
    world.pass_time(20)
    count(world, how, urls_total=10, urls_processed=2)
    fail(world, how, "browser_crash")
    waited = wait_for_retry(world, how, resumes=True)
    count(world, how, urls_processed=3)
    assert world.of["it"].counters["urls_processed"] == 5
    assert eta(world) == round(20 + waited, 1)


def count(world: World, how: str, **counters: int) -> None:
    """A worker reports what it has counted."""
    if how == "event":
        world.send(CrawlJob.progress(counters, by=BOT))
    else:
        tell(world, **counters)


@pytest.mark.mission("CRW-COUNT")
@pytest.mark.parametrize("how", ["event", "work"])
def test_a_first_attempt_that_resumes_counts_from_its_beginning(how: str) -> None:
    """There is nothing it could go on with here, so the estimate follows its own speed."""
    world = job_in("queued")
    begin(world, how, resumes=True)
    world.pass_time(20)
    count(world, how, urls_total=10, urls_processed=2)
    assert eta(world) == 80.0


@pytest.mark.mission("CRW-COUNT", "CRW-BEAT")
def test_what_the_work_counts_moves_the_estimate_at_once() -> None:
    """A handler that tells of progress sends no event: what it counts is noted, once."""
    world = running("work")
    world.pass_time(10)
    tell(world, urls_total=4, urls_processed=1)
    job = world.of["it"].context
    assert (job["eta_seconds"], job["updated_at"]) == (30.0, time_text(world.now))
    world.pass_time(10)
    tell(world)
    tell(world, urls_total=0)
    assert world.of["it"].context == job


@pytest.mark.mission("CRW-COUNT", "CRW-BEAT")
def test_a_job_whose_work_counts_nothing_takes_no_steps() -> None:
    """While the work goes on and says nothing, the history does not grow."""
    world = running("work", wall_clock_seconds=LONG)
    before = world.of["it"]
    world.pass_time(3_600)
    assert world.of["it"] == before


@pytest.mark.mission("CRW-COUNT")
@pytest.mark.parametrize("how", ["event", "work"])
def test_there_is_an_estimate_only_while_a_job_runs(how: str) -> None:
    """A job that waits for its next attempt does not say how long the last one would have taken."""
    world = running(how)
    count(world, how, urls_total=4, urls_processed=1)
    assert eta(world) is not None
    fail(world, how, "network_error")
    assert eta(world) is None
    wait_for_retry(world, how)
    assert eta(world) is None


@pytest.mark.mission("CRW-COUNT")
@pytest.mark.parametrize("counter", AMOUNTS)
def test_each_counter_is_reported_on_the_way_and_at_the_end(counter: str) -> None:
    """What progress, the end and the result of the work report is added up."""
    counted: dict[str, Any] = {counter: 3}
    for how in ("event", "work"):
        world = running(how)
        count(world, how, **{counter: 2})
        if how == "event":
            world.send(CrawlJob.complete(counted, by=BOT))
        else:
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
    assert world.of["it"].context["ended_at"] == time_text(world.now)


@pytest.mark.mission("CRW-COUNT")
def test_the_duration_is_that_of_all_attempts() -> None:
    """It runs from the first start to the end, waits between attempts included."""
    world = running("work")
    world.pass_time(20)
    fail(world, "work", "network_error")
    waited = wait_for_retry(world, "work")
    world.done()
    assert world.of["it"].counters["duration_seconds"] == round(20 + waited)


@pytest.mark.mission("CRW-S", "CRW-COUNT")
def test_the_end_of_the_work_completes_the_job_and_tells_of_its_results() -> None:
    """A worker that finishes its work needs no further event; the statistics it returns are counted."""
    world = running("work")
    world.done(documents_emitted=3, note="no counter", urls_total="many", chunks_indexed=-1)
    assert world.status() == "succeeded"
    counters = world.of["it"].counters
    assert counters["documents_emitted"] == 3
    assert counters.keys().isdisjoint({"note", "urls_total", "chunks_indexed"})
    (message,) = world.found(PublishMessage)[-1:]
    assert (message.kind, message.name) == ("topic", "crawl.succeeded")
    assert message.data == {"kind": "crawl", "url": "https://example.org/a", "domain": "example.org"}


@pytest.mark.mission("CRW-CODE")
@pytest.mark.parametrize("how", ["event", "work"])
def test_a_job_that_succeeds_has_no_error(how: str) -> None:
    """What failed on the way stands in the history, not in the result."""
    world = running(how)
    fail(world, how, "network_error", "reset")
    wait_for_retry(world, how)
    assert world.of["it"].context["error_code"] == "E_5XX_ORIGIN"
    if how == "event":
        world.send(CrawlJob.complete(by=BOT))
    else:
        world.done()
    job = world.of["it"].context
    assert (job["error_code"], job["message"], job["error_context"]) == (None, None, {})


@pytest.mark.mission("CRW-RETRY")
def test_a_domain_that_defends_itself_is_spared_by_all_its_jobs() -> None:
    """The lower limit is kept for the domain; each job that comes to it heeds that for an hour."""
    world = running("work", wall_clock_seconds=LONG)
    fail(world, "work", "captcha")
    (kept,) = world.found(StoreRecord)
    assert (kept.kind, kept.key) == ("crawl_domain", "crawl:example.org")
    assert kept.data == {"domain_concurrency": 2, "defended_at": time_text(BEGIN)}
    for age, most in ((0, 2), (59, 2), (60, 4)):
        other = World(CrawlJob, defended=kept.data)
        other.now = BEGIN + timedelta(minutes=age)
        other.create(CrawlJob, url="https://example.org/b")
        assert [work.at_once for work in other.found(StartWork)] == [most]


@pytest.mark.mission("CRW-RETRY")
@pytest.mark.parametrize(
    ("own", "known", "kept", "after"),
    [(4, 2, 1, 1), (8, 3, 1, 1), (9, 9, 4, 4), (1, 2, 1, 1), (2, 8, 4, 1), (1, None, 2, 1), (9, None, 2, 2)],
)
def test_each_sign_halves_what_the_domain_bears(own: int, known: int | None, kept: int, after: int) -> None:
    """The domain's limit is halved, and the job's; one that was content with less lowers no other's."""
    defended = known and {"domain_concurrency": known, "defended_at": time_text(BEGIN)}
    world = World(CrawlJob, defended=defended)
    world.create(CrawlJob, domain="example.org", domain_concurrency=own)
    world.send(CrawlJob.start({"worker_id": "w_1"}, by=BOT))
    assert world.of["it"].context["domain_concurrency"] == min(own, known or own)
    fail(world, "event", "captcha")
    assert world.found(StoreRecord)[0].data["domain_concurrency"] == kept
    assert world.of["it"].context["domain_concurrency"] == after


@pytest.mark.mission("CRW-RETRY")
def test_the_last_sign_of_bot_defence_counts_for_the_domain_too() -> None:
    """A job that gives up leaves behind what it has learned; one without a domain has nobody to tell."""
    world = running("event", wall_clock_seconds=LONG)
    for _ in range(6):
        fail(world, "event", "network_error")
        wait_for_retry(world)
    fail(world, "event", "captcha")
    assert (world.status(), len(world.found(StoreRecord))) == ("failed", 1)
    nowhere = running("event", url="", domain="")
    fail(nowhere, "event", "captcha")
    assert nowhere.found(StoreRecord) == []


@pytest.mark.mission("CRW-RETRY")
@pytest.mark.parametrize(
    ("url", "domain", "found"),
    [
        ("https://Example.org:8443/a", "", "example.org"),
        ("https://ann:se@cret@example.org?q=//example.net/", "", "example.org"),
        ("http://[::1]:80/", "", "[::1]"),
        ("https://example.org/a", "shop", "shop"),
        ("https://[", "", ""),
        ("example.org/a", "", ""),
        ("", "", ""),
    ],
)
def test_a_job_belongs_to_the_domain_of_its_url(url: str, domain: str, found: str) -> None:
    """Jobs of different sites do not share a limit because nobody named their domains."""
    assert job_in("queued", url=url, domain=domain).of["it"].context["domain"] == found
