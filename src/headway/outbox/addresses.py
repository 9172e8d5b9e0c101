"""Network addresses: parses URLs, resolves names, and distinguishes private from public addresses."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from threading import Thread
from urllib.parse import SplitResult, urlsplit

from headway.errors import InputError

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Looks up the IP addresses of a host name; raises OSError."""

PORTS = {"http": 80, "https": 443}
HIGH_PORTS = 1024
HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9])?\.?")
TARGET = re.compile(r"[!-~]*")
UNICAST = ip_network("2000::/3")
EMBEDDING = ip_network("64:ff9b::/96")
"""NAT64: the last four bytes are an IPv4 address."""

# Networks that older Python versions do not know as special, and those that embed IPv4 addresses.
SPECIAL = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",  # this host
        "100.64.0.0/10",  # carrier-grade NAT
        "192.0.0.0/24",  # protocol assignments
        "192.88.99.0/24",  # 6to4 relays
        "198.18.0.0/15",  # benchmarks
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
)


@dataclass(frozen=True)
class Address:
    """A parsed URL. It is parsed once, so that no two parsers can disagree about it."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def address_of(url: str, *, allow_private: bool = False) -> Address:
    """Parse a URL; raises InputError, whose text does not contain the URL."""
    parts, port = _split(url)
    if parts.scheme not in PORTS:
        raise InputError("the URL must begin with http:// or https://")
    if "@" in parts.netloc:
        raise InputError("the URL must not contain a user or password: use headers")
    if parts.fragment:
        raise InputError("the URL must not have a fragment")
    host = _host(parts.hostname or "")
    port = PORTS[parts.scheme] if port is None else port
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not TARGET.fullmatch(target):
        raise InputError("the path must be ASCII: percent-encode other characters")
    if not allow_private:
        _must_be_public(host, port)
    return Address(parts.scheme, host, port, target)


def _split(url: str) -> tuple[SplitResult, int | None]:
    # urlsplit silently removes tabs and line ends.
    if any(char <= " " or char == "\\" for char in url):
        raise InputError("the URL must not contain spaces or backslashes")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InputError("not a URL") from None
    if port == 0:
        raise InputError("not a port: 0")
    return parts, port


def _host(name: str) -> str:
    """A host name in ASCII, or an IP address in its usual form."""
    if ":" in name:
        try:
            return str(ip_address(name))
        except ValueError:
            raise InputError("not an IP address") from None
    try:
        host = name.encode("idna").decode().lower()
    except UnicodeError:
        raise InputError("not a host name") from None
    if not HOST.fullmatch(host):
        raise InputError("not a host name")
    return host


def _must_be_public(host: str, port: int) -> None:
    if port < HIGH_PORTS and port not in PORTS.values():
        raise InputError(f"port {port} is reserved for another service")
    try:
        ip_address(host)
    except ValueError:
        return  # A name: its addresses are checked before each delivery.
    if not is_public(host):
        raise InputError(f"{host} is a private address, which is not allowed")


class Resolver:
    """Looks up host names with the system's resolver, each name on a thread of its own.

    A lookup cannot be cancelled, so calls for the same name share one: a name whose server hangs occupies one
    thread, and does not delay lookups of other names.
    """

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, int], Future[Sequence[str]]] = {}

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses; raises OSError."""
        found = self._under_way.get((host, port))
        if found is None:
            found = self._under_way[host, port] = Future()
            thread = Thread(target=self._look_up, args=(host, port, found), name="headway-names", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # no more threads
                del self._under_way[host, port]
                raise OSError(f"{host} cannot be looked up: {error}") from error
        # A caller that times out must not cancel it for the others.
        return await asyncio.shield(asyncio.wrap_future(found))

    def _look_up(self, host: str, port: int, found: Future[Sequence[str]]) -> None:
        try:
            answer = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = [*dict.fromkeys(str(place[0]) for *_, place in answer)]
        except Exception as error:  # noqa: BLE001 - it is raised in the callers
            self._under_way.pop((host, port))
            found.set_exception(error)
        else:
            self._under_way.pop((host, port))
            found.set_result(addresses)


resolve = Resolver()
"""One for the process, so that no name is looked up twice at the same time."""


def is_public(address: str) -> bool:
    """Whether an IP address is on the public Internet; False for text that is not an IP address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    plain = _unwrapped(parsed)
    if isinstance(plain, IPv6Address) and plain not in UNICAST:
        return False
    special = any(plain.version == network.version and plain in network for network in SPECIAL)
    return plain.is_global and not plain.is_multicast and not plain.is_reserved and not special


def _unwrapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 address embeds, if it does; else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(address.packed[-4:]) if address in EMBEDDING else address
