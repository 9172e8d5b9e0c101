"""The process of a worker: how the service holds it, and what runs inside it.

Both ends exchange lines of JSON. A task goes in; safe points and the outcome come out. After each safe point
the process waits until the service lets it continue. It ends when its input is closed.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import traceback
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from queue import SimpleQueue
from threading import Thread
from typing import Any, Self

from headway.codec import decode, encode
from headway.worker import Fail

LARGEST_LINE = 1_000_000
GO_ON: dict[str, Any] = {}
NOTHING = object()
LARGEST = 900_000
"""Bytes of JSON of a result, or of the value of a safe point: they travel in events of at most 1 MB."""
CODE = re.compile(r"[A-Za-z_][\w-]{0,99}", re.ASCII)
TAKEN = frozenset({"crashed", "host_lost"})
"""Codes for a process that is gone; no task may use them for its own errors."""

Perform = Callable[["Part"], Any]
"""What performs a task: its result is the task's. See `code_of` for what an exception means."""


class WorkerProcess:
    """Performs tasks in a separate process, which waits at each safe point until it may continue.

    A caller that stops waiting leaves the task to reach its next safe point, and can continue it there.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()
        self._task: str | None = None
        self._reached: Any = NOTHING
        self._kept: Any = None

    @classmethod
    async def begin(cls, perform: str, worker: str) -> Self:
        """A new process for a worker."""
        module = "headway.lifecycles.supervision.process"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", module, perform, worker), stdin=PIPE, stdout=PIPE, limit=LARGEST_LINE
        )
        return cls(process)

    @property
    def pid(self) -> int:
        """Its id on this machine."""
        return self._process.pid

    def can_do(self, task: str | None) -> bool:
        """Whether it is alive, and runs no other task."""
        return self._process.returncode is None and self._task in {None, task}

    async def perform(
        self, task: Mapping[str, Any], reached: Any, keep: Callable[[Any], Awaitable[None]]
    ) -> Any:
        """The result of a task, or a Fail; `keep` is called at each safe point, before the task continues."""
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
        """Write a line. Lines are short and rare, so no call waits until they are read."""
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


class NetworkError(Exception):
    """A fault that may pass: the task is tried again, three times."""

    code = "network_error"


class ResourcesExhaustedError(Exception):
    """There is not enough of something: the worker pauses until its supervisor resumes it."""

    code = "resources_exhausted"


class TooLargeError(Exception):
    """More was said than is kept."""

    code = "too_large"


class Part:
    """A task, or a worker's part of it, as the function sees it that performs it."""

    def __init__(self, given: Mapping[str, Any], tell: Callable[[Any], None]) -> None:
        self.id: str = given["id"]
        self.description: str = given["description"]
        self.job: str = given["job"]
        self.number: int = given["number"]
        self.of: int = given["of"]
        self.reached: Any = given["reached"]
        """The value of the last safe point that an earlier attempt has come to, or None."""
        self._tell = tell

    def safe_point(self, value: Any = None) -> None:
        """Here the task can be paused, and from here it is tried again; `value` is JSON."""
        self._tell(value)


class Lines:
    """Lines from the service, and lines to it; the end of the first ends the process."""

    def __init__(self) -> None:
        self._in: SimpleQueue[bytes] = SimpleQueue()
        # What a task prints must not be taken for what the process says.
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        sys.stdout = TextIOWrapper(os.fdopen(1, "wb", buffering=0), write_through=True)
        Thread(target=self._listen, daemon=True).start()

    def next(self) -> Any:
        """Wait for a line."""
        return decode(object, self._in.get())

    def say(self, **said: Any) -> None:
        """Write a line."""
        self._out.write(encode(said) + b"\n")

    def _listen(self) -> None:
        for line in sys.stdin.buffer:
            self._in.put(line)
        os._exit(0)


def code_of(error: BaseException) -> str:
    """The error code of an exception: its own, or that of its kind; all else is unrecoverable."""
    code = getattr(error, "code", None)
    if isinstance(code, str) and CODE.fullmatch(code) and code not in TAKEN:
        return code
    return next((code for kind, code in CODES if isinstance(error, kind)), "unrecoverable")


CODES: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionError, "network_error"),
    (TimeoutError, "network_error"),
    (MemoryError, "resources_exhausted"),
)


def perform_all(perform: Perform, lines: Lines) -> None:
    """Perform whatever comes, until the process ends."""

    def tell(value: Any) -> None:
        lines.say(safe_point=_kept(value))
        lines.next()

    while True:
        part = Part(lines.next(), tell)
        try:
            lines.say(result=_kept(perform(part)))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the task's outcome
            lines.say(error=code_of(error), message=_message(error))


def _message(error: Exception) -> str:
    said = str(error) if isinstance(error, TooLargeError) else f"{type(error).__name__}: {error}"
    return said[:500]


def _kept(value: Any) -> Any:
    size = len(encode(value))
    if size > LARGEST:
        raise TooLargeError(f"a result or safe point has at most {LARGEST:,} bytes, not {size:,}")
    return value


def named(name: str) -> Perform:
    """The function that `module:function` names."""
    module, _, function = name.partition(":")
    found: Perform = getattr(import_module(module), function)
    return found


def main() -> None:
    """Run as `python -m headway.lifecycles.supervision.process module:function worker`."""
    lines, code = Lines(), 1
    try:
        perform_all(named(sys.argv[1]), lines)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else code
    except BaseException:  # noqa: BLE001 - whatever it is, the process ends with it
        traceback.print_exc()
    # The thread that listens holds the input: an orderly end would wait for it, and abort.
    os._exit(code)


if __name__ == "__main__":
    main()
