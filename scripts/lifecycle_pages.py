"""Puts the charts as they are, drawn and as tables, into the pages about lifecycles.

What stands between ``<!-- chart: NAME -->`` and ``<!-- /chart -->`` is replaced. A drawing ends with the hash
of what it shows, so that one of an older chart is found also on a machine that draws differently.
"""

import asyncio
import re
from hashlib import sha256
from pathlib import Path

from headway.cli.lifecycles import find
from headway.drawing import draw
from headway.statechart.chart import Chart
from headway.statechart.drawings.dot import dot
from headway.statechart.drawings.tables import state_table, transition_table

FOLDER = Path(__file__).resolve().parents[1] / "docs/lifecycles"
MARKED = re.compile(r"<!-- chart: (?P<name>\S+) -->\n.*?<!-- /chart -->", re.DOTALL)


def written(page: str) -> str:
    """A page with its charts as they are now."""
    return MARKED.sub(lambda match: _section(find(match["name"]).chart), page)


def drawing(chart: Chart) -> Path:
    """Where the drawing of a chart lies."""
    return FOLDER / f"{chart.name.replace('.', '-')}.svg"


def stamp(chart: Chart) -> str:
    """The end of the drawing of this chart as it is now."""
    return f"<!-- {sha256(dot(chart).encode()).hexdigest()} -->\n"


def charts_of(page: str) -> list[Chart]:
    """The charts that a page shows."""
    return [find(match["name"]).chart for match in MARKED.finditer(page)]


def _section(chart: Chart) -> str:
    parts = (
        f"<!-- chart: {chart.name} -->",
        f"![{chart.name}, drawn]({drawing(chart).name})",
        state_table(chart).strip(),
        transition_table(chart).strip(),
        "<!-- /chart -->",
    )
    return "\n\n".join(parts)


async def _draw(chart: Chart) -> None:
    place, end = drawing(chart), stamp(chart)
    if not (place.exists() and place.read_text(encoding="utf-8").endswith(end)):
        place.write_text((await draw(chart, "svg")).decode() + end, encoding="utf-8")


async def main() -> None:
    """Write every page and draw what has changed."""
    for path in sorted(FOLDER.glob("*.md")):
        page = path.read_text(encoding="utf-8")
        path.write_text(written(page), encoding="utf-8")
        for chart in charts_of(page):
            await _draw(chart)


if __name__ == "__main__":
    asyncio.run(main())
