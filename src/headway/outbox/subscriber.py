"""A subscriber: an async function in this process that is called with messages."""

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

    If it raises, the message is retried, unless it raises PermanentError. If it is not done within `timeout`
    it is cancelled, and the message is retried. It may get a message again with the same `id`, after a
    failure or a crash.
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
            raise InputError("a subscriber needs a name and an async function")
        if begins not in {"now", "first"}:
            raise InputError("begins must be now or first")
        if not {*several(kinds)} <= SENT:
            raise InputError(f"kinds must be among {', '.join(sorted(SENT))}")
        if not milliseconds(timeout):
            raise InputError("the timeout of a subscriber must be more than 0")
        self.name = f"subscriber:{name}"
        self.wants = Wants(several(kinds), several(events), tenant)
        self.terms = Terms(begins, at_once, backoff, timeout=milliseconds(timeout))
        self._handler = handler

    async def deliver(self, message: Message) -> None:
        """Call the function; raises PermanentError if it is not async."""
        answer = self._handler(message)
        if not isawaitable(answer):
            raise PermanentError(f"the function of {self.name} must be async")
        await answer

    async def close(self) -> None:
        """Nothing to close."""
