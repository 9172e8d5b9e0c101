"""Which addresses on the network are anybody's, and which belong to somebody's own network."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from threading import Thread

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host's name; raises OSError."""

UNICAST = ip_network("2000::/3")
EMBEDDING = ip_network("64:ff9b::/96")
"""NAT64: the last four bytes are an IPv4 address."""

# What no table of older Python versions holds, and what reaches an IPv4 address in disguise.
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


class Resolver:
    """Finds the addresses of hosts' names as the system does, each name on a thread of its own.

    A lookup cannot be ended, so whoever asks for the name meanwhile waits for the same one: a name whose
    server hangs takes one thread, and holds up nobody who asks for another.
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
            except RuntimeError as error:  # there are too many threads
                del self._under_way[host, port]
                raise OSError(f"{host} cannot be looked up: {error}") from error
        # Who has no more time for it must not end it for the others.
        return await asyncio.shield(asyncio.wrap_future(found))

    def _look_up(self, host: str, port: int, found: Future[Sequence[str]]) -> None:
        try:
            answer = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = [*dict.fromkeys(str(place[0]) for *_, place in answer)]
        except Exception as error:  # noqa: BLE001 - it is for those who wait
            self._under_way.pop((host, port))
            found.set_exception(error)
        else:
            self._under_way.pop((host, port))
            found.set_result(addresses)


resolve = Resolver()
"""For all of this process, so that no name is looked up twice at the same time."""


def is_public(address: str) -> bool:
    """Whether an address belongs to the open Internet; what is no address at all does not."""
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
    """The IPv4 address inside an IPv6 one, where there is one that the network would go to."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(address.packed[-4:]) if address in EMBEDDING else address
