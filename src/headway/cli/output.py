"""What commands print: tables, JSON, progress, and errors as one message on stderr."""

from __future__ import annotations

import json
import linecache
import os
import sys
import traceback
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shutil import which

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from headway.errors import DefinitionError, HeadwayError
from headway.statechart.drawings import labels

PADDING, NARROWEST, WIDEST = 2, 8, 10_000
MOST_FRAMES = 3
OWN_FOLDER = Path(__file__).resolve().parents[1]


class Terminal(Console):
    """A console that prints no control characters: names and data of callers could contain them."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments without control characters; colours are not part of their text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(_harmless(segment.text), segment.style)


def _harmless(text: str) -> str:
    kept = (each if each == "\n" or unicodedata.category(each) != "Cc" else "\ufffd" for each in text)
    return text if text.isprintable() else "".join(kept)


def out() -> Console:
    """Where a command writes its answer: as wide as the terminal, and not wrapped for a pipe or a file."""
    return Terminal(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else WIDEST)


def errors_to() -> Console:
    """Where a command prints errors and notices."""
    return Terminal(file=sys.stderr, highlight=False, soft_wrap=True)


def print_error(error: HeadwayError) -> None:
    """Print an error that was raised on purpose."""
    errors_to().print(Text.assemble(("error: ", "bold red"), str(error)))


def first_line(text: str) -> str:
    """The first line of a text."""
    return labels.plain(text.strip().partition("\n")[0])


def table_of(*heads: str, whole: Collection[str] = ()) -> Table:
    """An empty table with these headings; `show_table` never wraps the `whole` columns."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, PADDING, 0, 0))
    add = partial(table.add_column, overflow="fold")
    for head in heads:
        add(head, no_wrap=head in whole)
    return table


def show_table(table: Table) -> None:
    """Print a table, wider than the terminal if its whole columns need it; without rows, print "none"."""
    console = out()
    if not table.row_count:
        console.print("none", style="dim")
        return
    console.width = max(console.width, sum(map(_least, table.columns)))
    console.print(table)


def _least(column: Column) -> int:
    """How narrow a column may become."""
    wide = Console(width=WIDEST)
    needed = max(Measurement.get(wide, wide.options, cell).maximum for cell in (column.header, *column.cells))
    return PADDING + (needed if column.no_wrap else min(needed, NARROWEST))


@contextmanager
def progress(what: str, total: int | None, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show progress for the length of a block; call the given function with the number of items done."""
    console = errors_to()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    hidden = quiet or not console.is_terminal
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(what, total=total)
        yield lambda seen: bar.update(task, completed=seen)


def write(text: str) -> None:
    """Print text as it is."""
    write_bytes(text.encode())


def write_bytes(content: bytes, output: Path | None = None) -> None:
    """Print bytes as they are, or write them to a file; raises CommandError."""
    if output is None:
        sys.stdout.buffer.write(content)
        return
    try:
        output.write_bytes(content)
    except OSError as error:
        raise CommandError(f"{output} cannot be written: {error.strerror}") from error
    errors_to().print(f"wrote {output}")


def as_json(document: object) -> str:
    """Data as indented JSON."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def listed(names: Iterable[str], last: str = "or") -> str:
    """Names as in "approve, decline or question"."""
    *others, end = names
    return f"{', '.join(others)} {last} {end}" if others else end


def when(at: datetime) -> str:
    """A time as commands print it, with its zone."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def command() -> str:
    """How to call this program from the current folder: by name, or by path if it is not on the PATH."""
    program = Path(sys.argv[0])
    if program.name != "headway" or which("headway") == str(program.absolute()):
        return "headway"
    return os.path.relpath(program)


class CommandError(HeadwayError):
    """A command cannot continue; the text says why, and what to do."""


def blame(what: str, error: BaseException) -> CommandError:
    """The error of a user's module, with the lines of that module in the traceback."""
    if isinstance(error, DefinitionError):
        return CommandError(str(error))
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_the_users(frame.filename)]
    lines = [_place(frame) for frame in places[-MOST_FRAMES:]]
    if isinstance(error, SyntaxError) and error.filename:
        lines.append(f"  {error.filename}:{error.lineno}: {(error.text or '').strip()}")
    said = str(error) or "no message"
    return CommandError("\n".join([f"{what}: {type(error).__name__}: {said}", *lines]))


def _is_the_users(filename: str) -> bool:
    return not filename.startswith("<frozen") and not Path(filename).is_relative_to(OWN_FOLDER)


def _place(frame: traceback.FrameSummary) -> str:
    source = frame.line or linecache.getline(frame.filename, frame.lineno or 0).strip()
    return f"  {frame.filename}:{frame.lineno}: {source}"
