"""What a crawl or ingestion job knows, and the conditions and actions its chart names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal
from zlib import crc32

from headway import No, View
from headway.lifecycles.crawls.faults import MOST_ATTEMPTS, POLICIES, Kind, classed
from headway.statechart import model
from headway.statechart.retry import delay


@dataclass
class CrawlData:
    """A job; its seven counters and its attempts are counted by the engine."""

    kind: Literal["crawl", "ingest"] = "crawl"
    url: str = ""
    domain: str = ""
    wall_clock_seconds: float = 300
    worker_id: str | None = None
    session: int = 1
    slow_start: bool = False
    domain_concurrency: int = 4
    eta_seconds: float | None = None
    retry_as: Kind = "transient"
    error_code: str | None = None
    message: str | None = None
    error_context: dict[str, Any] = field(default_factory=dict)
    accepted_at: str | None = None
    started_at: str | None = None
    updated_at: str | None = None
    canceled_at: str | None = None
    ended_at: str | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for limits under which no job could run."""
        if self.wall_clock_seconds <= 0 or self.domain_concurrency < 1:
            raise ValueError("wall_clock_seconds is more than 0, domain_concurrency at least 1")


@dataclass
class Claim:
    """The worker that starts a job."""

    worker_id: str


@dataclass
class Fault:
    """An error by class or code, with what the worker knows of it; the rest is known of the job."""

    code: str
    message: str = ""
    domain: str | None = None
    url: str | None = None
    worker_id: str | None = None

    def __post_init__(self) -> None:
        """Raises ValueError when the code says nothing."""
        if not self.code.strip():
            raise ValueError("an error has a class or a code")


@dataclass
class Amounts:
    """What came about since the last report."""

    urls_total: int = 0
    urls_enqueued: int = 0
    urls_processed: int = 0
    documents_emitted: int = 0
    chunks_indexed: int = 0
    tokens_estimated: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError for an amount that would take back what was reported."""
        if min(asdict(self).values()) < 0:
            raise ValueError("counters only grow")


def is_unclaimed(view: View) -> bool | No:
    """No worker has this attempt yet."""
    worker = view.context.worker_id
    return worker is None or No(f"{worker} has it")


def is_permanent(view: View) -> bool | No:
    """The error is of a class that no retry mends."""
    return _reported(view)[0] == "permanent" or No("the error may pass")


def is_last_attempt(view: View) -> bool | No:
    """All attempts are used up."""
    return view.counters["attempts"] >= MOST_ATTEMPTS or No("there are attempts left")


def is_anti_bot(view: View) -> bool | No:
    """The site has recognised an automated visitor."""
    return _reported(view)[0] == "anti_bot" or No("no sign of bot defence")


def note_worker(view: View) -> dict[str, Any]:
    """Keep which worker has the job."""
    return {"worker_id": view.payload.worker_id}


def note_error(view: View) -> dict[str, Any]:
    """Keep code and message, and where it happened: domain, URL, attempt, worker."""
    kind, code = _reported(view)
    return {"retry_as": kind, **_failure(view, code, str(_said(view).get("message", "")))}


def note_wall_clock(view: View) -> dict[str, Any]:
    """The job has used up its time."""
    return _failure(view, "E_TIMEOUT", f"not done within {view.context.wall_clock_seconds:g} s")


def slow_down(view: View) -> dict[str, Any]:
    """Slow start, a fresh session, and half as many requests to the domain at once."""
    job = view.context
    halved = max(1, job.domain_concurrency // 2)
    return {"slow_start": True, "session": job.session + 1, "domain_concurrency": halved}


def count_amounts(view: View) -> list[model.Action]:
    """Add what is reported to the job's counters."""
    known = asdict(Amounts())
    return [
        model.Count(name=name, by=amount)
        for name, amount in _amounts(view).items()
        if name in known and type(amount) is int and amount >= 0
    ]


def count_duration(view: View) -> list[model.Action]:
    """Count the seconds since the job was first started."""
    return [model.Count(name="duration_seconds", by=round(_elapsed(view)))]


def estimate(view: View) -> dict[str, Any]:
    """How long the rest takes at the speed so far."""
    done, total = view.counters["urls_processed"], view.counters["urls_total"]
    seconds = round(_elapsed(view) / done * max(0, total - done), 1) if done else None
    return {"eta_seconds": seconds}


def backoff(view: View) -> timedelta:
    """The wait before the next attempt, by the class of the error."""
    attempts = view.counters["attempts"]
    seed = crc32(f"{view.instance}:{attempts}".encode())
    return timedelta(milliseconds=delay(POLICIES[view.context.retry_as], attempts, seed))


def wall_clock_limit(view: View) -> float:
    """How many seconds a job may take in all."""
    return float(view.context.wall_clock_seconds)


def _said(view: View) -> Mapping[str, Any]:
    data = view.event.data
    return data if isinstance(data, Mapping) else {}


def _reported(view: View) -> tuple[Kind, str]:
    return classed(str(_said(view).get("code", "")))


def _failure(view: View, code: str, message: str) -> dict[str, Any]:
    job = view.context
    place = {key: _said(view).get(key) or getattr(job, key) for key in ("domain", "url", "worker_id")}
    context = {**place, "attempt": view.counters["attempts"]}
    return {"error_code": code, "message": message, "error_context": context}


def _amounts(view: View) -> Mapping[str, Any]:
    return asdict(view.payload) if isinstance(view.payload, Amounts) else _said(view)


def _elapsed(view: View) -> float:
    started = view.context.started_at
    return (view.now - datetime.fromisoformat(started)).total_seconds() if started else 0.0
