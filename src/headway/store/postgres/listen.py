"""Notifications between processes: a connection that listens, and reconnects when it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4

from headway.store.port import ANYTHING
from headway.store.postgres.connection import DATABASE_ERRORS, PATIENCE, connect

CHANNEL = "headway"
ANNOUNCE = "SELECT pg_notify($1, $2 || ' ' || topic) FROM unnest($3::text[]) AS topic"
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
CHECKED_EVERY = 15.0
"""Seconds between checks whether the connection still answers: it may be lost without notice."""


class Listener:
    """Hears what others announce, from the first `listen` until `close`."""

    def __init__(self, address: str) -> None:
        self.name = uuid4().hex
        """Marks what its own process has announced."""
        self._address = address
        self._callbacks: list[Callable[[str], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Call back with each topic; comes back when it hears, or has to try again.

        One that hears again after it did not calls back with ANYTHING.
        """
        self._callbacks.append(heard)
        if self._task is None:
            self._tried.clear()
            self._task = asyncio.create_task(self._keep_listening())
        await self._tried.wait()

    async def close(self) -> None:
        """Hear no more."""
        task, self._task = self._task, None
        self._callbacks.clear()
        self._tried.set()
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _keep_listening(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await self._listen_until_lost()
                pause = FIRST_PAUSE
            except (*DATABASE_ERRORS, ValueError):
                pause = min(2 * pause, LONGEST_PAUSE)
            self._tried.set()
            await asyncio.sleep(pause)

    async def _listen_until_lost(self) -> None:
        raw = await connect(self._address)
        lost = asyncio.Event()
        try:
            raw.add_termination_listener(lambda _: lost.set())
            await raw.add_listener(CHANNEL, self._hear)
            if self._tried.is_set():
                self._tell(ANYTHING)
            self._tried.set()
            await _stay(raw, lost)
        finally:
            with suppress(*DATABASE_ERRORS):  # it is gone either way
                await raw.close(timeout=PATIENCE)

    def _hear(self, _connection: Any, _pid: int, _channel: str, said: str) -> None:
        name, _, topic = said.partition(" ")
        if name != self.name:
            self._tell(topic)

    def _tell(self, topic: str) -> None:
        for callback in self._callbacks:
            callback(topic)


async def _stay(raw: Any, lost: asyncio.Event) -> None:
    """Come back when a connection is lost; raises an error of the database when it does not answer."""
    while not lost.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(CHECKED_EVERY):
                await lost.wait()
                return
        try:
            await raw.execute("SELECT 1", timeout=PATIENCE)
        except BaseException:
            raw.terminate()  # it does not answer, so it cannot be closed in order
            raise
