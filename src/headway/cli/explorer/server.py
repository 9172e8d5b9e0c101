"""Runs the explorer on a port of this machine until it is interrupted."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable
from ipaddress import ip_address

import uvicorn

from headway.cli.catalogue import Found
from headway.cli.explorer.app import explorer
from headway.cli.failure import CommandError


def run(found: Iterable[Found], host: str, ports: Iterable[int], announce: Callable[[str], None]) -> None:
    """Serve on the first free port of these, announce the address, and return when interrupted."""
    listening = listen(host, ports)
    app = explorer(found, hosts=host_names(host))
    config = uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=1)
    announce(address_of(listening, host))
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass  # the way to end it
    finally:
        listening.close()


def listen(host: str, ports: Iterable[int]) -> socket.socket:
    """A socket that listens on the first free port; raises CommandError."""
    tried = []
    for port in ports:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listening = socket.socket(family, kind, protocol)
        except OSError as error:
            raise CommandError(f"{host} is no address of this machine: {error.strerror}") from error
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
        except OSError as error:
            listening.close()
            if error.errno == errno.EADDRNOTAVAIL:
                raise CommandError(f"{host} is no address of this machine") from error
            tried.append(f"port {port} on {host}: {(error.strerror or str(error)).lower()}")
            continue
        listening.listen()
        return listening
    raise CommandError(f"cannot listen on {tried[0]}; name another one: headway serve --port 8001")


def address_of(listening: socket.socket, host: str) -> str:
    """The address to open in a browser."""
    port = listening.getsockname()[1]
    name = "127.0.0.1" if host in {"0.0.0.0", "::", ""} else host  # noqa: S104 - compared, not bound
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"


def host_names(host: str) -> tuple[str, ...]:
    """The names callers may use: for loopback only its own, else this machine's and any bare address."""
    try:
        local = ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    return (host,) if local else (host, socket.gethostname().lower(), "*")
