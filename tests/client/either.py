"""Both forms of the client behind one way to call them, so that one test proves both."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Literal

from headway.client import Client, SyncClient

Form = Literal["async", "sync"]


class Either:
    """Calls that are awaited: of the async client as they are, of the sync one in a thread."""

    def __init__(self, form: Form, url: str, key: str, **options: Any) -> None:
        self.pauses: list[float] = []
        self.on_pause: Callable[[], Any] = lambda: None
        sleep: Any = self._sleep if form == "async" else self._block
        self._loop = asyncio.get_running_loop()
        kind = Client if form == "async" else SyncClient
        self.client: Any = kind(url, key, sleep=sleep, **options)
        self.is_async = form == "async"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        verb = getattr(self.client, name)
        return verb if self.is_async else lambda *args, **named: asyncio.to_thread(verb, *args, **named)

    async def all(self, name: str, *args: Any, **named: Any) -> list[Any]:
        """All values of a call that has many."""
        return [each async for each in self.each(name, *args, **named)]

    async def each(self, name: str, *args: Any, **named: Any) -> AsyncGenerator[Any, None]:
        """The values of a call that has many."""
        found = getattr(self.client, name)(*args, **named)
        try:
            if self.is_async:
                async for each in found:
                    yield each
                return
            while (each := await asyncio.to_thread(_next, found)) is not None:
                yield each
        finally:
            await found.aclose() if self.is_async else found.close()

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close() if self.is_async else self.client.close()

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)
        if asyncio.iscoroutine(waiting := self.on_pause()):
            await waiting

    def _block(self, seconds: float) -> None:
        asyncio.run_coroutine_threadsafe(self._sleep(seconds), self._loop).result()


def _next(found: Iterator[Any]) -> Any:
    return next(found, None)
