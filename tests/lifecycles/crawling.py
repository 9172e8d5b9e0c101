"""The tables of the crawl's document, and jobs that were taken along them."""

from __future__ import annotations

from typing import Any

from headway.lifecycles.crawls.chart import CrawlJob
from headway.statechart.snapshot import Actor, Event, person, work_done, work_failed
from tests.lifecycles.world import World

BOT = person("w_1", "worker")
ENGINE = Actor("node-1", "service", frozenset({"system"}))
ANN = person("ann", "user")
START = CrawlJob.start({"worker_id": "w_1"}, by=BOT)
LONG = 86_400.0

# Each class of errors, and the code under which it is recorded.
TRANSIENT = {
    "network_error": "E_5XX_ORIGIN",
    "rate_limited": "E_429_RATE",
    "browser_crash": "E_BROWSER",
    "timeout_soft": "E_TIMEOUT",
    "qdrant_unavailable": "E_QDRANT",
    "neo4j_write_lock": "E_NEO4J",
}
PERMANENT = {
    "invalid_url": "E_URL_BAD",
    "robots_disallowed": "E_ROBOTS",
    "parse_error_strict": "E_PARSE",
    "unsupported_mime": "E_PARSE",
    "bad_request": "E_URL_BAD",
}
ANTI_BOT = {"captcha": "E_403_WAF", "403_waf": "E_403_WAF", "503_shield": "E_403_WAF"}
# Each code, and where a job goes whose worker reports it.
CODES = {
    "E_URL_BAD": "failed",
    "E_ROBOTS": "failed",
    "E_403_WAF": "retry_pending",
    "E_429_RATE": "retry_pending",
    "E_5XX_ORIGIN": "retry_pending",
    "E_PARSE": "failed",
    "E_TIMEOUT": "retry_pending",
    "E_BROWSER": "retry_pending",
    "E_QDRANT": "retry_pending",
    "E_NEO4J": "retry_pending",
    "E_GPU_OOM": "retry_pending",
}

LIVE = ("queued", "running", "retry_pending")
FINAL = ("succeeded", "failed", "canceled")
PATHS: dict[str, list[Event]] = {
    "queued": [],
    "running": [START],
    "retry_pending": [START, CrawlJob.error({"code": "network_error"}, by=BOT)],
    "succeeded": [START, CrawlJob.complete({"documents_emitted": 2}, by=BOT)],
    "failed": [START, CrawlJob.error({"code": "invalid_url"}, by=BOT)],
    "canceled": [CrawlJob.cancel(by=ANN)],
}
# The six events that are sent to a job (the seventh, `accept`, creates it), each by one who may.
EVENTS = {
    "start": START,
    "heartbeat": CrawlJob.heartbeat(by=BOT),
    "progress": CrawlJob.progress({"urls_processed": 1}, by=BOT),
    "complete": CrawlJob.complete({"documents_emitted": 2}, by=BOT),
    "error": CrawlJob.error({"code": "network_error"}, by=BOT),
    "cancel": CrawlJob.cancel(by=ANN),
}
# Where each event leads from each state that takes it.
ALLOWED = {
    ("queued", "start"): "running",
    ("running", "heartbeat"): "running",
    ("running", "progress"): "running",
    ("running", "complete"): "succeeded",
    ("running", "error"): "retry_pending",
    ("queued", "cancel"): "canceled",
    ("running", "cancel"): "canceled",
    ("retry_pending", "cancel"): "canceled",
}
# Why each other pair is refused: all of them are here.
REFUSED = {
    ("running", "start"): "already",
    ("retry_pending", "start"): "illegal",
    ("queued", "heartbeat"): "illegal",
    ("retry_pending", "heartbeat"): "illegal",
    ("queued", "progress"): "illegal",
    ("retry_pending", "progress"): "illegal",
    ("queued", "complete"): "illegal",
    ("retry_pending", "complete"): "illegal",
    ("queued", "error"): "illegal",
    ("retry_pending", "error"): "already",
    ("succeeded", "complete"): "already",
    ("failed", "error"): "already",
    ("canceled", "cancel"): "already",
    **{(state, name): "terminal" for state in FINAL for name in ("start", "heartbeat", "progress")},
    **{(state, "complete"): "terminal" for state in ("failed", "canceled")},
    **{(state, "error"): "terminal" for state in ("succeeded", "canceled")},
    **{(state, "cancel"): "terminal" for state in ("succeeded", "failed")},
}


def job_in(state: str, **context: Any) -> World:
    """A job that has come to a state by its events, with a worker from outside."""
    world = World(CrawlJob)
    world.create(CrawlJob, **{"url": "https://example.org/a", "domain": "example.org", **context})
    for event in PATHS[state]:
        world.send(event)
    assert world.status() == state
    return world


def running(how: str, **context: Any) -> World:
    """A running job: of a worker from outside ("event"), or of one of the engine ("work")."""
    world = job_in("queued", **context)
    begin(world, how)
    return world


def begin(world: World, how: str, to: str = "it", **said: Any) -> None:
    """A worker begins an attempt."""
    if how == "event":
        world.send(CrawlJob.start({"worker_id": "w_1", **said}, by=BOT), to)
    else:
        (work,) = world.of[to].work.values()
        world.send(work_done(work.id, work.attempt, said, by=ENGINE), to)
    assert world.status(to) == "running"


def fail(world: World, how: str, error: str, message: str = "", *, to: str = "it") -> None:
    """The worker that has the job tells of an error: by the event, or as the failure of its work."""
    if how == "event":
        world.send(CrawlJob.error({"code": error, "message": message}, by=BOT), to)
    else:
        (work,) = world.of[to].work.values()
        world.send(work_failed(work.id, work.attempt, error, message, by=ENGINE), to)


def back_off(world: World) -> float:
    """Let time pass until the next attempt is due; the seconds that took."""
    (due,) = [timer.due for timer in world.of["it"].timers.values() if timer.event.endswith(".retry")]
    seconds: float = (due - world.now).total_seconds()
    world.pass_time(seconds)
    assert (world.status(), world.of["it"].state) == ("retry_pending", "retry_due")
    return seconds


def wait_for_retry(world: World, how: str = "event", **said: Any) -> float:
    """Let time pass until the next attempt, which a worker begins at once; the seconds that took."""
    seconds = back_off(world)
    begin(world, how, **said)
    return seconds
