"""Which charts a command knows beside the one it is about: those of its module and of the lifecycles."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from headway.cli.apps import apps_of
from headway.lifecycle import is_charted
from headway.settings import Settings
from headway.statechart.chart import Chart, chart_of


class Beside(NamedTuple):
    """Further charts, and the facts that their lifecycles know."""

    charts: Sequence[Chart] = ()
    facts: Mapping[str, Any] = {}


def charts_beside(name: str, settings: Settings) -> Beside:
    """The charts that stand where a chart of this name does, and those of the settings; raises CommandError.

    One name and number may be there more than once: whoever registers them chooses.
    """
    lifecycle = apps_of(settings).lifecycle
    return Beside([*_of_module(name), *map(chart_of, lifecycle.charts)], lifecycle.facts)


def _of_module(name: str) -> Iterator[Chart]:
    """The charts of the module that `module:Class` names, which is loaded already."""
    module, colon, _ = name.partition(":")
    found = vars(sys.modules[module]).values() if colon and module in sys.modules else ()
    return (chart_of(each) for each in found if is_charted(each))
