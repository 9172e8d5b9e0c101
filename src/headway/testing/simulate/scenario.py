"""What is simulated, and how much of it."""

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
    """Charts, who handles their work, what clients send, and the size of the world.

    Of a chart that is given in several versions the first lives from the beginning; the others come while
    its instances live.
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
    """Whether lives never come to rest by themselves: then only what is late is waited for."""
    counted: bool = False
    """Whether what is added to shared counters is all written beside transitions, and can be added up."""

    @property
    def name(self) -> str:
        """What it is about."""
        return "+".join(dict.fromkeys(chart.name for chart in self.compiled))

    @cached_property
    def compiled(self) -> list[Chart]:
        """All charts, the older versions first."""
        return sorted(map(chart_of, self.charts), key=lambda chart: chart.version)

    @cached_property
    def first(self) -> list[Chart]:
        """The version of each chart that lives from the beginning."""
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
        """To which version of which charts living instances are brought."""
        known = {chart.name: chart.version for chart in self.compiled}
        return {chart.name: known[chart.name] for chart in self.first if chart.version < known[chart.name]}

    @cached_property
    def choices(self) -> dict[tuple[str, int], ClientChoices]:
        """What clients could do, by chart: made once, for it costs more than a small world."""
        return {
            (chart.name, chart.version): ClientChoices(chart, self.payloads, self.context)
            for chart in self.compiled
        }

    @cached_property
    def end_users(self) -> list[Actor]:
        """Those who reach only what is theirs, if the charts say whose anything is."""
        owned = any(chart.people for chart in self.compiled)
        return [end_user(name, self.compiled) for name in END_USERS if owned]

    @cached_property
    def spawned(self) -> set[str]:
        """Charts whose instances are begun by others, unless all are."""
        found = {
            action.chart
            for chart in self.compiled
            for action in all_actions(chart.model)
            if isinstance(action, Spawn)
        }
        return found if len(found) < len(self.first) else set()
