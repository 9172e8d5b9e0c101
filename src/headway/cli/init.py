"""`headway init`: a project with a small lifecycle to start from. Its files are in `starter/`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePath
from typing import Annotated

import typer
from rich.text import Text

from headway.cli.output import CommandError, out

SUFFIX = ".txt"
"""What the files of the starter end in, so that no tool takes them for a part of Headway."""
HIDDEN = {"gitignore": ".gitignore"}
REPOSITORY = ".git"
"""A folder with nothing else in it counts as empty."""


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="The folder: a new or an empty one.")
    ] = Path(),
) -> None:
    """Make a project with a small lifecycle to start from: chart, handlers, tests and settings."""
    try:
        _require_empty(folder)
        for path, text in _starter(files("headway.cli") / "starter", PurePath()):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error.strerror}") from error
    _say(folder)


def _require_empty(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder} is not a folder: name a new one, as in headway init refunds")
    if folder.exists() and any(each.name != REPOSITORY for each in folder.iterdir()):
        name = "the current folder" if folder == Path() else folder
        raise CommandError(
            f"{name} is not empty, so nothing was changed: name a new folder, as in headway init refunds"
        )


def _starter(place: Traversable, below: PurePath) -> Iterator[tuple[PurePath, str]]:
    """Each file of the starter: its path in the project, and its text."""
    for each in place.iterdir():
        if each.is_dir():
            yield from _starter(each, below / each.name)
        elif each.name.endswith(SUFFIX):
            name = each.name.removesuffix(SUFFIX)
            yield below / HIDDEN.get(name, name), each.read_text(encoding="utf-8")


def _say(folder: Path) -> None:
    console = out()
    made = f" made a lifecycle of refunds in {folder.resolve()}"
    console.print(Text.assemble(("✓", "bold green"), made), soft_wrap=True)
    console.print("Next:", style="dim")
    if folder != Path():
        console.print(f"  cd {shlex.quote(str(folder))}", markup=False, soft_wrap=True)
    console.print("  headway serve --dev   runs it; README.md shows what to try")
    console.print("  pytest                runs its tests")
