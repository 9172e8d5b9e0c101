"""An endpoint: where a tenant's webhooks go, and what is refused before anything is sent there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from headway.clock import milliseconds
from headway.errors import InputError
from headway.outbox.addresses import is_public
from headway.outbox.destination import SENT, STANDARD, Backoff, several
from headway.outbox.signing import key_of

PORTS = {"http": 80, "https": 443}
HIGH_PORTS = 1024
HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9])?\.?")
TARGET = re.compile(r"[!-~]*")
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
HEADER_VALUE = re.compile(r"[\t -~]*")
OURS = frozenset({"connection", "content-length", "content-type", "host", "transfer-encoding", "upgrade"})


@dataclass(frozen=True)
class Address:
    """A URL taken apart, so that nobody has to read it again and find something else in it."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """What the header Host says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True)
class Endpoint:
    """Where a tenant's webhooks go.

    With several secrets each message is signed with all of them, so that a receiver can change from one
    to the next. Its representation shows neither secrets nor headers nor the path, which may hold one.
    Raises InputError for a URL, a secret, a kind or a header that cannot be used.
    """

    id: str
    url: str = field(repr=False)
    secret: str | Sequence[str] = field(repr=False)
    tenant: str = field(kw_only=True)
    events: str | Sequence[str] = field(default="*", kw_only=True)
    kinds: str | Sequence[str] = field(default="webhook", kw_only=True)
    headers: Mapping[str, str] = field(default_factory=dict, kw_only=True, repr=False)
    allow_private: bool = field(default=False, kw_only=True)
    timeout: str | float = field(default="15s", kw_only=True)
    backoff: Backoff = field(default=STANDARD, kw_only=True, repr=False)
    address: Address = field(init=False, repr=False)
    keys: tuple[bytes, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Take the URL apart, and refuse what cannot be used."""
        object.__setattr__(self, "address", address_of(self.url, allow_private=self.allow_private))
        object.__setattr__(self, "keys", tuple(key_of(secret) for secret in several(self.secret)))
        if not self.keys:
            raise InputError(f"the endpoint {self.id} has no secret")
        kinds = several(self.kinds)
        if not kinds or not SENT.issuperset(kinds):
            known = ", ".join(sorted(SENT))
            raise InputError(f"the kinds of messages for the endpoint {self.id} are of {known}, not {kinds}")
        if not milliseconds(self.timeout):
            raise InputError(f"the endpoint {self.id} has no time to answer")
        for name, value in self.headers.items():
            _check_header(name, value)


def _check_header(name: str, value: str) -> None:
    if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
        raise InputError("a header has a name and one line of printable text")
    if name.lower() in OURS or name.lower().startswith("webhook-"):
        raise InputError(f"the header {name} is not for endpoints to choose")


def address_of(url: str, *, allow_private: bool = False) -> Address:
    """A URL taken apart; raises InputError, which does not repeat the URL."""
    parts, port = _split(url)
    if parts.scheme not in PORTS:
        raise InputError("a webhook goes to http or https")
    if "@" in parts.netloc:
        raise InputError("a webhook's URL holds no user and no password: use headers")
    if parts.fragment:
        raise InputError("a webhook's URL has no fragment")
    host = _host(parts.hostname or "")
    port = PORTS[parts.scheme] if port is None else port
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not TARGET.fullmatch(target):
        raise InputError("a webhook's path is plain ASCII: encode the rest with %")
    if not allow_private:
        _must_be_public(host, port)
    return Address(parts.scheme, host, port, target)


def _split(url: str) -> tuple[SplitResult, int | None]:
    # urlsplit drops tabs and line ends without a word.
    if any(char <= " " or char == "\\" for char in url):
        raise InputError("a webhook's URL has no blanks and no backslashes")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InputError("not a URL") from None
    if port == 0:
        raise InputError("not a port: 0")
    return parts, port


def _host(name: str) -> str:
    """A host's name in ASCII, or an address as it is."""
    if ":" in name:
        try:
            return str(ip_address(name))
        except ValueError:
            raise InputError("not an address") from None
    try:
        host = name.encode("idna").decode().lower()
    except UnicodeError:
        raise InputError("not a host's name") from None
    if not HOST.fullmatch(host):
        raise InputError("not a host's name")
    return host


def _must_be_public(host: str, port: int) -> None:
    if port < HIGH_PORTS and port not in PORTS.values():
        raise InputError(f"port {port} belongs to something else than webhooks")
    try:
        ip_address(host)
    except ValueError:
        return  # A name: what it means is looked up before each delivery.
    if not is_public(host):
        raise InputError(f"{host} is a private address, and the endpoint does not allow those")
