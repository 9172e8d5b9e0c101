"""`headway serve` and `headway worker`: the service, as a whole or in parts."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from headway.cli.lifecycles import Apps, apps_of, without_handlers
from headway.cli.node import ServicePart, node_of, untaken_of
from headway.cli.output import CommandError, errors_to, out
from headway.cli.settings import App, Config, Database, settings_of
from headway.lifecycle import Lifecycle
from headway.node import Node
from headway.settings import ABOUT, Settings, SettingValue

FIRST_PASSED = 3
"""The first file descriptor that a service manager passes (see sd_listen_fds)."""


Only = Annotated[
    list[ServicePart] | None,
    typer.Option("--only", help="Run only this part; may be given several times. Default: all parts."),
]
Host = Annotated[str | None, typer.Option("--host", help=ABOUT["host"])]
Port = Annotated[int | None, typer.Option("--port", help=ABOUT["port"])]
Lifecycles = Annotated[
    list[str] | None,
    typer.Option("--lifecycle", help="A registered lifecycle to run; may be given several times."),
]


def serve(
    only: Only = None,
    *,
    host: Host = None,
    port: Port = None,
    database: Database = None,
    app: App = None,
    lifecycle: Lifecycles = None,
    config: Config = None,
) -> None:
    """Run the service: HTTP API, worker, relays and timers, in one process or each on its own."""
    settings = settings_of(
        config, host=host, port=port, database=database, app=app, lifecycles=tuple(lifecycle or ()) or None
    )
    apps = apps_of(settings)
    _tell_left_out(apps)
    run_service(settings, apps.lifecycle, only or tuple(ServicePart))


def worker(
    *,
    queue: Annotated[
        list[str] | None,
        typer.Option("--queue", help="A queue to take work from; may be given several times."),
    ] = None,
    capacity: Annotated[int | None, typer.Option("--capacity", help=ABOUT["capacity"])] = None,
    database: Database = None,
    app: App = None,
    lifecycle: Lifecycles = None,
    config: Config = None,
) -> None:
    """Run handlers only: the same as `serve --only worker`."""
    settings = settings_of(
        config,
        queues=tuple(queue or ()) or None,
        capacity=capacity,
        database=database,
        app=app,
        lifecycles=tuple(lifecycle or ()) or None,
    )
    apps = apps_of(settings)
    if not apps.lifecycle.handlers.names:
        raise CommandError(
            "no handler to run: name a lifecycle that has handlers, as in --app shop:lifecycle"
        )
    _tell_left_out(apps)
    run_service(settings, apps.lifecycle, [ServicePart.worker])


Announce = Callable[[str | None, str | None], None]
"""Called with the address and with the first key, where there is one."""


def run_service(
    settings: Settings, lifecycle: Lifecycle, parts: Sequence[ServicePart], announce: Announce | None = None
) -> None:
    """Run until the process is stopped."""
    service = load_service()
    listening = (passed_on() or listen(settings.host, [settings.port])) if ServicePart.api in parts else None
    tell = announce or (
        lambda address, key: _announce(address, key, parts, lifecycle, database=settings.database)
    )

    async def main() -> None:
        node = node_of(settings, lifecycle, parts)
        address = address_of(listening, settings.host) if listening else None

        def announced(key: str | None) -> None:
            tell(address, key)
            _tell_unknown(node)
            if ServicePart.relays in parts:
                _tell_untaken(settings, lifecycle)

        await service.ServiceProcess(node, settings, listening).run(announced)

    with listening or nullcontext():
        service.run(main())
    errors_to().print("Stopped.", style="dim")


def load_service() -> Any:
    """The module that runs the service, imported only by commands that need it; raises CommandError."""
    try:
        from headway.cli import service  # noqa: PLC0415 - other commands start without a web server
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("headway"):
            raise
        raise CommandError(f"the service needs {error.name}: pip install 'headway[service]'") from error
    return service


def _tell_left_out(apps: Apps) -> None:
    for each in apps.left_out:
        errors_to().print(f"[yellow]left out:[/] {escape(each.name)}: {escape(each.why)}")
    if not apps.lifecycle.charts:
        raise CommandError("no lifecycle to run: name one, as in --app shop:lifecycle, or try headway demo")


def _tell_unknown(node: Node) -> None:
    """Print the chart versions whose instances this node leaves to other nodes."""
    for each in node.presence.unknown:
        errors_to().print(Text.assemble(("left to other nodes: ", "yellow"), str(each)), soft_wrap=True)


def _tell_untaken(settings: Settings, lifecycle: Lifecycle) -> None:
    """Print the messages that are published here and that no destination takes."""
    for each in untaken_of(settings, lifecycle):
        errors_to().print(Text.assemble(("no destination takes: ", "yellow"), each), soft_wrap=True)


def _announce(
    address: str | None, key: str | None, parts: Iterable[ServicePart], lifecycle: Lifecycle, *, database: str
) -> None:
    console = out()
    count = len(lifecycle.charts)
    title = Text.assemble(("Headway", "bold"), f" {', '.join(parts)} with {count} chart{'s' * (count != 1)}")
    if address:
        title.append(" at ").append(address, "bold cyan")
    title.append(f", on {SettingValue('database', database, '').masked}")
    console.print("", title, sep="\n", soft_wrap=True)
    if ServicePart.worker in parts:
        for line in without_handlers(lifecycle):
            console.print(Text.assemble(("no handler: ", "yellow"), line), soft_wrap=True)
    if key is not None:
        console.print(Text.assemble("The first key, shown this once: ", (key, "bold green")), soft_wrap=True)
    console.print("Ctrl-C stops it.", style="dim")
    console.file.flush()


def passed_on() -> socket.socket | None:
    """The socket that a service manager passes to this process and keeps open during restarts."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        return None
    return socket.socket(fileno=FIRST_PASSED)


def listen(host: str, ports: Iterable[int]) -> socket.socket:
    """A socket that listens on the first free port; raises CommandError."""
    tried = []
    for port in ports:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listening = socket.socket(family, kind, protocol)
        except OSError as error:
            raise CommandError(f"{host} is not an address of this machine: {error.strerror}") from error
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
        except OSError as error:
            listening.close()
            if error.errno == errno.EADDRNOTAVAIL:
                raise CommandError(f"{host} is not an address of this machine") from error
            tried.append(f"port {port} on {host}: {(error.strerror or str(error)).lower()}")
            continue
        listening.listen()
        return listening
    raise CommandError(f"cannot listen on {tried[0]}; name another one with --port")


def address_of(listening: socket.socket, host: str) -> str:
    """The address to open in a browser."""
    port = listening.getsockname()[1]
    name = "127.0.0.1" if host in {"0.0.0.0", "::", ""} else host  # noqa: S104 - compared, not bound
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"
