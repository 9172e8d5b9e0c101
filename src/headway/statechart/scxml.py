from __future__ import annotations
from headway.statechart.chart import Chart
def from_scxml(text: str | bytes) -> Chart:
    raise AssertionError
