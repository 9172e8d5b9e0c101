"""The pages about lifecycles show every chart as it is."""

from pathlib import Path

import pytest

from headway.cli.lifecycles import NamedChart, load_registered
from scripts.lifecycle_pages import FOLDER, charts_of, drawing, stamp, written

pytestmark = pytest.mark.mission("ENG-18")
PAGES = sorted(FOLDER.glob("*.md"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_page_shows_its_charts_as_they_are(path: Path) -> None:
    """Tables and drawings are generated: `python -m scripts.lifecycle_pages` does it."""
    page = path.read_text(encoding="utf-8")
    assert written(page) == page
    old = [
        chart.name
        for chart in charts_of(page)
        if not drawing(chart).read_text(encoding="utf-8").endswith(stamp(chart))
    ]
    assert old == []


def test_every_chart_that_ships_is_on_a_page() -> None:
    """No lifecycle is without its page."""
    shown = {chart.name for path in PAGES for chart in charts_of(path.read_text(encoding="utf-8"))}
    assert {each.name for each in load_registered() if isinstance(each, NamedChart)} <= shown
