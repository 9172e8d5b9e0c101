"""The registry of handlers: which function does which work, and who observes its attempts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar, overload

from headway.errors import InputError, shown
from headway.worker.work import Work

Function = Callable[[Work], Any]
F = TypeVar("F", bound=Function)


class Handler(NamedTuple):
    """A function under the name that charts use; one that is not async runs in a thread."""

    name: str
    function: Function
    in_thread: bool


class Handlers:
    """Functions by the names that charts give in `run=`.

    `@handlers` takes the function's own name, `@handlers.handler("pay")` another.
    """

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def __call__(self, function: F) -> F:
        """Register a function under its own name; raises as `add` does."""
        self.add(getattr(function, "__name__", ""), function)
        return function

    @overload
    def handler(self, name: str) -> Callable[[F], F]: ...
    @overload
    def handler(self, name: F) -> F: ...
    def handler(self, name: Any) -> Any:
        """Register a function under a name; raises as `add` does."""
        if not isinstance(name, str):
            return self(name)

        def register(function: F) -> F:
            self.add(name, function)
            return function

        return register

    def add(self, name: str, function: Function) -> None:
        """Register a function; raises InputError if the name is taken or empty."""
        if not name or not callable(function):
            raise InputError(f"a handler is a function with a name, not {shown(function)}")
        if name in self._handlers:
            raise InputError(f"two handlers are called {name}")
        self._handlers[name] = Handler(name, function, in_thread=not _is_async(function))

    def include(self, others: Handlers) -> None:
        """Register all handlers of another registry; raises as `add` does."""
        for handler in others:
            self.add(handler.name, handler.function)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all handlers."""
        return tuple(self._handlers)

    def __getitem__(self, name: str) -> Handler:
        """The handler of a name."""
        return self._handlers[name]

    def __iter__(self) -> Iterator[Handler]:
        """All handlers."""
        return iter(self._handlers.values())


def _is_async(function: Function) -> bool:
    call = getattr(type(function), "__call__", None)  # noqa: B004 - an object may be called by an async method
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


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
