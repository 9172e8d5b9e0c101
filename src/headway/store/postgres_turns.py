"""Units of one process that want the same rows take turns, before they take connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class Turns:
    """Who works on which keys; all keys of a unit are taken at once, so nobody waits in a circle."""

    def __init__(self) -> None:
        self._taken: dict[Hashable, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def take(self, keys: set[tuple[str, str]]) -> AsyncIterator[None]:
        """Wait until all keys are free, and keep them."""
        while taken := keys & self._taken.keys():
            await asyncio.wait([self._taken[taken.pop()]])
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._taken |= dict.fromkeys(keys, done)
        try:
            yield
        finally:
            for key in keys:
                del self._taken[key]
            done.set_result(None)
