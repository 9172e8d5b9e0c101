"""Runs the explorer on a port of this machine until it is interrupted."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from ipaddress import ip_address

import uvicorn

from headway.cli.catalogue import Found
from headway.cli.explorer.app import explorer
from headway.cli.sockets import address_of, listen


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


def host_names(host: str) -> tuple[str, ...]:
    """The names callers may use: for loopback only its own, else this machine's and any bare address."""
    try:
        local = ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    return (host,) if local else (host, socket.gethostname().lower(), "*")
