"""Whether a call got the answer of an earlier one: told to whoever listens, without a place in the answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Replay:
    """Whether one of the calls that were listened to was a repeat."""

    __slots__ = ("happened",)

    def __init__(self) -> None:
        self.happened = False


_LISTENING: ContextVar[Replay | None] = ContextVar("headway_replay", default=None)


@contextmanager
def listening() -> Iterator[Replay]:
    """Hear of repeats among the calls to the engine that are made in a block."""
    replay = Replay()
    token = _LISTENING.set(replay)
    try:
        yield replay
    finally:
        _LISTENING.reset(token)


def tell_replay() -> None:
    """A call got the answer of an earlier one."""
    replay = _LISTENING.get()
    if replay is not None:
        replay.happened = True
