"""`headway demo`: the service with a small lifecycle and people who use it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from headway.cli.node import node_of
from headway.cli.output import CommandError, command, errors_to, out
from headway.cli.serve import Host, address_of, listen, load_service
from headway.settings import Settings
from headway.statechart.snapshot import Actor

APP = "headway.lifecycles.demo.shop:lifecycle"
FIRST_PORT = 8000
PORTS_TO_TRY = 20
FOLDER = Path("headway-demo")
AS_JSON = "-H 'Content-Type: application/json'"
WISH = '{"chart": "Purchase", "context": {"item": "chair", "price": 250, "employee": "you"}}'
VISITOR = Actor("you", "person", frozenset({"manager", "employee"}))
FILE = """\
# Written by `headway demo`: the commands that it prints read this file.
database = "sqlite:///{database}"
app = "{app}"
keep_instances = "1h"
"""


def demo(
    *,
    traffic: Annotated[
        bool, typer.Option("--traffic/--no-traffic", help="Whether simulated people use it.")
    ] = True,
    host: Host = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="The port. Default: the first free one from 8000 on."),
    ] = None,
    folder: Annotated[
        Path, typer.Option("--folder", help="The folder of its database and settings.")
    ] = FOLDER,
) -> None:
    """Run the service with a small approval lifecycle on SQLite, and print commands to try."""
    from headway.lifecycles.demo.shop import (  # noqa: PLC0415 - other commands start without the demo
        Traffic,
        lifecycle,
    )

    service = load_service()
    settings = _written(folder, host or Settings().host)
    ports = range(FIRST_PORT, FIRST_PORT + PORTS_TO_TRY) if port is None else [port]
    listening = listen(settings.host, ports)

    async def main() -> None:
        node = node_of(settings, lifecycle)
        await service.ServiceProcess(node, settings, listening).run(
            lambda key: _say(address_of(listening, settings.host), str(key), folder / "headway.toml"),
            key=lambda keyring: keyring.make(
                settings.tenant, VISITOR, ["admin"], name="demo", lasts="1d", by="headway demo"
            ),
            beside=Traffic(node.tenant(settings.tenant)) if traffic else None,
        )

    with listening:
        service.run(main())
    errors_to().print("Stopped.", style="dim")


def _written(folder: Path, host: str) -> Settings:
    """The demo's settings, which the commands that it prints read from a file."""
    try:
        if not folder.exists():
            folder.mkdir(parents=True)
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
        database = folder.resolve() / "headway.db"
        (folder / "headway.toml").write_text(FILE.format(database=database, app=APP), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error.strerror}; name another --folder") from error
    return Settings(database=f"sqlite:///{database}", host=host, app=APP, keep_instances="1h")


def _say(address: str, key: str, file: Path) -> None:
    console, headway = out(), command()
    lines = (
        f"curl -H 'Authorization: Bearer {key}' '{address}v1/instances?limit=3'",
        f"{headway} tail --count 5 --config {file}",
        f"{headway} inbox --role manager --config {file}",
        f"curl -H 'Authorization: Bearer {key}' {AS_JSON} -d '{WISH}' '{address}v1/instances'",
    )
    title = Text.assemble(("Headway", "bold"), " demo at ", (address, "bold cyan"))
    credential = Text.assemble("Your key: ", (key, "bold green"))
    invitation = Text("Try in another terminal:", "dim")
    for part in (
        Text(),
        title,
        credential,
        Text(),
        invitation,
        *(Text(f"  {line}") for line in lines),
        Text(),
    ):
        console.print(part, soft_wrap=True)
    console.print("Ctrl-C stops it.", style="dim")
    console.file.flush()
