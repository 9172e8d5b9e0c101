"""`headway explore`: the chart explorer on this machine."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from headway.cli.lifecycles import BrokenEntry, NamedChart, find_all, load_registered
from headway.cli.output import CommandError, command, errors_to, out

FIRST_PORT = 8000
PORTS_TO_TRY = 20


def explore(
    charts: Annotated[
        list[str] | None, typer.Argument(help="The charts to show. Default: all registered charts.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Any address but loopback is open to the network.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="The port. Default: the first free one from 8000 on; 0 picks any free one.",
        ),
    ] = None,
) -> None:
    """Look at charts and step through them in a browser."""
    try:
        from headway.cli.explorer.app import run  # noqa: PLC0415 - the other commands start without a web server
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("headway"):
            raise
        raise CommandError(f"the explorer needs {error.name}: pip install 'headway[service]'") from error
    found = find_all(charts) if charts else _registered()
    ports = range(FIRST_PORT, FIRST_PORT + PORTS_TO_TRY) if port is None else (port,)
    run(found, host, ports, lambda address: _announce(address, found))
    out().print("\nStopped.", style="dim")


def _registered() -> list[NamedChart]:
    every = load_registered()
    found = [each for each in every if isinstance(each, NamedChart)]
    for each in every:
        if isinstance(each, BrokenEntry):
            errors_to().print(f"[yellow]left out:[/] {escape(each.why)}", highlight=False)
    if not found:
        raise CommandError("no chart is registered: name one, as in headway explore mymodule:MyChart")
    return found


def _announce(address: str, found: list[NamedChart]) -> None:
    console, name, headway = out(), found[0].name, command()
    count = "1 chart" if len(found) == 1 else f"{len(found)} charts"
    console.print(f"\n[bold]Headway[/] explorer with {count} at [bold cyan]{address}[/]\n", highlight=False)
    console.print("Try in another terminal:", style="dim")
    for line in (
        f"{headway} chart show {name}",
        f"{headway} chart check {name}",
        f"{headway} chart draw {name} -o chart.svg",
    ):
        console.print(f"  {escape(line)}", highlight=False, soft_wrap=True)
    console.print("\nCtrl-C stops it.", style="dim")
    console.file.flush()
