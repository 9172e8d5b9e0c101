"""The input of a simulation: charts, handlers, clients and sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

from headway.engine.facts import Given
from headway.statechart.chart import Chart, Charted, all_actions, chart_of
from headway.statechart.model import Spawn
from headway.statechart.snapshot import Actor
from headway.testing.simulate.clients import ClientChoices
from headway.testing.simulate.ownership import END_USERS, end_user
from headway.worker.handlers import Handlers


@dataclass(frozen=True)
class Scenario:
    """Charts, handlers, payloads of clients, and the size of a world.

    If a chart is given in several versions, a world starts with the first, and the others are deployed while
    instances are live.
    """

    charts: Sequence[Charted]
    handlers: Handlers | None = None
    facts: Given = field(default_factory=dict)
    payloads: Mapping[str, Callable[[Random], Any]] = field(default_factory=dict)
    context: Callable[[Random], Any] | None = None
    processes: int = 3
    clients: int = 3
    calls: int = 7
    instances: int = 3
    seconds: float = 7.0
    endless: bool = False
    """Whether instances never settle by themselves: then the end waits only for what is overdue."""
    counted: bool = False
    """Whether all additions to shared counters are declared on transitions, so that they can be summed."""

    @property
    def name(self) -> str:
        """The names of the charts."""
        return "+".join(dict.fromkeys(chart.name for chart in self.compiled))

    @cached_property
    def compiled(self) -> list[Chart]:
        """All charts, the older versions first."""
        return sorted(map(chart_of, self.charts), key=lambda chart: chart.version)

    @cached_property
    def first(self) -> list[Chart]:
        """The version of each chart that a world starts with."""
        oldest: dict[str, Chart] = {}
        for chart in self.compiled:
            oldest.setdefault(chart.name, chart)
        return [*oldest.values()]

    @cached_property
    def last(self) -> list[Chart]:
        """The newest version of each chart."""
        return [*{chart.name: chart for chart in self.compiled}.values()]

    @cached_property
    def newest(self) -> dict[str, int]:
        """The version of each chart to which live instances are upgraded."""
        known = {chart.name: chart.version for chart in self.compiled}
        return {chart.name: known[chart.name] for chart in self.first if chart.version < known[chart.name]}

    @cached_property
    def choices(self) -> dict[tuple[str, int], ClientChoices]:
        """The choices of clients by chart: built once, because building takes longer than a small world."""
        return {
            (chart.name, chart.version): ClientChoices(chart, self.payloads, self.context)
            for chart in self.compiled
        }

    @cached_property
    def end_users(self) -> list[Actor]:
        """Actors who may reach only their own instances, if the charts declare owners."""
        owned = any(chart.people for chart in self.compiled)
        return [end_user(name, self.compiled) for name in END_USERS if owned]

    @cached_property
    def spawned(self) -> set[str]:
        """Charts whose instances are spawned by others, unless all charts are."""
        found = {
            action.chart
            for chart in self.compiled
            for action in all_actions(chart.model)
            if isinstance(action, Spawn)
        }
        return found if len(found) < len(self.first) else set()
