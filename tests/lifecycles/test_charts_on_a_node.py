"""Interviews and crawls on a node, with handlers as a team would write them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headway import Event, person
from headway.lifecycles.crawls.chart import CrawlJob
from headway.lifecycles.interviews.chart import Interview
from headway.testing import Harness
from headway.worker import Handlers, Work
from tests.lifecycles.interviewing import ACTORS, REQUEST, event
from tests.refusals import answer_to


class Defended(Exception):  # noqa: N818 - a site's answer
    """The site has refused the visitor."""

    code = "E_403_WAF"
    details = {"url": "https://example.org/b"}  # noqa: RUF012 - as a handler's author would write it


def agents() -> Handlers:
    """A system, a planner and an assessor who always know what to say."""
    handlers = Handlers()

    @handlers
    async def validate_request(_: Work) -> None:
        """Nothing to add."""

    @handlers
    async def validate_skills(_: Work) -> Event:
        return event("SKILLS_VALIDATED")

    @handlers
    async def generate_plan(_: Work) -> dict[str, list[str]]:
        return {"plan": ["Which flour?"]}

    @handlers
    async def assess(_: Work) -> Event:
        return event("ASSESS")

    return handlers


@pytest.mark.mission("INT-T", "INT-ACT")
def test_agents_take_an_interview_along_and_people_decide() -> None:
    """Between decisions nobody sends anything: agents end their work by an event, or by a plain result."""

    async def live() -> list[str]:
        async with Harness(Interview, handlers=agents(), queues=("default", "agents")) as life:
            seen = []
            (await life.tenant.create(Interview, "i1", REQUEST)).unwrap()
            for name in ("APPROVE", "SCHEDULE", "START", "COMPLETE", "APPROVE_ASSESSMENT"):
                await life.run_until_idle()
                seen.append((await life.tenant.get("i1")).state)
                (await life.tenant.send("i1", event(name))).unwrap()
            return [*seen, (await life.tenant.get("i1")).state]

    assert asyncio.run(live()) == [
        "PENDING",
        "APPROVED",
        "SCHEDULED",
        "IN_PROGRESS",
        "ASSESSMENT_PENDING",
        "ASSESSMENT_APPROVED",
    ]


@pytest.mark.mission("INT-T")
def test_missing_data_waits_for_an_operator() -> None:
    """What the system's validation finds missing stops the interview until an operator has it."""

    async def live() -> list[str]:
        async with Harness(Interview, handlers=agents(), queues=("default", "agents")) as life:
            (await life.tenant.create(Interview, "i1", {**REQUEST, "skills": []})).unwrap()
            await life.run_until_idle()
            before = (await life.tenant.get("i1")).state
            (await life.tenant.send("i1", Event("COMPLETE_INFO", {"skills": ["x"]}, ACTORS["hitl"]))).unwrap()
            await life.run_until_idle()
            return [before, (await life.tenant.get("i1")).state]

    assert asyncio.run(live()) == ["INFO_NEEDED", "PENDING"]


def crawlers(crawl: Callable[[Work], Awaitable[Any]]) -> Handlers:
    """A worker that takes every job up, and crawls as the test says."""
    handlers = Handlers()

    @handlers
    async def take_job(_: Work) -> None:
        """Nothing to prepare."""

    handlers(crawl)
    return handlers


@pytest.mark.mission("CRW-S", "CRW-RETRY", "CRW-CODE", "CRW-COUNT")
def test_a_crawl_is_tried_again_until_its_handler_returns() -> None:
    """Nobody starts the job: it is taken up; what its handler raises is classed, what it returns counted."""
    tried = []

    async def crawl(work: Work) -> dict[str, int]:
        tried.append((await work.context())["error_context"])
        work.progress(0.5, urls_total=4)
        if len(tried) < 3:
            raise Defended("not for robots")
        return {"documents_emitted": 4}

    async def live() -> tuple[Any, str]:
        async with Harness(CrawlJob, handlers=crawlers(crawl)) as life:
            (await life.tenant.create(CrawlJob, "c1", {"domain": "example.org"})).unwrap()
            await life.advance("60s")
            assert life.node.worker is not None
            return await life.tenant.get("c1"), life.node.worker.id

    job, worker = asyncio.run(live())
    assert (job.state, len(tried)) == ("succeeded", 3)
    assert (job.counters["attempts"], job.counters["documents_emitted"]) == (3, 4)
    assert job.counters["urls_total"] == 4
    assert (job.context["session"], job.context["domain_concurrency"]) == (3, 1)
    assert job.context["worker_id"] == worker
    assert tried[2] == {
        "domain": "example.org",
        "url": "https://example.org/b",
        "worker_id": worker,
        "attempt": 2,
    }


@pytest.mark.mission("CRW-RETRY")
def test_a_crawl_heeds_what_another_has_learned_of_the_domain() -> None:
    """The limit that one job was brought down to is the limit of the next job for the same domain."""

    async def crawl(_: Work) -> None:
        raise Defended("not for robots")

    async def live() -> list[int]:
        async with Harness(CrawlJob, handlers=crawlers(crawl)) as life:
            limits = []
            for name, site in (("c1", "example.org"), ("c2", "example.org"), ("c3", "example.net")):
                (await life.tenant.create(CrawlJob, name, {"url": f"https://{site}/"})).unwrap()
                await life.run_until_idle()
                limits.append((await life.tenant.get(name)).context["domain_concurrency"])
            return limits

    assert asyncio.run(live()) == [2, 1, 2]


@pytest.mark.mission("CRW-RETRY")
@pytest.mark.parametrize("told", [{}, {"domain": "example.org"}, {"kind": "crawl", "domain": "example.org"}])
def test_a_new_crawl_heeds_the_domain_from_its_creation_on(told: dict[str, str]) -> None:
    """What is known of a domain is found also for a job that leaves its kind and domain to the defaults."""

    async def crawl(_: Work) -> None:
        raise Defended("not for robots")

    async def live() -> int:
        async with Harness(CrawlJob, handlers=crawlers(crawl)) as life:
            (await life.tenant.create(CrawlJob, "c1", {"url": "https://example.org/"})).unwrap()
            await life.run_until_idle()
            (await life.tenant.create(CrawlJob, "c2", {"url": "https://example.org/b", **told})).unwrap()
            limit: int = (await life.tenant.get("c2")).context["domain_concurrency"]
            return limit

    assert asyncio.run(live()) == 2


@pytest.mark.mission("CRW-S", "CRW-BEAT")
def test_a_crawl_that_a_worker_from_outside_has_is_left_to_it_until_it_falls_silent() -> None:
    """The node's own worker keeps away while signs of life come, and takes the job up when none do."""

    async def crawl(_: Work) -> None:
        """Nothing to find."""

    async def live() -> list[Any]:
        bot = person("w_1", "worker")
        async with Harness(CrawlJob, handlers=crawlers(crawl)) as life:
            (await life.tenant.create(CrawlJob, "c1", {"wall_clock_seconds": 3600})).unwrap()
            (await life.tenant.send("c1", CrawlJob.start({"worker_id": "w_1"}, by=bot))).unwrap()
            for _ in range(3):
                await life.advance("80s")
                (await life.tenant.send("c1", CrawlJob.heartbeat(by=bot))).unwrap()
            seen = [(await life.tenant.get("c1")).state]
            await life.advance("100s")
            job = await life.tenant.get("c1")
            late = await answer_to(life.tenant.send("c1", CrawlJob.complete(by=bot)))
            return [*seen, job.state, job.counters["attempts"], bool(late)]

    assert asyncio.run(live()) == ["reporting", "succeeded", 2, False]
