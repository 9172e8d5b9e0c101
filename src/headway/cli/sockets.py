"""Where a server of this machine listens, and how it is called."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable

from headway.cli.failure import CommandError

FIRST_PASSED = 3
"""The first socket that a service manager passes on (see sd_listen_fds)."""


def passed_on() -> socket.socket | None:
    """The socket that a service manager holds open for this process, also while it is started anew."""
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
    raise CommandError(f"cannot listen on {tried[0]}; name another one with --port")


def address_of(listening: socket.socket, host: str) -> str:
    """The address to open in a browser."""
    port = listening.getsockname()[1]
    name = "127.0.0.1" if host in {"0.0.0.0", "::", ""} else host  # noqa: S104 - compared, not bound
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"
