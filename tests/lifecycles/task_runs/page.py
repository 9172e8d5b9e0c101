"""`python -m tests.lifecycles.task_runs.page`: put the charts as they are into the page about them."""

import re

from headway.lifecycles.task_runs.lifecycle import CHARTS
from headway.statechart.mermaid import mermaid
from headway.statechart.table import state_table, transition_table
from tests.docs.pages import ROOT

PAGE = ROOT / "docs/lifecycles/task-runs.md"
MARKED = re.compile(r"<!-- chart: (?P<name>\S+) -->\n.*?<!-- /chart -->", re.DOTALL)
BY_NAME = {chart.chart.name: chart for chart in CHARTS}


def drawn(text: str) -> str:
    """A page with what stands between its marks as the charts say it now."""
    return MARKED.sub(lambda match: _drawn(match["name"]), text)


def _drawn(name: str) -> str:
    chart = BY_NAME[name]
    parts = (f"```mermaid\n{mermaid(chart).strip()}\n```", state_table(chart), transition_table(chart))
    return f"<!-- chart: {name} -->\n" + "\n".join(part.strip() + "\n" for part in parts) + "<!-- /chart -->"


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
