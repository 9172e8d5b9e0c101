"""What is simulated, and how much of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

from headway.engine.facts import Given
from headway.statechart.chart import Charted, all_actions, chart_of
from headway.statechart.model import Spawn
from headway.testing.simulate.clients import Choices
from headway.worker.handlers import Handlers


@dataclass(frozen=True)
class Scenario:
    """Charts, who handles their work, what clients send, and the size of the world."""

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
        return "+".join(chart_of(chart).name for chart in self.charts)

    @cached_property
    def choices(self) -> dict[str, Choices]:
        """What clients could do, by chart: made once, for it costs more than a small world."""
        charts = map(chart_of, self.charts)
        return {chart.name: Choices(chart, self.payloads, self.context) for chart in charts}

    @cached_property
    def spawned(self) -> set[str]:
        """Charts whose instances are begun by others, unless all are."""
        charts = [chart_of(chart) for chart in self.charts]
        found = {
            action.chart
            for chart in charts
            for action in all_actions(chart.model)
            if isinstance(action, Spawn)
        }
        return found if len(found) < len(charts) else set()
