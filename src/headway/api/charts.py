"""Charts: what lifecycles there are, how they look, and how many instances stand where."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from fastapi import Path, Request
from starlette.responses import Response

from headway.api.access import readable_by
from headway.api.bodies import ResponseBody
from headway.api.parameters import Here, Who, needs
from headway.api.route import Router
from headway.codec import Meta
from headway.drawing import Drawings
from headway.statechart.chart import Chart
from headway.statechart.drawings.mermaid import mermaid
from headway.statechart.export import to_document
from headway.store.queries import InstanceQuery

PAGE = 500
MOST_COUNTED = 10_000

router = Router(prefix="/v1/charts", tags=["charts"], dependencies=[needs("read")])

Name = Annotated[str, Path(description="The chart's name.", min_length=1, max_length=400)]


class ChartSummary(ResponseBody):
    """A chart in a list."""

    name: str
    version: int
    meaning: str
    states: int
    events: list[str]


class Charts(ResponseBody):
    """All charts, the newest version of each."""

    items: list[ChartSummary]
    next: None = None


class ChartCounts(ResponseBody):
    """How many instances of the caller's tenant stand where."""

    chart: str
    counts: dict[str, int]
    complete: Annotated[bool, Meta(description="False when there are more instances than were counted.")]


@router.get("", operation_id="list_charts")
async def list_charts(node: Here) -> Charts:
    """The charts that are registered, by name: the version that new instances get."""
    newest = {chart.name: chart for chart in node.engine.charts}
    return Charts(items=[summary(chart) for chart in newest.values()])


@router.get("/{name}", operation_id="get_chart")
async def get_chart(name: Name, node: Here) -> dict[str, Any]:
    """The whole chart as a document."""
    return to_document(node.engine.charts.newest(name))


@router.get("/{name}/diagram.mmd", operation_id="draw_chart_as_mermaid", response_class=Response)
async def as_mermaid(name: Name, node: Here) -> Response:
    """The chart as a Mermaid diagram."""
    return Response(mermaid(node.engine.charts.newest(name)), media_type="text/plain; charset=utf-8")


@router.get("/{name}/diagram.svg", operation_id="draw_chart_as_svg", response_class=Response)
async def as_svg(name: Name, node: Here, request: Request) -> Response:
    """The chart as a picture."""
    drawings: Drawings = request.app.state.drawings
    return Response(await drawings.draw(node.engine.charts.newest(name)), media_type="image/svg+xml")


@router.get("/{name}/counts", operation_id="count_instances")
async def count_instances(name: Name, node: Here, caller: Who) -> ChartCounts:
    """How many instances have which status, of those that the caller may read; without any it is 0."""
    chart = node.engine.charts.newest(name)
    counts = Counter({node.id: 0 for node in chart.root.children})
    readable = await readable_by(node.engine, caller)
    after, complete = None, False
    while not complete and counts.total() < MOST_COUNTED:
        query = InstanceQuery(caller.tenant, chart=name, readable=readable, after=after, limit=PAGE)
        rows = await node.engine.list(query)
        counts.update(row.status for row in rows)
        after, complete = (rows[-1].id if rows else None), len(rows) < PAGE
    return ChartCounts(chart=name, counts=dict(counts), complete=complete)


def summary(chart: Chart) -> ChartSummary:
    """A chart as an item of a list."""
    return ChartSummary(
        name=chart.name,
        version=chart.version,
        meaning=chart.model.meaning,
        states=len(chart.nodes),
        events=sorted(chart.spoken),
    )
