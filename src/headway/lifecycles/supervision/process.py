"""The process of a worker, as the service holds it."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Self

from headway.codec import decode, encode
from headway.worker import Fail

LARGEST_LINE = 1_000_000
GO_ON: dict[str, Any] = {}
NOTHING = object()


class WorkerProcess:
    """Performs tasks in a process of its own, which stands still at safe points unless it is told to go on.

    Whoever stops waiting for a task leaves it to reach its next safe point, and can take it up again there.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()
        self._task: str | None = None
        self._reached: Any = NOTHING
        self._kept: Any = None

    @classmethod
    async def begin(cls, perform: str, worker: str) -> Self:
        """A new process for a worker."""
        module = "headway.lifecycles.supervision.performing"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", module, perform, worker), stdin=PIPE, stdout=PIPE, limit=LARGEST_LINE
        )
        return cls(process)

    @property
    def pid(self) -> int:
        """Its id on this machine."""
        return self._process.pid

    def can_do(self, task: str | None) -> bool:
        """Whether it lives, and is at nothing else."""
        return self._process.returncode is None and self._task in {None, task}

    async def perform(
        self, task: Mapping[str, Any], reached: Any, keep: Callable[[Any], Awaitable[None]]
    ) -> Any:
        """The result of a task, or a Fail; `keep` is called at each safe point, before it goes on."""
        async with self._turn:
            if self._task is None:
                self._task, self._kept = task["id"], reached
                self._say({**task, "reached": reached})
            while True:
                if self._reached is not NOTHING:
                    await keep(self._reached)
                    self._kept, self._reached = self._reached, NOTHING
                    self._say(GO_ON)
                line = await self._hear()
                if line is None:
                    code = await self._process.wait()
                    said = f"the process of the worker has ended with {code}"
                    return Fail("crashed", said, reached=self._kept)
                if "safe_point" not in line:
                    self._task = None
                    return self._outcome(line)
                self._reached = line["safe_point"]

    async def end(self) -> None:
        """Kill it, wherever it stands."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    def _say(self, said: Mapping[str, Any]) -> None:
        """Lines are short and rare: nobody waits for them to be read."""
        stdin = self._process.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(encode(said) + b"\n")

    async def _hear(self) -> dict[str, Any] | None:
        """The next line; None when the process has ended."""
        stdout = self._process.stdout
        line = b"" if stdout is None else await stdout.readline()
        return decode(dict[str, Any], line) if line.endswith(b"\n") else None

    def _outcome(self, line: Mapping[str, Any]) -> Any:
        if "error" in line:
            return Fail(line["error"], line["message"], reached=self._kept)
        return line["result"]
