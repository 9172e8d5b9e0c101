"""The charts an explorer shows, each under a name that fits into an address."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool

from headway.cli.explorer.view import first_context, roles
from headway.cli.lifecycles import NamedChart
from headway.cli.presentation import promises
from headway.codec import to_data
from headway.drawing import Drawings
from headway.errors import HeadwayError
from headway.statechart.chart import Chart
from headway.statechart.check.check import check


class ChartNotFoundError(HeadwayError):
    """No chart of this explorer has that name."""


class Shown(NamedTuple):
    """A chart, the name it was asked for, and its name in an address."""

    slug: str
    name: str
    chart: Chart


class ShownCharts:
    """The charts by slug, with the drawings and reports made of them so far."""

    def __init__(self, found: Iterable[NamedChart]) -> None:
        self.by_slug: dict[str, Shown] = {}
        for name, chart in found:
            slug = self._free(re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-") or "chart")
            self.by_slug[slug] = Shown(slug, name, chart)
        self._drawings = Drawings()
        self._reports: dict[str, Any] = {}

    def get(self, slug: str) -> Shown:
        """The chart of a slug; raises ChartNotFoundError."""
        shown = self.by_slug.get(slug)
        if shown is None:
            raise ChartNotFoundError(f"there is no chart {slug!r} here")
        return shown

    async def drawing(self, slug: str, highlight: frozenset[str]) -> bytes:
        """The chart as SVG with states highlighted; raises GraphvizMissingError."""
        chart = self.get(slug).chart
        return await self._drawings.draw(chart, highlight=highlight.intersection(chart.nodes))

    async def report(self, slug: str) -> Any:
        """What the checker finds, as plain data; looked for once, beside other requests."""
        if slug not in self._reports:
            chart = self.get(slug).chart
            report = await run_in_threadpool(check, chart)
            invariants = to_data(promises(chart, report))
            self._reports[slug] = to_data(report) | {"ok": report.ok, "invariants": invariants}
        return self._reports[slug]

    def _free(self, slug: str) -> str:
        taken = (f"{slug}-{number}" for number in range(2, len(self.by_slug) + 3))
        return slug if slug not in self.by_slug else next(name for name in taken if name not in self.by_slug)


def summary(shown: Shown) -> dict[str, Any]:
    """A line of the list of charts."""
    whole = shown.chart.model
    return {
        "slug": shown.slug,
        "name": shown.name,
        "version": whole.version,
        "meaning": first_line(whole.meaning),
        "states": len(whole.states),
        "transitions": len(whole.transitions),
    }


def details(shown: Shown) -> dict[str, Any]:
    """What the page needs to know of a chart before it starts an instance."""
    whole = shown.chart.model
    return summary(shown) | {
        "roles": roles(shown.chart),
        "context": first_context(shown.chart),
        "context_type": whole.context,
        "facts": [{"name": fact.name, "meaning": fact.meaning} for fact in whole.facts],
        "unbound": list(shown.chart.unbound),
    }


def first_line(text: str) -> str:
    """The first line of a text."""
    return text.strip().partition("\n")[0].strip()
