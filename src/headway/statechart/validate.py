"""What is wrong with a model before it can be compiled, wherever it came from."""

from __future__ import annotations

from collections.abc import Mapping

from headway.errors import Problem
from headway.statechart import model
from headway.statechart.authoring import Line


def problems_of(whole: model.Model, lines: Mapping[str, Line], first: Line) -> list[Problem]:
    return []
