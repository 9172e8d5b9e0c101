"""Requests that may come again: effect and answer are one transaction, and a repeat gets the first answer."""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from headway.engine.orders import DAY
from headway.errors import EngineError, RequestReusedError
from headway.store.commands import Command
from headway.store.port import Store
from headway.store.rows import Key, RequestRow
from headway.store.unit import Changes, Found, Reads

T = TypeVar("T")
Script = Callable[[], Generator[Command, Any, str | None]]
"""Yields commands, gets what each has answered, and returns the answer to keep; None keeps nothing."""

LONG_AGO = datetime.min.replace(tzinfo=UTC)


class RepeatedError(EngineError):
    """A request was carried out before: its `answer` is what counts."""


class Request:
    """A request with a key: its name (tenant and request id), and a fingerprint of what is asked.

    `answer` is what is stored for it; `is_repeat` when an earlier request with the key has stored it.
    """

    __slots__ = ("answer", "asked", "is_repeat", "name")

    def __init__(self, name: Key, asked: str) -> None:
        self.name, self.asked = name, asked
        self.answer: str | None = None
        self.is_repeat = False


class Repeatable(Generic[T]):
    """A request with a key, and the answer that is kept for it, by what its command has answered."""

    def __init__(self, request: Request, answer: Callable[[T], str]) -> None:
        self.request, self.answer = request, answer


class Once:
    """A unit that runs a script and keeps its answer, unless the request has an answer already."""

    def __init__(self, request: Request | None, script: Script, lasts: timedelta) -> None:
        self._request, self._script, self._lasts = request, script, lasts
        self.begin()

    def begin(self) -> Reads:
        """Forget everything; ask for the answer that the request may have got."""
        self.answer: str | None = None
        self.is_repeat = False
        self._running: Generator[Command, Any, str | None] | None = None
        self._now = LONG_AGO
        return Reads(requests=set() if self._request is None else {self._request.name}, has_commands=True)

    def take(self, found: Found) -> Reads | None:
        """Go on with the script; raises RequestReusedError when the key is that of another request."""
        self._now = max(self._now, found.now)
        try:
            if self._running is None:
                if self._repeats(found):
                    return None
                self._running = self._script()
                command = next(self._running)
            else:
                command = self._running.send(found.results[0])
        except StopIteration as end:
            self.answer = end.value
            return None
        return Reads(commands=(command,), has_commands=True)

    def changes(self) -> Changes:
        """The answer, if it is new and to be kept."""
        if self._request is None or self.is_repeat or self.answer is None:
            return Changes()
        request = self._request
        return Changes(
            requests=[RequestRow(*request.name, request.asked, self.answer, self._now + self._lasts)]
        )

    def _repeats(self, found: Found) -> bool:
        known = None if self._request is None else found.requests.get(self._request.name)
        if known is None or self._request is None:
            return False
        if known.body != self._request.asked:
            raise RequestReusedError("the key was used for another request")
        self.answer, self.is_repeat = known.answer, True
        return True


async def run_once(
    store: Store, request: Request | None, script: Script, lasts: timedelta = DAY
) -> str | None:
    """Run a script in one transaction with the answer it returns, which a repeat of the request gets.

    Raises RequestReusedError, and what the script raises. Without a request it is run each time.
    """
    unit = Once(request, script, lasts)
    await store.run(unit)
    if request is not None:
        request.answer, request.is_repeat = unit.answer, unit.is_repeat
    return unit.answer


async def run_command(
    store: Store,
    command: Command,
    once: Repeatable[T] | None,
    *,
    lasts: timedelta = DAY,
    keeps: Callable[[T], bool] = lambda _: True,
) -> T:
    """What a command answers; with `once`, in one transaction with the answer that is kept.

    An answer that is not one of those it `keeps` is not kept. Raises RepeatedError and RequestReusedError.
    """
    results: list[T] = []

    def script() -> Generator[Command, Any, str | None]:
        results[:] = [(yield command)]
        return once.answer(results[0]) if once is not None and keeps(results[0]) else None

    await run_once(store, None if once is None else once.request, script, lasts)
    if once is not None and once.request.is_repeat:
        raise RepeatedError("the request was carried out before")
    return results[0]
