"""The conditions and actions that the chart of a crawl or ingestion job names."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from zlib import crc32

from headway import No, View
from headway.actions import count, put, record
from headway.clock import time_text
from headway.lifecycles.crawls.failures import MOST_ATTEMPTS, POLICIES, Kind, classed
from headway.lifecycles.crawls.record import AMOUNTS, CrawlData
from headway.statechart import delay, model

BEAT = 10
"""Seconds between two heartbeats of a worker."""

SILENCE = 90
"""Seconds without a heartbeat after which a worker is lost."""

REMEMBERED = timedelta(hours=1)
"""How long after the last sign of bot defence a domain keeps its lower limit."""

USUAL: int = CrawlData.domain_concurrency
"""How many jobs run at once for a domain without a stored limit."""

DOMAIN = model.Fact(
    name="defended",
    kind="record",
    key="crawl_domain:{kind}:{domain}",
    meaning="how many jobs the domain bears at once, since it has defended itself",
)
KEPT = record("crawl_domain", "{kind}:{domain}", "domain_concurrency", "defended_at")


def has_the_job(view: View) -> bool | No:
    """It comes from the worker that has this attempt."""
    job, said, attempt = view.context, _said(view), view.counters["attempts"]
    if view.in_state("working"):
        # The engine lets an event that names its work through only while that attempt lasts.
        named = view.event.ref is not None or view.event.name.startswith("error.work.")
        return named or No("a worker of the engine has it, and speaks by its work")
    sender = said.get("worker_id") or view.actor.id
    if sender != job.worker_id:
        return No(f"{job.worker_id} has attempt {attempt}, not {sender}")
    return said.get("attempt") in {None, attempt} or No(f"attempt {said['attempt']} is over, it is {attempt}")


def is_permanent(view: View) -> bool | No:
    """The error is of a class that no retry mends."""
    return _reported(view)[0] == "permanent" or No("the error may pass")


def is_last_attempt(view: View) -> bool | No:
    """All attempts are used up."""
    return view.counters["attempts"] >= MOST_ATTEMPTS or No("there are attempts left")


def is_anti_bot(view: View) -> bool | No:
    """The site has recognised an automated visitor."""
    return _reported(view)[0] == "anti_bot" or No("no sign of bot defence")


def has_counted(view: View) -> bool:
    """The work has counted something since the last estimate."""
    return bool(_counted(view) != view.context.counted)


def note_start(view: View) -> dict[str, Any]:
    """Keep which worker has the attempt, and when the first one began."""
    worker = _said(view).get("worker_id") if view.event.name == "start" else view.actor.id
    return {"worker_id": worker, "started_at": view.context.started_at or time_text(view.now)}


def begin_counting(view: View) -> list[model.Action]:
    """Count from zero, unless the attempt resumes where an earlier one stopped."""
    if _said(view).get("resumes") is True and view.context.counting_since:
        return []
    back = [count(name, -view.counters[name]) for name in AMOUNTS if view.counters[name]]
    return [*back, put(counted=0, counting_since=time_text(view.now))]


def note_error(view: View) -> dict[str, Any]:
    """Keep code and message, and where it happened: domain, URL, attempt, worker."""
    kind, code = _reported(view)
    return {"retry_as": kind, **_failure(view, code, str(_said(view).get("message", "")))}


def note_wall_clock(view: View) -> dict[str, Any]:
    """The job has used up its time."""
    return _failure(view, "E_TIMEOUT", f"not done within {view.context.wall_clock_seconds:g} s")


def count_amounts(view: View) -> list[model.Action]:
    """Add what is reported to the job's counters."""
    said = _said(view)
    amounts = {name: said.get(name) for name in AMOUNTS}
    return [count(name, amount) for name, amount in amounts.items() if type(amount) is int and amount >= 0]


def count_duration(view: View) -> list[model.Action]:
    """Count the seconds since the job was first started."""
    return [count("duration_seconds", round(_elapsed(view, view.context.started_at)))]


def estimate(view: View) -> dict[str, Any]:
    """How long the rest takes at the speed so far."""
    done, total = view.counters["urls_processed"], view.counters["urls_total"]
    taken = _elapsed(view, view.context.counting_since)
    seconds = round(taken / done * max(0, total - done), 1) if done > 0 else None
    return {"eta_seconds": seconds, "counted": _counted(view)}


def heed_domain(view: View) -> dict[str, Any]:
    """Lower the job's concurrency to the stored limit of its domain."""
    return {"domain_concurrency": _limit(view)}


def slow_down(view: View) -> list[model.Action]:
    """Slow start, a fresh session, and half as many jobs at once, by this job's limit and by its domain's."""
    job = view.context
    # A job that is content with less than others says nothing of what the domain bears.
    bears = _half(_known(view) or USUAL)
    signs = put(slow_start=True, session=job.session + 1, defended_at=time_text(view.now))
    kept: list[model.Action] = [put(domain_concurrency=bears), KEPT] if job.domain else []
    return [signs, *kept, put(domain_concurrency=min(bears, _half(_limit(view))))]


def backoff(view: View) -> timedelta:
    """The wait before the next attempt, by the class of the error."""
    attempts = view.counters["attempts"]
    seed = crc32(f"{view.instance}:{attempts}".encode())
    return timedelta(milliseconds=delay(POLICIES[view.context.retry_as], attempts, seed))


def wall_clock_limit(view: View) -> float:
    """How many seconds a job may take in all."""
    return float(view.context.wall_clock_seconds)


def _said(view: View) -> Mapping[str, Any]:
    """What an event reports; a worker's silence says that it is lost."""
    data = view.event.data
    if view.event.name == "after.reporting.silent":
        return {"code": "timeout_soft", "message": f"no sign of life for {SILENCE} s"}
    return data if isinstance(data, Mapping) else {}


def _reported(view: View) -> tuple[Kind, str]:
    return classed(str(_said(view).get("code", "")))


def _failure(view: View, code: str, message: str) -> dict[str, Any]:
    job, said = view.context, _said(view)
    # Another worker of the engine may work than the one that took the attempt up: it says so itself.
    works = "working" in view.before and view.actor.kind == "service"
    known = {"domain": job.domain, "url": job.url, "worker_id": view.actor.id if works else job.worker_id}
    place = {key: said.get(key) or value for key, value in known.items()}
    context = {**place, "attempt": view.counters["attempts"]}
    return {"error_code": code, "message": message, "error_context": context}


def _counted(view: View) -> int:
    return sum(view.counters[name] for name in AMOUNTS)


def _elapsed(view: View, since: str | None) -> float:
    return (view.now - datetime.fromisoformat(since)).total_seconds() if since else 0.0


def _half(limit: int) -> int:
    return max(1, limit // 2)


def _limit(view: View) -> int:
    """The job's own limit, or the domain's, if that is lower."""
    own: int = view.context.domain_concurrency
    return min(own, _known(view) or own)


def _known(view: View) -> int | None:
    """What the domain bears, unless that is not known or too old."""
    known = view.facts.get(DOMAIN.name)
    if not known or view.now - datetime.fromisoformat(known["defended_at"]) >= REMEMBERED:
        return None
    lowered: int = known["domain_concurrency"]
    return lowered
