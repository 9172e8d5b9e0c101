"""Charts as pictures: runs Graphviz on the source that `headway.statechart.dot` writes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection
from typing import Literal

from headway.errors import HeadwayError, InputError
from headway.statechart.chart import Charted
from headway.statechart.dot import dot

Format = Literal["svg", "png"]
FORMATS: tuple[Format, ...] = ("svg", "png")
LONGEST = 60.0


class GraphvizMissing(HeadwayError):  # noqa: N818 - what is the matter, said as people say it
    """The program that draws is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "Graphviz is not installed: there is no `dot` on the PATH. On Debian and Ubuntu it is the "
            "package graphviz: sudo apt-get install graphviz. Mermaid and the tables need no Graphviz."
        )


class DrawingError(HeadwayError):
    """Graphviz did not draw the chart; the text says what it said."""


async def draw(
    chart: Charted,
    format: Format = "svg",  # noqa: A002 - the word of every drawing program
    *,
    highlight: Collection[str] = (),
    timeout: float = LONGEST,  # noqa: ASYNC109 - the program is ended, not only awaited no longer
) -> bytes:
    """The chart as an SVG or PNG file, `highlight` filled as active; raises GraphvizMissing, DrawingError."""
    if format not in FORMATS:
        raise InputError(f"a drawing is svg or png, not {format!r}")
    source = dot(chart, highlight=highlight)
    program = shutil.which("dot")
    if program is None:
        raise GraphvizMissing
    return await _run(program, f"-T{format}", source.encode(errors="replace"), timeout)


async def _run(program: str, option: str, source: bytes, seconds: float) -> bytes:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(program, option, stdin=pipe, stdout=pipe, stderr=pipe)
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
