"""Interviews and crawls on a node, with handlers as a team would write them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headway import Event
from headway.lifecycles.crawls.chart import CrawlJob
from headway.lifecycles.interviews.chart import Interview
from headway.testing import Harness
from headway.worker import Handlers, Work
from tests.lifecycles.interviewing import ACTORS, REQUEST, event


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
    async def generate_plan(_: Work) -> Event:
        return event("PLAN_READY")

    @handlers
    async def assess(_: Work) -> Event:
        return event("ASSESS")

    return handlers


@pytest.mark.mission("INT-T", "INT-ACT")
def test_agents_take_an_interview_along_and_people_decide() -> None:
    """Between the decisions of people nobody has to send anything; the agents' events end their work."""

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


@pytest.mark.mission("CRW-RETRY", "CRW-CODE", "CRW-COUNT")
def test_a_crawl_is_tried_again_until_its_handler_returns() -> None:
    """What a handler raises is classed by its code, what it returns is counted."""
    handlers = Handlers()
    tried = []

    @handlers
    async def crawl(work: Work) -> dict[str, int]:
        tried.append(work.attempt)
        if len(tried) < 3:
            raise Defended("not for robots")
        return {"documents_emitted": 4}

    async def live() -> Any:
        async with Harness(CrawlJob, handlers=handlers) as life:
            (await life.tenant.create(CrawlJob, "c1", {"domain": "example.org"})).unwrap()
            (await life.tenant.send("c1", CrawlJob.start({"worker_id": "w_1"}))).unwrap()
            await life.advance("60s")
            return await life.tenant.get("c1")

    job = asyncio.run(live())
    assert (job.state, len(tried)) == ("succeeded", 3)
    assert (job.counters["attempts"], job.counters["documents_emitted"]) == (3, 4)
    assert (job.context["session"], job.context["domain_concurrency"]) == (3, 1)
    assert job.context["error_context"] == {
        "domain": "example.org",
        "url": "https://example.org/b",
        "worker_id": None,
        "attempt": 2,
    }
