from __future__ import annotations
from typing import Any
from collections.abc import Iterable
from headway.statechart.chart import Chart
def from_document(document: object, functions: Iterable[Any] = ()) -> Chart:
    raise AssertionError
