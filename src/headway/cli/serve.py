"""`headway serve` and `headway worker`: the service, as a whole or in parts."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Annotated, Any

import typer
from rich.text import Text

from headway.cli.dev import NODE, reload_on_change, require_local
from headway.cli.lifecycles import apps_of, registered, without_handlers
from headway.cli.node import ServicePart, node_of, untaken_of
from headway.cli.output import CommandError, errors_to, out, print_error
from headway.cli.settings import App, Config, Database, settings_of
from headway.engine.stranded import stranded_instances
from headway.errors import HeadwayError
from headway.lifecycle import Lifecycle
from headway.node import Node
from headway.settings import ABOUT, Settings, SettingValue

DEVELOPMENT = "For development: restarts when a source file changes; charts may change under their version."
MEND_STRANDED = "rename the state back, or delete the database if it is for development"
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
Dev = Annotated[
    bool,
    typer.Option(
        "--dev",
        help="For development: restart when a source file changes, and let charts change under their"
        " version.",
    ),
]
DevRemote = Annotated[
    bool,
    typer.Option("--dev-remote", help="Allow --dev with a host or a database that is not on this machine."),
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
    dev: Dev = False,
    dev_remote: DevRemote = False,
) -> None:
    """Run the service: HTTP API, worker, relays and timers, in one process or each on its own."""
    load = partial(
        settings_of,
        config,
        host=host,
        port=port,
        database=database,
        app=app,
        lifecycles=tuple(lifecycle or ()) or None,
    )
    parts = tuple(only or ServicePart)
    settings = load()
    require_named(settings)
    if not dev:
        run_service(settings, lifecycle_of(settings), parts, listening_for(settings, parts))
        return
    with listening_for(settings, parts) or nullcontext() as listening:
        if not dev_remote:
            require_local(settings, listening)
        reload_on_change(partial(_serve_in_development, load, parts, dev_remote=dev_remote), listening)
    errors_to().print("Stopped.", style="dim")


def _serve_in_development(
    load: Callable[..., Settings],
    parts: Sequence[ServicePart],
    listening: socket.socket | None,
    *,
    dev_remote: bool,
    restarted: bool,
) -> None:
    """Serve in a child process, with the settings and the source as they are now."""
    try:
        settings = load(node=load().node or NODE)
        if not dev_remote:
            require_local(settings, listening)
        run_service(settings, lifecycle_of(settings), parts, listening, dev=True, restarted=restarted)
    except HeadwayError as error:
        print_error(error)
        sys.exit(2)


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
    require_named(settings)
    lifecycle_to_run = lifecycle_of(settings)
    if not lifecycle_to_run.handlers.names:
        raise CommandError(
            "no handler to run: name a lifecycle that has handlers, as in --app shop:lifecycle"
        )
    run_service(settings, lifecycle_to_run, [ServicePart.worker])


def require_named(settings: Settings) -> None:
    """Raises CommandError unless a lifecycle is named: the work of others could wait for ever."""
    if not settings.app and not settings.lifecycles:
        known = ", ".join(registered()) or "none"
        raise CommandError(
            "no lifecycle is named: name yours with --app module:name, or as app in headway.toml"
            " (headway init makes a project that has one), or a registered one with --lifecycle"
            f" ({known}). headway demo runs an example."
        )


def lifecycle_of(settings: Settings) -> Lifecycle:
    """The named lifecycles as one; raises CommandError when they have no chart."""
    lifecycle = apps_of(settings).lifecycle
    if not lifecycle.charts:
        raise CommandError(f"{settings.app or ', '.join(settings.lifecycles)} has no charts to run")
    return lifecycle


def run_service(
    settings: Settings,
    lifecycle: Lifecycle,
    parts: Sequence[ServicePart],
    listening: socket.socket | None = None,
    *,
    dev: bool = False,
    restarted: bool = False,
) -> None:
    """Run until the process is stopped; in `dev`, charts may change under their version.

    When `restarted`, the messages without a destination are not listed again.
    """
    service = load_service()

    async def main() -> None:
        node = node_of(settings, lifecycle, parts, charts_may_change=dev)
        address = address_of(listening, settings.host) if listening else None
        telling: list[asyncio.Future[None]] = []  # the event loop keeps no task alive

        def announced(key: str | None) -> None:
            _announce(address, key, parts, lifecycle, database=settings.database, dev=dev)
            _tell_unknown(node)
            if dev:
                telling.append(asyncio.ensure_future(_tell_stranded(node)))
            if ServicePart.relays in parts and not restarted:
                _tell_untaken(settings, lifecycle)

        await service.ServiceProcess(node, settings, listening).run(announced)

    with listening or nullcontext():
        service.run(main())
    if not dev:
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


def _tell_unknown(node: Node) -> None:
    """Print the chart versions whose instances this node leaves to other nodes."""
    for each in node.presence.unknown:
        errors_to().print(Text.assemble(("left to other nodes: ", "yellow"), str(each)), soft_wrap=True)


async def _tell_stranded(node: Node) -> None:
    """Print the instances in states that their changed chart no longer has."""
    for each in await stranded_instances(node.engine.store, node.engine.charts):
        line = f"{each}: {MEND_STRANDED}"
        errors_to().print(Text.assemble(("stranded: ", "yellow"), line), soft_wrap=True)


def _tell_untaken(settings: Settings, lifecycle: Lifecycle) -> None:
    """Print the messages that are published here and that no destination takes."""
    for each in untaken_of(settings, lifecycle):
        errors_to().print(Text.assemble(("no destination takes: ", "yellow"), each), soft_wrap=True)


def _announce(
    address: str | None,
    key: str | None,
    parts: Iterable[ServicePart],
    lifecycle: Lifecycle,
    *,
    database: str,
    dev: bool,
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
    if dev:
        console.print(DEVELOPMENT, style="yellow", soft_wrap=True)
    console.print("Ctrl-C stops it.", style="dim")
    console.file.flush()


def listening_for(settings: Settings, parts: Sequence[ServicePart]) -> socket.socket | None:
    """The socket of the API: the one a service manager passes, or a new one; None without the API."""
    if ServicePart.api not in parts:
        return None
    return passed_on() or listen(settings.host, [settings.port])


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
