"""What jobs know together of a domain: how many of them it bears at once after it has defended itself."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from headway import View
from headway.actions import put, record
from headway.statechart import model

REMEMBERED = timedelta(hours=1)
"""For so long after the last sign of bot defence the jobs of a domain heed it."""

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
    """Slow start, a fresh session, and half as many jobs of the domain at once."""
    job = view.context
    lowered = put(
        slow_start=True,
        session=job.session + 1,
        domain_concurrency=max(1, _limit(view) // 2),
        defended_at=view.now.isoformat(),
    )
    return [lowered, KEPT] if job.domain else [lowered]


def _limit(view: View) -> int:
    """The job's own limit, or the domain's, if that is lower and not too old."""
    own: int = view.context.domain_concurrency
    known = view.facts.get(DOMAIN.name)
    if not known or view.now - datetime.fromisoformat(known["defended_at"]) >= REMEMBERED:
        return own
    lowered: int = known["domain_concurrency"]
    return min(own, lowered)
