"""Refuses calls from another event loop than the one that opened a store, and from forked processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import ClassVar

from headway.errors import WrongLoopError

OTHER_LOOP = (
    "this call comes from another event loop than the one in which the database was opened: a thread calls"
    " with asyncio.run_coroutine_threadsafe(tenant.send(...), loop), where loop is the one of the node"
)
FORKED = (
    "the database was opened before this process was forked, and its connections belong to the parent: start"
    ' the child before it is opened, or with multiprocessing.get_context("spawn"), and open a Node of its own'
    " in the child"
)


class LoopGuard:
    """The event loop that may use something, from `bind` to `release`.

    If that loop was closed, the next one that calls takes over, and `abandoned` is called.
    """

    forks: ClassVar[int] = 0
    """How often this process or an ancestor was forked."""

    def __init__(self, abandoned: Callable[[], None] = lambda: None) -> None:
        self._abandoned = abandoned
        self._loop: asyncio.AbstractEventLoop | None = None
        self._forks = 0

    def bind(self) -> None:
        """Let calls come from the running loop only; raises WrongLoopError if another one is bound."""
        self._loop = self.enter()
        self._forks = LoopGuard.forks

    def enter(self) -> asyncio.AbstractEventLoop:
        """The running loop; raises WrongLoopError if another one is bound."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._refuse_child()  # the coroutine that has forked does not run in a loop there
            raise
        if loop is not self._loop or self._forks != LoopGuard.forks:
            self._check(loop)
        return loop

    def release(self) -> None:
        """Let calls come from any loop."""
        self._loop = None

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        self._refuse_child()
        if self._loop is None:
            return
        if not self._loop.is_closed():
            raise WrongLoopError(OTHER_LOOP)
        self._loop = loop
        self._abandoned()

    def _refuse_child(self) -> None:
        if self._loop is not None and self._forks != LoopGuard.forks:
            raise WrongLoopError(FORKED)


def _count_fork() -> None:
    LoopGuard.forks += 1


os.register_at_fork(after_in_child=_count_fork)
