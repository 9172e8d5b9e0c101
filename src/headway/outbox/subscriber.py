"""A subscriber: code in this process that wants to hear of messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from headway.outbox.destination import SOON, Backoff, Message, Terms, Wants, several

Handler = Callable[[Message], Awaitable[None]]


class Subscriber:
    """Calls an async function with each message: at least once, in order per instance.

    What the function raises is a failure that may pass, unless it is a PermanentError. It may see a
    message again with the same `id`: after a failure, and after a crash.
    """

    def __init__(
        self,
        name: str,
        handler: Handler,
        *,
        events: str | Sequence[str] = "*",
        kinds: str | Sequence[str] = "topic",
        tenant: str | None = None,
        begins: Literal["now", "first"] = "now",
        at_once: int = 32,
        backoff: Backoff = SOON,
    ) -> None:
        self.name = f"subscriber:{name}"
        self.wants = Wants(several(kinds), several(events), tenant)
        self.terms = Terms(begins, at_once, backoff)
        self._handler = handler

    async def deliver(self, message: Message) -> None:
        """Call the function."""
        await self._handler(message)

    async def close(self) -> None:
        """Nothing to let go of."""
