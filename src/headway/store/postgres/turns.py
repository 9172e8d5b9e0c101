"""Units of one process that want the same rows take turns, before they take connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

Key = tuple[str, str]
Turn = asyncio.Future[None]


class Turns:
    """Who works on which keys: first come, first served, so that nobody waits in a circle."""

    def __init__(self) -> None:
        self._last: dict[Key, Turn] = {}
        """The last in the line of each key."""

    @asynccontextmanager
    async def take(self, keys: Collection[Key]) -> AsyncIterator[None]:
        """Wait until all who came earlier for one of the keys are done."""
        before = {self._last[key] for key in keys if key in self._last}
        own: Turn = asyncio.get_running_loop().create_future()
        self._last |= dict.fromkeys(keys, own)
        try:
            if before:
                await asyncio.wait(before)
            yield
        finally:
            self._end(own, keys, before)

    def _end(self, own: Turn, keys: Collection[Key], before: Collection[Turn]) -> None:
        """Let the next ones go on: who gives up while waiting still stands between them and those before."""
        waited_for = next((turn for turn in before if not turn.done()), None)
        if waited_for is not None:
            waited_for.add_done_callback(lambda _: self._end(own, keys, before))
            return
        own.set_result(None)
        for key in keys:
            if self._last.get(key) is own:
                del self._last[key]
