"""`headway`: all commands, and how their errors are printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from typing import Annotated

import typer

from headway.cli.asks import answer, inbox, link
from headway.cli.audit import audit
from headway.cli.charts import chart, charts
from headway.cli.db import db
from headway.cli.demo import demo
from headway.cli.doctor import doctor
from headway.cli.explorer.command import explore
from headway.cli.init import init
from headway.cli.instances import cancel, create, instances, send, why
from headway.cli.keys import keys
from headway.cli.operations import bulk, letters
from headway.cli.output import print_error
from headway.cli.serve import serve, worker
from headway.cli.settings import config
from headway.cli.tail import tail
from headway.cli.upgrade import command as upgrade
from headway.errors import HeadwayError

ABOUT = "Durable statecharts: declare, run, follow and explain them."

app = typer.Typer(
    name="headway",
    help=ABOUT,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - called by typer with the flag's value
    if wanted:
        sys.stdout.write(f"headway {_version()}\n")
        raise typer.Exit


def _version() -> str:
    try:
        return version("headway")
    except PackageNotFoundError:
        return "(not installed)"


@app.callback()
def options(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Durable statecharts: declare, run, follow and explain them."""


PANELS: dict[str, dict[str, Callable[..., None] | typer.Typer]] = {
    "Run it": {
        "init": init,
        "demo": demo,
        "serve": serve,
        "worker": worker,
        "config": config,
        "doctor": doctor,
    },
    "Instances": {
        "instances": instances,
        "create": create,
        "send": send,
        "cancel": cancel,
        "why": why,
        "inbox": inbox,
        "answer": answer,
        "link": link,
        "tail": tail,
    },
    "Charts": {"charts": charts, "chart": chart, "explore": explore, "upgrade": upgrade},
    "Operations": {"letters": letters, "bulk": bulk},
    "Administration": {"db": db, "keys": keys, "audit": audit},
}
"""All commands, as the help shows them."""

for panel, commands in PANELS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; an error raised on purpose is one message on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that cannot show an arrow gets a question mark, not a traceback.
            stream.reconfigure(errors="replace")
    try:
        app(arguments)
    except HeadwayError as error:
        print_error(error)
        sys.exit(2)
    finally:
        _flush()


def _flush() -> None:
    """Flush stdout; a reader that closed early (`headway … | head`) must not cause a traceback."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
