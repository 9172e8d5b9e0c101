"""What the tests of the charts step without an engine is the same on a node, down to the last row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headway import Event
from headway.lifecycles.applications.chart import Application, ApplicationCleanup
from headway.lifecycles.crawls.chart import CrawlJob
from headway.lifecycles.interviews.chart import Interview
from headway.testing import journey
from tests.lifecycles import crawling, interviewing, world
from tests.lifecycles.applying import ONWARD, USER, at
from tests.lifecycles.relived import Life, Stage, recorded

PLAIN = "created queued provisioning navigating analyzing filling_page reading_back finding_way uploading"
ENDED = ("completed", "failed", "cancelled")
LIVE = [*PLAIN.split(), "submitting", "verifying", "reviewing", "gate_review", *ONWARD.keys() - {*ENDED}]
"""Where an application can wait."""
ERRORS = (*crawling.TRANSIENT, *crawling.PERMANENT, *crawling.ANTI_BOT)
CHARTS = (Application, ApplicationCleanup, Interview, CrawlJob)


def applications() -> None:
    """Each state, and from each live one an end by the user and one by the clock."""
    for state in sorted(LIVE):
        at(state).send(Application.cancel(by=USER))
        at(state).advance("31m")
    for state in ENDED:
        at(state)


def interviews() -> None:
    """Each state, and from each live one an end."""
    for state in interviewing.LIVE:
        interviewing.standing_in(state).send(Event("CANCEL", by=interviewing.ACTORS["admin"]))
    for state in interviewing.ENDS:
        interviewing.standing_in(state)


def crawls() -> None:
    """Each state, each kind of error under both kinds of workers, and what becomes of it in time."""
    for state in crawling.PATHS:
        crawling.job_in(state).pass_time(crawling.LONG)
    for state in crawling.LIVE:
        crawling.job_in(state).send(CrawlJob.cancel(by=crawling.ANN))
    for how in ("event", "work"):
        for error in ERRORS:
            job = crawling.running(how)
            crawling.fail(job, how, error)
            if job.status() == "retry_pending":
                crawling.wait_for_retry(job, how)
            job.pass_time(crawling.LONG)


def lives(act: Callable[[], None]) -> list[Life]:
    """The lives that a function steps."""
    with recorded(journey, world) as recorder:
        act()
    return recorder.lives


@pytest.mark.mission("ENG-1", "ENG-3", "APP-DUR", "INT-T", "CRW-S")
@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "in batches"])
@pytest.mark.parametrize("act", [applications, interviews, crawls])
async def test_a_life_on_a_node_is_the_life_of_its_chart(
    database: str, act: Callable[[], None], *, at_once: bool
) -> None:
    """Answers, snapshot, history, timers, work, asks, children, messages, records and counters agree.

    So a life that has ended leaves neither timers nor work nor open asks, on both databases.
    """
    stage = Stage(database, *CHARTS, at_once=at_once)
    await stage.node.open()
    try:
        for life in lives(act):
            await stage.live(life)
    finally:
        await stage.node.stop()
