"""The public keys of an issuer (JSON Web Key Set), from a URL or a file: cached, and renewed with a limit."""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headway.codec import decode
from headway.engine.service import LOG
from headway.errors import HeadwayError, InputError
from headway.outbox.addresses import Address, Resolve, address_of, is_public, resolve

FRESH_FOR = 600.0
PAUSE = 30.0
"""Minimum seconds between two reads of a source, however many tokens name an unknown key."""
SECONDS = 5.0
LARGEST = 256_000
MOST_KEYS = 100
OK = 200


class JwksError(HeadwayError):
    """The keys of an issuer cannot be read."""


class Jwks:
    """The keys at `https://…` or in a file. What was read last stays good while the source cannot be read."""

    def __init__(
        self,
        source: str,
        *,
        allow_private: bool = False,
        tls: ssl.SSLContext | None = None,
        look_up: Resolve = resolve,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`allow_private` lets the URL lead into the operator's own network, also by plain http.

        Raises InputError for a URL that cannot be used.
        """
        self.source, self._allow_private = source, allow_private
        self._address = _address(source, allow_private=allow_private) if "://" in source else None
        self._tls, self._look_up, self._monotonic = tls, look_up, monotonic
        self._keys: Sequence[dict[str, Any]] | None = None
        self._read_at, self._tried_at = float("-inf"), float("-inf")
        self._one_at_a_time = asyncio.Lock()

    async def keys(self, *, unknown: bool = False) -> Sequence[dict[str, Any]]:
        """The keys; with `unknown`, those that are there now, if that was not asked a moment ago.

        Raises JwksError when none could ever be read.
        """
        is_old = self._monotonic() - self._read_at >= FRESH_FOR
        is_under_way = self._one_at_a_time.locked() and self._keys is not None
        if unknown or (is_old and not is_under_way):
            await self._renew()
        if self._keys is None:
            raise JwksError(f"the keys at {self.source} cannot be read")
        return self._keys

    async def _renew(self) -> None:
        async with self._one_at_a_time:
            if self._monotonic() - self._tried_at < PAUSE:
                return
            self._tried_at = self._monotonic()
            try:
                self._keys = await self.read()
                self._read_at = self._tried_at
            except JwksError as error:
                LOG.warning("%s", error)

    async def read(self) -> Sequence[dict[str, Any]]:
        """The keys that are there now; raises JwksError, which says why they cannot be read."""
        try:
            return _keys_in(await self._read())
        except (OSError, ValueError, http.client.HTTPException, HeadwayError) as error:
            raise JwksError(f"the keys at {self.source} cannot be read: {error}") from error

    async def _read(self) -> bytes:
        if self._address is None:
            return await asyncio.to_thread(_in_file, self.source)
        addresses = await self._look_up(self._address.host, self._address.port)
        if not addresses or (not self._allow_private and not all(map(is_public, addresses))):
            raise JwksError("its name has no address, or a private one, which is not allowed")
        return await asyncio.to_thread(_fetched, self._address, addresses[0], self._tls)


class Pinned(http.client.HTTPConnection):
    """A connection to an address that was checked, while name and certificate stay those of the host."""

    def __init__(self, place: Address, to: str, tls: ssl.SSLContext | None) -> None:
        super().__init__(place.host, place.port, timeout=SECONDS)
        self._to, self._tls = to, tls

    def connect(self) -> None:
        """Connect to the address, not to what the name means now."""
        self.sock = socket.create_connection((self._to, self.port), self.timeout)
        if self._tls is not None:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self.host)


def _fetched(place: Address, to: str, tls: ssl.SSLContext | None) -> bytes:
    """The body of a plain answer: no redirect is followed, no proxy and no cookie used."""
    context = (tls or ssl.create_default_context()) if place.scheme == "https" else None
    connection = Pinned(place, to, context)
    try:
        connection.request(
            "GET", place.target, headers={"Host": place.authority, "Accept": "application/json"}
        )
        answer = connection.getresponse()
        if answer.status != OK:
            raise JwksError(f"the key server answered with HTTP status {answer.status}")
        return answer.read(LARGEST + 1)
    finally:
        connection.close()


def _in_file(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(LARGEST + 1)


def _keys_in(text: bytes) -> Sequence[dict[str, Any]]:
    if len(text) > LARGEST:
        raise JwksError(f"a key set has at most {LARGEST:,} bytes")
    keys = decode(dict[str, Any], text).get("keys")
    if not isinstance(keys, list) or len(keys) > MOST_KEYS:
        raise JwksError(f"not a key set of at most {MOST_KEYS} keys")
    return [key for key in keys if isinstance(key, dict)]


def _address(url: str, *, allow_private: bool) -> Address:
    try:
        address = address_of(url, allow_private=allow_private)
    except InputError as error:
        raise InputError(f"the address of a key set: {error}") from error
    if address.scheme != "https" and not allow_private:
        raise InputError(
            "a key set comes by https, unless the issuer is in a private network that is allowed"
        )
    return address
