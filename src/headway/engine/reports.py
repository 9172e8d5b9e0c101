"""Reports of children that reach their parent together."""

from __future__ import annotations

from typing import NamedTuple

from headway.statechart.effects import ReportToParent
from headway.statechart.snapshot import Event, children_changed

NEW = "new"


class Gathered(NamedTuple):
    """What the children of one parent have reported so far: how many more or fewer are in each status.

    `reports` is how often, `trace` that of the call whose report was the first.
    """

    counts: dict[str, int]
    errors: int = 0
    reports: int = 0
    trace: str | None = None

    def plus(self, report: ReportToParent) -> Gathered:
        """With one report more."""
        counts = dict(self.counts)
        leaving, coming = report.before or NEW, report.after
        counts[leaving] = counts.get(leaving, 0) - 1
        if coming is not None:
            counts[coming] = counts.get(coming, 0) + 1
        return Gathered(counts, self.errors + report.errors, self.reports + 1, self.trace)

    def event(self) -> Event | None:
        """All of it as one event; None when nothing has changed in the end."""
        counts = {status: by for status, by in self.counts.items() if by}
        return children_changed(counts, self.errors) if counts or self.errors else None
