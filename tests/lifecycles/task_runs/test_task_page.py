"""The page about task runs shows the charts as they are."""

import pytest

from tests.lifecycles.task_runs.page import BY_NAME, MARKED, PAGE, drawn


@pytest.mark.mission("TSK-S", "TSK-M")
def test_the_page_shows_every_chart_as_it_is() -> None:
    """Drawings and tables are generated: `python -m tests.lifecycles.task_runs.page` does it."""
    text = PAGE.read_text(encoding="utf-8")
    assert {match["name"] for match in MARKED.finditer(text)} == BY_NAME.keys()
    assert drawn(text) == text
