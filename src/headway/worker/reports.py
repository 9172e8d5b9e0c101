"""Sends what handlers tell of their progress: not each word, but nothing that was counted is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from logging import getLogger
from math import inf
from typing import Any

from headway.engine.engine import Engine
from headway.errors import HeadwayError, StoreError, UnknownVersionError
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Actor, Event
from headway.worker.progress import Progress, Report
from headway.worker.punctual import Punctual
from headway.worker.running import OVER, Attempts, Running

LOG = getLogger("headway.worker")
PAUSE = 1.0
"""So many seconds lie between two reports of an attempt, at least."""


class Reports(Punctual):
    """Sends the first word at once, and later ones together after a pause."""

    name = "progress"

    def __init__(self, engine: Engine, attempts: Attempts, by: Actor, monotonic: Callable[[], float]) -> None:
        super().__init__(monotonic)
        self._engine, self._attempts, self._by = engine, attempts, by
        self._waiting: dict[Running, float] = {}
        self._numbers = count(1)

    def told(self, running: Running, loop: asyncio.AbstractEventLoop) -> None:
        """An attempt has news; may be called from any thread."""
        progress = running.progress
        if progress is not None and not progress.waits:
            progress.waits = True
            loop.call_soon_threadsafe(self._queue, running, progress)

    def _queue(self, running: Running, progress: Progress) -> None:
        self._waiting[running] = max(self.monotonic(), progress.next_at)
        self.expect(self._waiting[running])

    def next_due(self) -> float:
        """When the first of those that wait may be sent."""
        return min(self._waiting.values(), default=inf)

    async def turn(self) -> bool:
        """Send what may be sent; what cannot be sent now is sent later."""
        now = self.monotonic()
        due = [running for running, at in self._waiting.items() if at <= now]
        for running in due:
            del self._waiting[running]
        answers = await asyncio.gather(*map(self.flush, due), return_exceptions=True)
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        for running, answer in zip(due, answers, strict=True):
            # An attempt that has ended sends the rest itself; what is no fault of the store fails again.
            if isinstance(answer, StoreError) and running.progress is not None and not running.is_over:
                self._queue(running, running.progress)
        if failed:
            raise failed[0]
        return False

    async def flush(self, running: Running) -> None:
        """Send all that was told so far; raises StoreError when it has to be tried again."""
        progress = running.progress
        if progress is None:
            return
        async with progress.sending:
            progress.waits = False
            progress.next_at = self.monotonic() + PAUSE
            while running.cancelled not in OVER and (unsent := self._unsent(running, progress)):
                await self._send(running, *unsent)
                progress.unsent = None

    def _unsent(self, running: Running, progress: Progress) -> tuple[Event, str | None] | None:
        """What is to be sent next. It stays the same until it has arrived, so nothing is counted twice."""
        if progress.unsent is None and (report := progress.take()):
            event = self._event(running, progress, report)
            progress.unsent = (event, f"{self._by.id}/{next(self._numbers)}" if report.counters else None)
        return progress.unsent

    def _event(self, running: Running, progress: Progress, report: Report) -> Event:
        data: dict[str, Any] = {**report.data, "fraction": report.fraction}
        if report.counters:
            data["counters"] = report.counters
        eta = progress.eta(self.monotonic())
        if eta is not None:
            data["eta_seconds"] = round(eta, 1)
        return Event("work.progress", data, self._by, running.row.id, running.row.attempt)

    async def _send(self, running: Running, event: Event, request_id: str | None) -> None:
        row = running.row
        try:
            answer = await self._engine.send(row.tenant, row.instance, event, request_id=request_id)
        except StoreError:
            raise
        except UnknownVersionError:
            own = request_id or f"{self._by.id}/{next(self._numbers)}"
            await self._engine.forward(row.tenant, row.instance, event, request_id=own)
            return
        except HeadwayError as error:
            LOG.warning("the progress of %s was not taken: %s", row.id, error)
            return
        if isinstance(answer, Refusal) and answer.code == "stale":
            self._attempts.cancel(running, "lost")
        elif isinstance(answer, Refusal):
            LOG.warning("the progress of %s was refused: %s", row.id, answer.message)
