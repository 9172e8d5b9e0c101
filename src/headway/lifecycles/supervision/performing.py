"""Inside the process of a worker: performs one task after the other, and stands still at safe points.

Speaks lines of JSON with the service: a task comes in, safe points and the outcome go out, and after each
safe point the process waits to be told to go on. It ends when nobody is left to tell it anything.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from io import TextIOWrapper
from queue import SimpleQueue
from threading import Thread
from typing import Any

from headway.codec import decode, encode

LARGEST = 900_000
"""Bytes of JSON of a result, or of the value of a safe point: they travel in events of at most 1 MB."""
CODE = re.compile(r"[A-Za-z_][\w-]{0,99}", re.ASCII)
TAKEN = frozenset({"crashed", "host_lost"})
"""What is said of a process that is gone, and by none of itself."""

Perform = Callable[["Part"], Any]
"""What performs a task: its result is the task's. See `code_of` for what an exception means."""


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
    """Run as `python -m headway.lifecycles.supervision.performing module:function worker`."""
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
