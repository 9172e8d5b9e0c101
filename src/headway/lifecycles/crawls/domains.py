"""What jobs know together of a domain: how many of them it bears at once after it has defended itself."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from headway import View
from headway.actions import put, record
from headway.clock import time_text
from headway.lifecycles.crawls.record import CrawlData
from headway.statechart import model

REMEMBERED = timedelta(hours=1)
"""For so long after the last sign of bot defence the jobs of a domain heed it."""

USUAL: int = CrawlData.domain_concurrency
"""How many jobs of a domain run at once of which nothing is known."""

DOMAIN = model.Fact(
    name="defended",
    kind="record",
    key="crawl_domain:{kind}:{domain}",
    meaning="how many jobs the domain bears at once, since it has defended itself",
)
KEPT = record("crawl_domain", "{kind}:{domain}", "domain_concurrency", "defended_at")


def heed_domain(view: View) -> dict[str, Any]:
    """No more at once than the domain has borne lately."""
    return {"domain_concurrency": _limit(view)}


def slow_down(view: View) -> list[model.Action]:
    """Slow start, a fresh session, and half as many jobs at once, by this job's limit and by its domain's."""
    job = view.context
    # A job that is content with less than others says nothing of what the domain bears.
    bears = _half(_known(view) or USUAL)
    signs = put(slow_start=True, session=job.session + 1, defended_at=time_text(view.now))
    kept: list[model.Action] = [put(domain_concurrency=bears), KEPT] if job.domain else []
    return [signs, *kept, put(domain_concurrency=min(bears, _half(_limit(view))))]


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
