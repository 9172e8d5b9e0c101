"""What an upgrade needs to know first: the versions of a chart, its living instances, and their histories."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Sequence

from headway.codec import decode
from headway.engine.engine import Engine
from headway.errors import ChartChangedError
from headway.statechart.chart import Chart, named_functions
from headway.statechart.export import chart_hash
from headway.statechart.model import Model
from headway.store.port import Store
from headway.store.rows import ChartRow, HistoryRow, InstanceRow, Key

PAGE = 200
LINES = 200


async def prepared(engine: Engine, name: str, to: int) -> Chart:
    """The version to upgrade to; the older ones that are stored are known from then on.

    Raises UnknownChartError when it is not registered, ChartChangedError when it is stored otherwise.
    """
    new = engine.charts.chart(name, to)
    for row in await engine.store.charts():
        if row.chart != name:
            continue
        if row.version == to and row.hash != chart_hash(new.model):
            raise ChartChangedError(
                f"{name} v{to} is stored with other contents, by which instances may live:"
                " give it a new version"
            )
        engine.charts.remember(stored_chart(row, new))
    return new


def stored_chart(row: ChartRow, like: Chart | None = None) -> Chart:
    """A version as it was stored, with the functions and types that a later one still has by their names."""
    whole = decode(Model, row.document)
    if like is None:
        return Chart(whole)
    wanted = named_functions(whole)
    functions = {name: call for name, call in like.functions.items() if name in wanted}
    return Chart(whole, functions, like.types)


async def pages(store: Store, chart: str) -> AsyncIterator[Sequence[InstanceRow]]:
    """The living instances of a chart, of all tenants, page by page."""
    after: Key = ("", "")
    while page := await store.living(chart, after, PAGE):
        yield page
        after = (page[-1].tenant, page[-1].id)


async def lines_of(store: Store, key: Key) -> AsyncIterator[HistoryRow]:
    """The history of an instance, from the first line on."""
    after = 0
    while True:
        page = await store.history(key, after, LINES)
        for line in page:
            yield line
        if len(page) < LINES:
            return
        after = page[-1].position


def who_acted(names: Collection[str], lines: Iterable[HistoryRow]) -> dict[str, tuple[str, ...]]:
    """Who did what, by the history."""
    acted: dict[str, tuple[str, ...]] = {}
    for line in lines if names else ():
        for name in {line.event, *line.transition.split(", ")}.intersection(names):
            acted[name] = tuple(dict.fromkeys((*acted.get(name, ()), line.actor)))
    return acted
