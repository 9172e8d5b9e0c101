"""Signatures as Standard Webhooks describes them (https://www.standardwebhooks.com)."""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode, b64encode
from binascii import Error as NotBase64Error
from collections.abc import Sequence
from datetime import datetime

from headway.errors import InputError

PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64


def new_secret() -> str:
    """A secret to share with a receiver."""
    return PREFIX + b64encode(secrets.token_bytes(32)).decode()


def key_of(secret: str) -> bytes:
    """The key that a secret holds; raises InputError, which does not repeat the secret."""
    try:
        if not secret.startswith(PREFIX):
            raise ValueError  # noqa: TRY301 - one answer for whatever is wrong with it
        key = b64decode(secret.removeprefix(PREFIX), validate=True)
    except (NotBase64Error, ValueError, AttributeError):
        # Without its cause, which could show the secret.
        raise InputError(f"a secret reads {PREFIX} and then base64") from None
    if not SHORTEST <= len(key) <= LONGEST:
        raise InputError(f"a secret holds {SHORTEST} to {LONGEST} bytes, not {len(key)}")
    return key


def signed(keys: Sequence[bytes], message: str, at: datetime, body: bytes) -> dict[str, str]:
    """The headers that let a receiver check who sent a body, and when; one signature for each key."""
    timestamp = str(int(at.timestamp()))
    content = b".".join((message.encode(), timestamp.encode(), body))
    signatures = [b64encode(hmac.digest(key, content, "sha256")).decode() for key in keys]
    return {
        "webhook-id": message,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
