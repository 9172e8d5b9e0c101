"""What a call of the client asks its driver to do, as data: nothing here does I/O.

A call is a generator. It yields actions, and is sent what became of each.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class HttpRequest(NamedTuple):
    """A request; `target` is its path with its query, `key` its idempotency key.

    `wait` is for how many seconds the service may wait before it answers. A `stream` has no end.
    """

    method: str
    target: str
    body: bytes | None = None
    key: str | None = None
    headers: Mapping[str, str] = {}
    wait: float = 0.0
    stream: bool = False


class HttpReply(NamedTuple):
    """An answer. The body of a stream that was opened is empty: `ReadStream` reads it."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def failed(self) -> bool:
        """Whether it is no answer to what was asked."""
        return self.status >= 300  # noqa: PLR2004 - the first status of redirections, which are not followed


class ConnectionFailure(NamedTuple):
    """A request without an answer; `sent` is whether the service may have received it."""

    message: str
    sent: bool


class ReadStream(NamedTuple):
    """Read from the open stream: bytes, none at its end; or a ConnectionFailure."""


class Pause(NamedTuple):
    """Wait for some seconds."""

    seconds: float


class Now(NamedTuple):
    """The time of a monotonic clock."""


class Item(NamedTuple, Generic[T]):
    """One value of a call that has many."""

    value: T


class Finished(NamedTuple, Generic[T]):
    """A call has ended, with its result."""

    value: T


Reply: TypeAlias = HttpReply | ConnectionFailure
Action: TypeAlias = HttpRequest | ReadStream | Pause | Now
Steps: TypeAlias = Generator[Action, Any, T]
"""A call with one result."""
Items: TypeAlias = Generator[Action | Item[T], Any, None]
"""A call with many."""


def advance(steps: Generator[Any, Any, Any], outcome: object) -> Any:
    """What a call does next: an action, an item, or that it has finished; raises what the call raises."""
    try:
        return steps.send(outcome)
    except StopIteration as end:
        return Finished(end.value)
