"""`Lifecycle`: charts with all that they need to run. A package provides it, and a process loads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.engine.facts import Given
from headway.errors import InputError, shown
from headway.outbox.destination import Destination
from headway.outbox.endpoint import Endpoint
from headway.statechart.chart import Chart, Charted, chart_of
from headway.statechart.snapshot import Snapshot
from headway.worker.handlers import Handlers

__all__ = [
    "Lifecycle",
    "is_charted",
    "together",
]


@dataclass(frozen=True)
class Lifecycle:
    """Charts, the handlers of their work, where their messages go, and the facts that their guards need.

    `routers` are its own routes (`headway.http.Router`), which the service serves beside the others.
    `meters` are its own metrics: each takes node and counters, and returns a function that reads them.
    """

    charts: Sequence[Charted] = ()
    handlers: Handlers = field(default_factory=Handlers)
    destinations: Sequence[Destination | Endpoint] = ()
    facts: Given = field(default_factory=dict)
    routers: Sequence[Any] = ()
    meters: Sequence[Callable[[Any, Any], Callable[[], Iterable[Any]]]] = ()

    def __post_init__(self) -> None:
        """Raises InputError for what is no chart, and for handlers that are none."""
        for chart in self.charts:
            if not is_charted(chart):
                raise InputError(f"a lifecycle has charts, and {shown(chart)} is none")
        if not isinstance(self.handlers, Handlers):
            raise InputError("handlers is a Handlers(), in which functions are registered")

    def missing_handlers(self) -> tuple[str, ...]:
        """What its charts let run, and nobody does."""
        wanted = {
            state.run.handler
            for charted in self.charts
            for state in chart_of(charted).model.states
            if state.run is not None
        }
        return tuple(sorted(wanted - {*self.handlers.names}))


def is_charted(value: object) -> bool:
    """Whether a value is a chart, or a class that declares one."""
    return isinstance(_declared(value), Chart)


def together(lifecycles: Iterable[Lifecycle]) -> Lifecycle:
    """Several lifecycles as one; raises InputError when two handlers or facts have the same name."""
    parts = list(lifecycles)
    handlers = Handlers()
    facts: dict[str, Callable[[str, Snapshot], Any]] = {}
    for part in parts:
        handlers.include(part.handlers)
        _add_facts(facts, part.facts)
    return Lifecycle(
        charts=[chart for part in parts for chart in part.charts],
        handlers=handlers,
        destinations=[each for part in parts for each in part.destinations],
        facts=facts,
        routers=[router for part in parts for router in part.routers],
        meters=[meter for part in parts for meter in part.meters],
    )


def _add_facts(facts: dict[str, Callable[[str, Snapshot], Any]], more: Given) -> None:
    if doubles := sorted(facts.keys() & more.keys()):
        raise InputError(f"two lifecycles know the fact {doubles[0]}: name it Chart.{doubles[0]}")
    facts.update(more)


def _declared(value: object) -> object:
    return getattr(value, "chart", value)
