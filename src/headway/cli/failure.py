"""What a command says when it cannot go on: one message on stderr, and exit code 2."""

from __future__ import annotations

import linecache
import traceback
from pathlib import Path

from headway.errors import DefinitionError, HeadwayError

MOST_FRAMES = 3
OWN_FOLDER = Path(__file__).resolve().parents[1]


class CommandError(HeadwayError):
    """A command cannot do what it was asked; the text says why, and what would help."""


def blame(what: str, error: BaseException) -> CommandError:
    """The error of a user's own module, with the lines of it that matter."""
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
