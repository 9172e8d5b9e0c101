"""What a crawl or ingestion job knows, and what its events carry."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from headway.lifecycles.crawls.failures import Kind

AMOUNTS = (
    "urls_total",
    "urls_enqueued",
    "urls_processed",
    "documents_emitted",
    "chunks_indexed",
    "tokens_estimated",
)
"""The counters that a worker reports; the seventh is `duration_seconds`."""

HOST = re.compile(r"\s*[a-z][a-z0-9+.-]*://(?:[^/?#]*@)?([^/?#:@\[\]\s]+|\[[^]]+\])", re.IGNORECASE)


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
    defended_at: str | None = None
    eta_seconds: float | None = None
    counted: int = 0
    counting_since: str | None = None
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
        self.domain = self.domain or host_of(self.url)


def host_of(url: str) -> str:
    """The host that a URL names, or nothing: whether a URL is any good is for the worker to say."""
    found = HOST.match(url)
    return found[1].lower() if found else ""


@dataclass
class Claim:
    """The worker that starts an attempt, and whether it resumes where the previous one stopped."""

    worker_id: str
    resumes: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError when the id says nothing."""
        if not self.worker_id.strip():
            raise ValueError("worker_id must not be empty")


@dataclass(kw_only=True)
class Sign:
    """Who reports: the worker, if it is not the sender itself, and the attempt, if it says so."""

    worker_id: str | None = None
    attempt: int | None = None


@dataclass(kw_only=True)
class Beat(Sign):
    """A sign of life; the worker's own time is not kept."""

    t: Any = None


@dataclass(kw_only=True)
class Fault(Sign):
    """An error by class or code, with what the worker knows of it; the rest is known of the job."""

    code: str
    message: str = ""
    domain: str | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        """Raises ValueError when the code says nothing."""
        if not self.code.strip():
            raise ValueError("an error has a class or a code")


@dataclass(kw_only=True)
class Amounts(Sign):
    """What came about since the last report."""

    urls_total: int = 0
    urls_enqueued: int = 0
    urls_processed: int = 0
    documents_emitted: int = 0
    chunks_indexed: int = 0
    tokens_estimated: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError for a negative amount."""
        if min(getattr(self, name) for name in AMOUNTS) < 0:
            raise ValueError("counters only grow")
