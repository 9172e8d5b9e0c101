"""A subscriber: code in this process that wants to hear of messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Literal

from headway.clock import milliseconds
from headway.errors import InputError, PermanentError
from headway.outbox.destination import SENT, SOON, TIMEOUT, Backoff, Duration, Terms, Wants, several
from headway.outbox.message import Message

Handler = Callable[[Message], Awaitable[None]]


class Subscriber:
    """Calls an async function with each message: at least once, in order per instance.

    What the function raises is a failure that may pass, unless it is a PermanentError; so is not to be done
    within `timeout`, when it is cancelled. It may see a message again with the same `id`: after a failure,
    and after a crash.
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
        timeout: Duration = TIMEOUT / 1_000,
    ) -> None:
        if not name or not callable(handler):
            raise InputError("a subscriber has a name, and an async function that is called")
        if begins not in {"now", "first"} or not {*several(kinds)} <= SENT:
            raise InputError(f"a subscriber begins now or first, and hears of {', '.join(sorted(SENT))}")
        if not milliseconds(timeout):
            raise InputError("a subscriber needs some time for a message")
        self.name = f"subscriber:{name}"
        self.wants = Wants(several(kinds), several(events), tenant)
        self.terms = Terms(begins, at_once, backoff, timeout=milliseconds(timeout))
        self._handler = handler

    async def deliver(self, message: Message) -> None:
        """Call the function; one that is not async is told so once, and not called again and again."""
        answer = self._handler(message)
        if not isawaitable(answer):
            raise PermanentError(f"the function of {self.name} must be async: it is awaited")
        await answer

    async def close(self) -> None:
        """Nothing to let go of."""
