"""Crawl and ingestion jobs: what becomes of each error, by its class and by its code."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headway.lifecycles.crawls import failures
from headway.lifecycles.crawls.chart import CrawlJob
from headway.statechart.effects import StartWork
from headway.statechart.model import Retry
from tests.lifecycles.crawling import (
    ANTI_BOT,
    BOT,
    CODES,
    LONG,
    PERMANENT,
    TRANSIENT,
    begin,
    fail,
    job_in,
    running,
    wait_for_retry,
)
from tests.lifecycles.lifecycle_page import table_of
from tests.lifecycles.world import World

PAGE = "crawls.md"
MAY_PASS = [*TRANSIENT, *ANTI_BOT, *(code for code, state in CODES.items() if state == "retry_pending")]
NEVER_PASSES = [*PERMANENT, *(code for code, state in CODES.items() if state == "failed")]


@pytest.mark.mission("CRW-RETRY", "CRW-CODE")
def test_classes_and_codes_are_those_of_the_document() -> None:
    """Six transient classes, five permanent ones, three signs of bot defence, eleven codes; no others."""
    tables = (failures.TRANSIENT, failures.PERMANENT, failures.ANTI_BOT)
    assert tables == (TRANSIENT, PERMANENT, ANTI_BOT)
    assert [len(table) for table in (*tables, CODES)] == [6, 5, 3, 11]
    assert set(failures.CODES) == set(CODES)


@pytest.mark.mission("CRW-RETRY")
@pytest.mark.parametrize("error", MAY_PASS)
@pytest.mark.parametrize("how", ["event", "work"])
def test_what_may_pass_is_tried_seven_times(error: str, how: str) -> None:
    """Six retries, reported by an event or by the work itself; the seventh failure is the last."""
    world = running(how, wall_clock_seconds=LONG)
    for attempt in range(1, 7):
        assert world.of["it"].counters["attempts"] == attempt
        fail(world, how, error)
        assert world.status() == "retry_pending"
        wait_for_retry(world, how)
    fail(world, how, error)
    assert world.status() == "failed"
    assert world.of["it"].context["error_context"]["attempt"] == 7


@pytest.mark.mission("CRW-RETRY")
def test_attempts_are_counted_over_all_classes() -> None:
    """Seven attempts are seven, whatever ended each of them and whichever worker had it."""
    world = running("work", wall_clock_seconds=LONG)
    errors = ("network_error", "captcha", "E_GPU_OOM", "rate_limited", "503_shield", "timeout_soft")
    for how, error in zip(("work", "event") * 3, errors, strict=True):
        fail(world, how, error)
        wait_for_retry(world, "event" if how == "work" else "work")
    fail(world, "work", "browser_crash")
    assert world.status() == "failed"


@pytest.mark.mission("CRW-RETRY")
@pytest.mark.parametrize("error", [*NEVER_PASSES, "something_new"])
@pytest.mark.parametrize("how", ["event", "work"])
def test_what_no_retry_mends_fails_at_once(error: str, how: str) -> None:
    """A permanent class or code, and one nobody knows, ends the job at the first failure."""
    world = running(how)
    fail(world, how, error)
    assert (world.status(), world.of["it"].counters["attempts"]) == ("failed", 1)


@pytest.mark.mission("CRW-RETRY")
@pytest.mark.parametrize(
    ("error", "cap", "waits"),
    [("rate_limited", 60, (2, 4, 8, 16, 32, 60)), ("captcha", 600, (10, 20, 40, 80, 160, 320))],
)
def test_the_wait_doubles_up_to_a_cap_with_jitter(error: str, cap: int, waits: tuple[int, ...]) -> None:
    """Transient errors wait 2 s doubling up to a minute; bot defence starts slower and has the higher cap."""
    assert failures.POLICIES[failures.classed(error)[0]].cap == cap * 1_000
    world = running("event", wall_clock_seconds=LONG)
    spread = set()
    for exact in waits:
        fail(world, "event", error)
        waited = wait_for_retry(world)
        assert exact * 0.75 <= waited <= exact * 1.25
        spread.add(round(waited / exact, 3))
    assert len(spread) > 3


@pytest.mark.mission("CRW-RETRY")
def test_two_jobs_do_not_come_back_at_the_same_time() -> None:
    """Jitter is another one for each job, and the same when the step is repeated."""
    dues: dict[str, set[timedelta]] = {"one": set(), "two": set()}
    for name, found in dues.items():
        for _ in range(2):
            world = World(CrawlJob)
            world.create(CrawlJob, name)
            begin(world, "event", name)
            fail(world, "event", "network_error", to=name)
            found.update(
                timer.due - world.now
                for timer in world.of[name].timers.values()
                if timer.event.endswith(".retry")
            )
    assert len(dues["one"]) == len(dues["two"]) == 1
    assert dues["one"] != dues["two"]


@pytest.mark.mission("CRW-RETRY")
@pytest.mark.parametrize("error", [*ANTI_BOT, "E_403_WAF"])
def test_bot_defence_makes_the_job_careful(error: str) -> None:
    """Each signal brings slow start, a fresh session and less at once for the domain, never less than one."""
    world = running("work", wall_clock_seconds=LONG)
    seen = []
    for _ in range(3):
        fail(world, "work", error)
        wait_for_retry(world, "work")
        job = world.of["it"].context
        seen.append((job["slow_start"], job["session"], job["domain_concurrency"]))
    assert seen == [(True, 2, 2), (True, 3, 1), (True, 4, 1)]
    for handler in ("take_job", "crawl"):
        limits = [
            (work.concurrency, work.at_once) for work in world.found(StartWork) if work.handler == handler
        ]
        assert limits == [("crawl:example.org", most) for most in (4, 2, 1, 1)]


@pytest.mark.mission("CRW-RETRY")
@pytest.mark.parametrize("error", TRANSIENT)
def test_a_plain_error_makes_nothing_slower(error: str) -> None:
    """A transient error leaves session, start and the domain's limit as they are."""
    world = running("work", kind="ingest")
    fail(world, "work", error)
    wait_for_retry(world, "work")
    job = world.of["it"].context
    assert (job["slow_start"], job["session"], job["domain_concurrency"]) == (False, 1, 4)
    limits = [(work.concurrency, work.at_once) for work in world.found(StartWork)]
    assert limits == [("ingest:example.org", 4)] * 4


