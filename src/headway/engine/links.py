"""Signed links by which a person answers one ask, once, without a login."""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256

from headway.codec import Value, decode, encode
from headway.errors import HeadwayError, InputError, LinkError
from headway.statechart.snapshot import Actor
from headway.store.rows import AskRow

SHORTEST_SECRET = 16
LONGEST_TOKEN = 4_000
MARK = b"headway link 1:"


class Link(Value):
    """What a link allows: this person, in these roles, answers this ask until then."""

    tenant: str
    ask: str
    opened_at: datetime
    by: Actor
    expires_at: datetime
    nonce: str

    @property
    def request_id(self) -> str:
        """The request id of the link's one use: a double click gets the first answer again."""
        return f"link:{self.nonce}"


class Signer:
    """Makes links and reads them. The first secret signs; all are accepted, so that one can be replaced."""

    def __init__(self, secrets_: Sequence[str]) -> None:
        if not secrets_ or min(map(len, secrets_)) < SHORTEST_SECRET:
            raise LinkError(f"links need a secret of at least {SHORTEST_SECRET} characters")
        self._keys = [secret.encode() for secret in secrets_]

    def sign(self, ask: AskRow, by: Actor, expires_at: datetime) -> str:
        """A token that allows one answer to an ask, and to no later one of the same id.

        Raises InputError when names and roles are too long for one.
        """
        nonce = secrets.token_urlsafe(12)
        link = Link(ask.tenant, ask.id, ask.opened_at, by, expires_at=expires_at, nonce=nonce)
        body = encode(link)
        token = f"{_text(body)}.{_text(_signature(self._keys[0], body))}"
        if len(token) > LONGEST_TOKEN:
            raise InputError("names and roles are too long for a link")
        return token

    def read(self, token: str, now: datetime) -> Link:
        """What a token allows; raises LinkError when it is forged or has run out."""
        link = self._verified(token)
        if link.expires_at <= now:
            raise LinkError("the link has run out")
        return link

    def _verified(self, token: str) -> Link:
        body, _, signature = token.partition(".") if len(token) <= LONGEST_TOKEN else ("", "", "")
        try:
            raw, given = _bytes(body), _bytes(signature)
        except ValueError as error:
            raise LinkError("not a link") from error
        if not any(hmac.compare_digest(_signature(key, raw), given) for key in self._keys):
            raise LinkError("not a link that was given out here")
        try:
            return decode(Link, raw)
        except HeadwayError as error:
            raise LinkError("not a link of this version") from error


def _signature(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, MARK + body, sha256)


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
