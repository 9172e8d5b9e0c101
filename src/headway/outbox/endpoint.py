"""An endpoint: where a tenant's webhooks go, and their signatures (https://www.standardwebhooks.com)."""

from __future__ import annotations

import hmac
import re
import secrets
from base64 import b64decode, b64encode
from binascii import Error as NotBase64Error
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from headway.clock import milliseconds
from headway.errors import InputError
from headway.outbox.addresses import Address, address_of
from headway.outbox.destination import SENT, STANDARD, Backoff, MessageFilter, several

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
HEADER_VALUE = re.compile(r"[\t -~]*")
PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64
OURS = frozenset({"connection", "content-length", "content-type", "host", "transfer-encoding", "upgrade"})


@dataclass(frozen=True)
class Endpoint:
    """Where a tenant's webhooks go.

    With several secrets each message is signed with all of them, so that a receiver can rotate secrets. Its
    `repr` shows neither secrets nor headers nor the path, which may contain a secret.
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

    @property
    def filter(self) -> MessageFilter:
        """Which messages it wants."""
        return MessageFilter(several(self.kinds), several(self.events), self.tenant)

    def __post_init__(self) -> None:
        """Parse the URL and check all fields."""
        object.__setattr__(self, "address", address_of(self.url, allow_private=self.allow_private))
        object.__setattr__(self, "keys", tuple(signing_key(secret) for secret in several(self.secret)))
        if not self.keys:
            raise InputError(f"endpoint {self.id} needs a secret")
        kinds = several(self.kinds)
        if not kinds or not SENT.issuperset(kinds):
            known = ", ".join(sorted(SENT))
            raise InputError(f"the kinds of endpoint {self.id} must be of {known}, not {kinds}")
        if not milliseconds(self.timeout):
            raise InputError(f"the timeout of endpoint {self.id} must be more than 0")
        for name, value in self.headers.items():
            _check_header(name, value)


def _check_header(name: str, value: str) -> None:
    if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
        raise InputError("a header must be a name and one line of printable ASCII text")
    if name.lower() in OURS or name.lower().startswith("webhook-"):
        raise InputError(f"the header {name} is set by Headway")


def new_secret() -> str:
    """A new secret to share with a receiver."""
    return PREFIX + b64encode(secrets.token_bytes(32)).decode()


def signing_key(secret: str) -> bytes:
    """The key of a secret; raises InputError, whose text does not contain the secret."""
    try:
        if not secret.startswith(PREFIX):
            raise ValueError  # noqa: TRY301 - one text for all mistakes
        key = b64decode(secret.removeprefix(PREFIX), validate=True)
    except (NotBase64Error, ValueError, AttributeError):
        # Without the cause, which could show the secret.
        raise InputError(f"a secret must be {PREFIX} followed by base64") from None
    if not SHORTEST <= len(key) <= LONGEST:
        raise InputError(f"a secret must have {SHORTEST} to {LONGEST} bytes, not {len(key)}")
    return key


def signature_headers(keys: Sequence[bytes], message: str, at: datetime, body: bytes) -> dict[str, str]:
    """The headers with which a receiver verifies sender and time of a body; one signature for each key."""
    timestamp = str(int(at.timestamp()))
    content = b".".join((message.encode(), timestamp.encode(), body))
    signatures = [f"v1,{b64encode(hmac.digest(key, content, 'sha256')).decode()}" for key in keys]
    return {
        "webhook-id": message,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(signatures),
    }
