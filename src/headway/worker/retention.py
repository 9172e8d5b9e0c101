"""Retention: what is older than its retention time is deleted in the background, page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from functools import partial

from headway.clock import milliseconds
from headway.codec import Value
from headway.engine.engine import Engine
from headway.engine.lease import SoleService
from headway.errors import InputError

PAGE = 1_000


class Retention(Value):
    """How long finished data is kept. Request ids are deleted when they expire.

    `instances` is for those that have ended, with their history and asks: None keeps them for ever.
    `charts` overrides it for single charts.
    """

    messages: str = "7d"
    instances: str | None = None
    charts: Mapping[str, str] = {}


class Pruning(SoleService):
    """Deletes what is older than its retention time."""

    name = "pruning"
    longest_rest = 60.0

    def __init__(self, engine: Engine, retention: Retention | None = None) -> None:
        super().__init__(engine)
        self._retention = retention or Retention()
        for period in (self._retention.messages, *self._periods().values()):
            try:
                milliseconds(period)
            except ValueError as error:
                raise InputError(f"retention: {error}") from error

    async def act(self) -> bool:
        """Delete a page of each kind; True if one of them was full."""
        now = await self.engine.store.now()
        more = False
        for kind, prune in self._prunings(now):
            deleted = await prune()
            self.tally[kind] += deleted
            more = more or deleted >= PAGE
        return more

    def _prunings(self, now: datetime) -> list[tuple[str, Callable[[], Awaitable[int]]]]:
        store, kept = self.engine.store, self._retention
        prunings: list[tuple[str, Callable[[], Awaitable[int]]]] = [
            ("requests", partial(store.requests.prune, PAGE)),
            ("messages", partial(store.messages.prune, _ago(now, kept.messages), PAGE)),
        ]
        return prunings + [
            ("instances", partial(store.instances.prune, _ago(now, period), PAGE, chart))
            for chart, period in self._periods().items()
        ]

    def _periods(self) -> dict[str, str]:
        """How long the ended instances of each chart are kept, unless for ever."""
        general = self._retention.instances
        every = {chart.name: general for chart in self.engine.charts if general is not None}
        return {**every, **self._retention.charts}


def _ago(now: datetime, duration: str) -> datetime:
    return now - timedelta(milliseconds=milliseconds(duration))