@pytest.mark.mission("CRW-CODE")
@pytest.mark.parametrize(
    ("error", "code"),
    [*TRANSIENT.items(), *PERMANENT.items(), *ANTI_BOT.items(), *((code, code) for code in CODES)],
)
@pytest.mark.parametrize(("how", "worker"), [("event", "w_1"), ("work", "node-1")])
def test_an_error_is_recorded_with_code_and_context(error: str, code: str, how: str, worker: str) -> None:
    """Whether a worker reports class or code, the code is kept with message, place, attempt and worker."""
    world = running(how)
    fail(world, how, error, "it broke")
    job = world.of["it"].context
    assert (job["error_code"], job["message"]) == (code, "it broke")
    assert job["error_context"] == {
        "domain": "example.org",
        "url": "https://example.org/a",
        "attempt": 1,
        "worker_id": worker,
    }


@pytest.mark.mission("CRW-CODE")
@pytest.mark.parametrize("code", CODES)
def test_a_worker_says_where_it_happened(code: str) -> None:
    """Each code leads where it must, and what the worker knows goes before what is known of the job."""
    world = job_in("running")
    place: dict[str, Any] = {"domain": "example.net", "url": "https://example.net/b", "worker_id": "w_1"}
    world.send(CrawlJob.error({"code": code, "message": "no", **place}, by=BOT))
    assert world.status() == CODES[code]
    assert world.of["it"].context["error_context"] == {**place, "attempt": 1}


@pytest.mark.mission("CRW-CODE")
def test_an_error_nobody_knows_is_recorded_as_it_is() -> None:
    """A code outside the list is kept, so that it can be found and added."""
    world = running("work")
    fail(world, "work", "something_new")
    assert world.of["it"].context["error_code"] == "something_new"


@pytest.mark.mission("CRW-RETRY", "CRW-CODE")
def test_the_page_tells_what_follows_from_each_class() -> None:
    """The page's tables of classes and of waits are those of the chart."""
    kinds: dict[str, dict[str, str]] = {"transient": TRANSIENT, "permanent": PERMANENT, "anti_bot": ANTI_BOT}
    listed = [(name, kind, code) for kind, table in kinds.items() for name, code in table.items()]
    assert table_of(PAGE, "Class") == listed
    assert table_of(PAGE, "Kind") == [waits(kind, policy) for kind, policy in failures.POLICIES.items()]


def waits(kind: str, policy: Retry) -> tuple[str, ...]:
    """A line of the page's table of waits."""
    if policy.times == 0:
        return (kind, "1", "", "", "", "")
    assert policy.times is not None
    assert policy.cap is not None
    first, most = policy.base // 1_000, policy.cap // 1_000
    return (
        kind,
        str(policy.times + 1),
        f"{first} s",
        f"× {policy.factor:g}",
        f"{most} s",
        f"± {policy.jitter:.0%}".replace("%", " %"),
    )
