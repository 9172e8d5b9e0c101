"""Charts as pictures: runs Graphviz on the source that `headway.statechart.drawings.dot` writes."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
from collections import OrderedDict
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import Literal

from headway.errors import DrawingError, GraphvizMissingError, InputError
from headway.statechart.chart import Chart, Charted, chart_of
from headway.statechart.drawings.dot import dot

__all__ = [
    "Drawings",
    "draw",
]

Format = Literal["svg", "png"]
FORMATS: tuple[Format, ...] = ("svg", "png")
LONGEST = 60.0
AT_ONCE = 2
"""How many Graphviz processes run at a time, so that calls that draw nothing are answered too."""
MOST_KEPT = 100
MOST_MEMORY = 1 << 30
NICENESS = 10


async def draw(
    chart: Charted,
    format: Format = "svg",  # noqa: A002 - the word of every drawing program
    *,
    highlight: Collection[str] = (),
    timeout: float = LONGEST,  # noqa: ASYNC109 - the program is ended, not only awaited no longer
) -> bytes:
    """The chart as an SVG or PNG file, `highlight` filled as active; raises DrawingError."""
    if format not in FORMATS:
        raise InputError(f"a drawing is svg or png, not {format!r}")
    source = dot(chart, highlight=highlight)
    program = shutil.which("dot")
    if program is None:
        raise GraphvizMissingError
    return await _run(program, f"-T{format}", source.encode(errors="replace"), timeout)


Key = tuple[Chart, Format, frozenset[str]]


class Drawings:
    """Draws each chart once, as a version never changes, and few charts at a time."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        """Keeps the `most` drawings that were asked for last."""
        self._most = most
        self._running: dict[Key, asyncio.Task[bytes]] = {}
        self._kept: OrderedDict[Key, bytes] = OrderedDict()
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def draw(
        self,
        chart: Charted,
        format: Format = "svg",  # noqa: A002 - the word of every drawing program
        *,
        highlight: Collection[str] = (),
    ) -> bytes:
        """As the function `draw` does; those who ask for the same drawing wait for one program."""
        key = (chart_of(chart), format, frozenset(highlight))
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        if key not in self._running:
            task = self._running[key] = asyncio.create_task(self._make(key))
            task.add_done_callback(partial(self._made, key))
        # Who goes away does not take the drawing from those who wait for the same.
        return await asyncio.shield(self._running[key])

    async def _make(self, key: Key) -> bytes:
        chart, format_, highlight = key
        async with self._turns:
            return await draw(chart, format_, highlight=highlight)

    def _made(self, key: Key, task: asyncio.Task[bytes]) -> None:
        del self._running[key]
        if task.cancelled() or task.exception() is not None:
            return
        self._kept[key] = task.result()
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)


async def _run(program: str, option: str, source: bytes, seconds: float) -> bytes:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(program, option, stdin=pipe, stdout=pipe, stderr=pipe)
    _restrain(process.pid)
    try:
        async with asyncio.timeout(seconds):
            drawn, said = await process.communicate(source)
    except TimeoutError as error:
        raise DrawingError(f"Graphviz was still drawing after {seconds:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise DrawingError(f"Graphviz failed: {said.decode(errors='replace').strip()}")
    return drawn


def _restrain(pid: int) -> None:
    """Limit the memory of a program that waits for its input, and give it a lower priority."""
    with suppress(OSError):  # it has ended already
        os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
        if hasattr(resource, "prlimit"):  # only Linux has it
            resource.prlimit(pid, resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
