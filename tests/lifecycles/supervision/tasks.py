"""What the workers of the tests do: a task is a line of words, the first of which says how it goes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

from headway.lifecycles.supervision.process import NetworkError, Part, ResourcesExhaustedError


def perform(part: Part) -> Any:
    """Do what the description says."""
    how, *words = part.description.split()
    print("what a task prints disturbs nobody")  # noqa: T201 - the point of it
    return HOW[how](part, words)


def _echo(part: Part, _words: list[str]) -> Any:
    return {"part": part.number, "of": part.of, "by": os.getpid()}


def _steps(part: Part, words: list[str]) -> Any:
    """`steps FILE N`: writes N lines, and may be paused after each; goes on when the file says so."""
    notes, count = Path(words[0]), int(words[1])
    for number in range(part.reached or 0, count):
        with notes.open("a") as file:
            file.write(f"{os.getpid()} {number}\n")
        part.safe_point(number + 1)
    return count


def _stumble(part: Part, words: list[str]) -> Any:
    """`stumble FILE N HOW`: like `steps`, but who comes to the middle first dies, or lacks memory."""
    notes, count = Path(words[0]), int(words[1])
    for number in range(part.reached or 0, count):
        if number == count // 2 and not part.reached:
            if words[2] == "dies":
                os.abort()
            raise MemoryError
        with notes.open("a") as file:
            file.write(f"{os.getpid()} {number}\n")
        part.safe_point(number + 1)
    return count


def _wait(part: Part, words: list[str]) -> Any:
    """`wait FILE`: until there is a file of this name; `FILE.begun` says who waits."""
    path = Path(words[0])
    own = path.with_suffix(f".{os.getpid()}")  # workers of one job wait for the same file
    own.write_text(str(os.getpid()))
    own.rename(path.with_suffix(".begun"))
    while not path.exists():
        time.sleep(0.01)  # another process decides when
    return _echo(part, words)


def _halt(part: Part, words: list[str]) -> Any:
    """`halt FILE N`: like `steps`, but in the middle it waits until there is `FILE.go`."""
    notes, count = Path(words[0]), int(words[1])
    for number in range(part.reached or 0, count):
        if number == count // 2:
            _wait(part, [f"{notes}.go"])
        with notes.open("a") as file:
            file.write(f"{os.getpid()} {number}\n")
        part.safe_point(number + 1)
    return count


def _stride(part: Part, words: list[str]) -> Any:
    """`stride FILE N M`: like `steps`, but a process that has done M steps waits to be killed."""
    notes, count, most = Path(words[0]), int(words[1]), int(words[2])
    for done, number in enumerate(range(part.reached or 0, count)):
        with notes.open("a") as file:
            file.write(f"{os.getpid()} {number if done < most else 'waits'}\n")
        if done == most:
            Event().wait()
        part.safe_point(number + 1)
    return count


def _fail(_part: Part, words: list[str]) -> Any:
    """`fail FILE N KIND`: so many times, counted in the file."""
    tried, count = Path(words[0]), int(words[1])
    before = tried.read_text().count("x") if tried.exists() else 0
    tried.write_text("x" * (before + 1))
    if before < count:
        raise ERRORS[words[2]]("as it was told")
    return before


def _say(part: Part, words: list[str]) -> Any:
    """`say WHAT N`: so much is said at a safe point, or as the result."""
    text = "x" * int(words[1])
    if words[0] == "point":
        part.safe_point(text)
    return text


def _burden(part: Part, words: list[str]) -> Any:
    """`burden N WORDS`: whoever comes first says so much at a safe point, and dies."""
    if part.reached is None:
        part.safe_point("x" * int(words[0]))
        os.abort()
    return len(part.reached)


def _raise(_part: Part, words: list[str]) -> Any:
    """`raise CODE`: an error with a code of its own, whatever that is."""
    error = ValueError("as it was told")
    error.code = " ".join(words)  # type: ignore[attr-defined]  # any exception may have one
    raise error


def _leave(_part: Part, words: list[str]) -> Any:
    sys.exit(int(words[0]))


def _die(_part: Part, _words: list[str]) -> Any:
    os.abort()


HOW: dict[str, Callable[[Part, list[str]], Any]] = {
    "echo": _echo,
    "steps": _steps,
    "stumble": _stumble,
    "wait": _wait,
    "halt": _halt,
    "stride": _stride,
    "fail": _fail,
    "say": _say,
    "burden": _burden,
    "raise": _raise,
    "leave": _leave,
    "die": _die,
}
ERRORS: dict[str, type[Exception]] = {
    "network": NetworkError,
    "reset": ConnectionResetError,
    "resources": ResourcesExhaustedError,
    "memory": MemoryError,
    "other": ValueError,
}
