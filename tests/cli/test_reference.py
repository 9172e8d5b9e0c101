"""The reference of the command line is complete: it says what the commands say of themselves."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from starlette.routing import Mount, Route

from headway.cli.explorer.app import explorer
from headway.cli.main import app

pytestmark = pytest.mark.mission("ENG-18")

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/cli.md").read_text(encoding="utf-8")
SECTIONS = {
    heading.strip("`"): " ".join(body.split())
    for heading, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}


def commands(command: object, path: str) -> Iterator[tuple[str, object]]:
    """Every command that does something, with the words it is called by."""
    below = getattr(command, "commands", {})
    if not below or path == "headway":
        yield path, command
    for name, each in below.items():
        yield from commands(each, f"{path} {name}")


COMMANDS = dict(commands(typer.main.get_command(app), "headway"))


def section(path: str) -> str:
    """The section of a command; its heading may go on with arguments."""
    [found] = [body for heading, body in SECTIONS.items() if re.fullmatch(rf"{path}( [^a-z].*)?", heading)]
    return found


@pytest.mark.parametrize("path", COMMANDS)
def test_each_command_has_a_section_that_says_what_its_help_says(path: str) -> None:
    """The help, every option and every option's help stand in the command's section."""
    command, text = COMMANDS[path], section(path)
    if path != "headway":
        assert " ".join(command.help.split()) in text  # type: ignore[attr-defined]  # a command of click
    for option in command.params:  # type: ignore[attr-defined]  # a command of click
        for name in option.opts:
            assert not name.startswith("-") or f"`{name}" in text, name
        assert option.name in {"name", "names"} or option.help in text, option.name


def test_no_section_is_about_a_command_that_is_gone() -> None:
    """Every heading that names a command names one there is."""
    named = [heading for heading in SECTIONS if heading.startswith("headway")]
    assert len(named) == len(COMMANDS)


def test_every_call_of_the_explorer_is_listed() -> None:
    """The table of calls names each route of the interface, and no other."""
    [api] = [route for route in explorer([]).routes if isinstance(route, Mount) and route.path == "/api"]
    routes = {
        (verb, f"/api{route.path.replace('{session}', '{id}')}")
        for route in api.routes
        if isinstance(route, Route)
        for verb in route.methods or ()
        if verb != "HEAD"
    }
    assert routes == set(re.findall(r"^\| `([A-Z]+) (/api[^`?]*)", PAGE, re.MULTILINE))
