"""`headway serve --dev`: the service in a child process that is started again when a source file changes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from headway.cli.output import CommandError, errors_to
from headway.settings import Settings

SOURCES = frozenset({".py", ".toml"})
LOOKS_EVERY = 0.5
"""Seconds between two looks at the source files."""
PATIENCE = 3.0
"""Seconds that a child has to stop before it is ended at once: its work is taken up again by the next."""
NODE = "dev"
"""The name of the node: under one name, the next child takes up the work of the one before at once."""

Seen = Mapping[Path, tuple[int, int]]


class Serve(Protocol):
    """Serves on a socket until the process is stopped."""

    def __call__(self, listening: socket.socket | None, *, restarted: bool) -> None:
        """`restarted` is whether it was started before."""


class SourceFiles:
    """The source files below a folder; `changed` compares them with the last look."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = self._look()

    def changed(self) -> list[Path]:
        """The files that are new, different or gone since the last look."""
        before, self._seen = self._seen, self._look()
        files = before.keys() | self._seen.keys()
        return sorted(file for file in files if before.get(file) != self._seen.get(file))

    def _look(self) -> Seen:
        return dict(_sources(self._folder))


def _sources(folder: Path) -> Iterator[tuple[Path, tuple[int, int]]]:
    """Each source file with its time and size, except in hidden folders and virtual environments."""
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _is_foreign(Path(place, name))]
        for name in files:
            path = Path(place, name)
            if path.suffix in SOURCES:
                try:
                    state = path.stat()
                except FileNotFoundError:
                    continue
                yield path, (state.st_mtime_ns, state.st_size)


def _is_foreign(folder: Path) -> bool:
    unwanted = folder.name.startswith(".") or folder.name in {"__pycache__", "node_modules"}
    return unwanted or (folder / "pyvenv.cfg").exists()


def require_local(settings: Settings, listening: socket.socket | None) -> None:
    """Raises CommandError unless service and database are on this machine only."""
    host = "" if listening is None else _host_of(listening)
    if host and not _is_loopback(host):
        raise CommandError(
            f"--dev is for development, and {host} is open to the network: leave --host out,"
            " or add --dev-remote"
        )
    for server in _servers(settings.database):
        if not _is_loopback(server):
            raise CommandError(
                f"--dev replaces charts in the database, and the one at {server} is not on this machine:"
                " name another --database, or add --dev-remote"
            )


def _host_of(listening: socket.socket) -> str:
    address = listening.getsockname()
    return str(address[0]) if isinstance(address, tuple) else ""


def _servers(database: str) -> list[str]:
    """The hosts of a database, found where asyncpg looks for them; a folder is that of a local socket."""
    if database.startswith("sqlite:"):
        return []
    parts = urlsplit(database)
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    named = parts.netloc.partition("@")[2] if "@" in parts.netloc else parts.netloc
    named = named or given.get("host", "")
    if not named and (service := given.get("service") or os.environ.get("PGSERVICE")):
        return [f"the service {service}"]
    hosts = map(_host_name, (named or os.environ.get("PGHOST", "")).split(","))
    return [host for host in hosts if host and not host.startswith("/")]


def _host_name(place: str) -> str:
    """The host of `host:port`, `[address]:port` or a folder."""
    name = place[1:].partition("]")[0] if place.startswith("[") else place.partition(":")[0]
    return unquote(name)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def reload_on_change(serve: Serve, listening: socket.socket | None) -> None:
    """Run `serve` in a child process, again after each change of a source file, until SIGINT or SIGTERM.

    The parent keeps the socket open: calls during a restart wait instead of failing.
    """
    sources, stop = SourceFiles(Path.cwd()), threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    restarted = False
    while not stop.is_set():
        child = _started(serve, listening, restarted=restarted)
        restarted = True
        changed = _until_changed(sources, stop, child)
        _end(child)
        if changed:
            names = ", ".join(os.path.relpath(path) for path in changed)
            errors_to().print(f"{names} changed: restarting", style="dim", markup=False)


def _started(serve: Serve, listening: socket.socket | None, *, restarted: bool) -> BaseProcess:
    child = multiprocessing.get_context("spawn").Process(
        target=_child, args=(serve, listening), kwargs={"restarted": restarted}
    )
    child.start()
    return child


def _child(serve: Serve, listening: socket.socket | None, *, restarted: bool) -> None:
    """Serve in a process group of its own, so that only the parent gets the terminal's Ctrl-C."""
    os.setpgid(0, 0)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    serve(listening, restarted=restarted)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _until_changed(sources: SourceFiles, stop: threading.Event, child: BaseProcess) -> Sequence[Path]:
    """The files that have changed; none when the command is to stop."""
    waits = False
    while not stop.wait(LOOKS_EVERY):
        if changed := sources.changed():
            return changed
        if not child.is_alive() and not waits:
            waits = True
            errors_to().print("The service has ended: waiting for a change of a source file.", style="yellow")
    return ()


def _end(child: BaseProcess) -> None:
    """Stop the child as SIGTERM does; at once if it takes too long."""
    for _ in range(2):
        child.terminate()
        child.join(PATIENCE)
    child.kill()
    child.join()
    child.close()
