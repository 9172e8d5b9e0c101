"""Handlers with observers, which are called when an attempt begins and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headway.worker.handlers import Function, Handlers
from headway.worker.work import Work

End = Callable[[object], None]
"""Called with the outcome of the attempt: what the handler returned or raised."""
Observer = Callable[[Work], End]
"""Called when an attempt begins, in the task or thread that it runs in."""


def observed(handlers: Handlers, observers: Sequence[Observer]) -> Handlers:
    """The same handlers, with observers."""
    watched = Handlers()
    for handler in handlers:
        wrap = _in_thread if handler.in_thread else _on_loop
        watched.add(handler.name, wrap(handler.function, observers))
    return watched


def _on_loop(function: Function, observers: Sequence[Observer]) -> Function:
    async def run(work: Work) -> Any:
        ends, outcome = [begin(work) for begin in observers], None
        try:
            outcome = await function(work)
        except BaseException as error:
            outcome = error
            raise
        finally:
            for end in reversed(ends):
                end(outcome)
        return outcome

    return run


def _in_thread(function: Function, observers: Sequence[Observer]) -> Function:
    def run(work: Work) -> Any:
        ends, outcome = [begin(work) for begin in observers], None
        try:
            outcome = function(work)
        except BaseException as error:
            outcome = error
            raise
        finally:
            for end in reversed(ends):
                end(outcome)
        return outcome

    return run
