"""What is read of a request before anything else: its body, what its headers ask for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from starlette.types import Receive

from headway.api.bodies import wrong
from headway.api.problems import Problem
from headway.codec import require_depth
from headway.errors import InputError

REPLAYED = (b"idempotency-replayed", b"true")
"""The header of a repeated answer."""
REQUEST_ID = "http:"
"""Prefix of the engine's request id of a request over HTTP."""
JSON = b"application/json"
UTF8 = frozenset({b"utf-8", b"utf8"})
MOST_DRAINED = 16
"""A body that is too large is read on, up to so many times the limit, so that its sender hears why."""
FAREWELL = {"Connection": "close"}
KEY = re.compile(rb"[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?")
TAG = re.compile(rb'"(0|[1-9][0-9]{0,17})"')
ONCE = {
    name.lower().encode(): name
    for name in (
        "Authorization",
        "Content-Type",
        "Host",
        "Idempotency-Key",
        "If-Match",
        "Last-Event-ID",
        "Origin",
    )
}
"""Headers that decide who calls and what is done: of two nobody knows which one was meant."""


def is_json(content_type: bytes) -> bool:
    """Whether a content type is that of JSON in UTF-8."""
    kind, *parameters = (part.strip().lower() for part in content_type.split(b";"))
    named = dict(part.partition(b"=")[::2] for part in parameters)
    return kind == JSON and named.get(b"charset", b"utf-8").strip(b'"') in UTF8


def headers_of(raw: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The headers by their names; raises Problem 400 for one that may be given once only."""
    headers = dict(raw)
    if len(headers) != len(raw):
        _check_doubles(name for name, _ in raw)
    return headers


def _check_doubles(names: Iterable[bytes]) -> None:
    seen = set()
    for name in names:
        if name in ONCE and name in seen:
            raise Problem("doubled_header", f"the header {ONCE[name]} is given once")
        seen.add(name)


async def read_body(receive: Receive, headers: Mapping[bytes, bytes], limit: int) -> bytes:
    """The whole body; raises Problem 413 for one that is too large, and 415 for one that is not JSON."""
    length = int(headers.get(b"content-length", b"0"))
    if length > limit * MOST_DRAINED:
        raise too_large(limit)
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body", False):
        body = await _rest(receive, body, limit)
    if len(body) > limit:
        raise too_large(limit)
    require_json(headers, body)
    return body


def require_json(headers: Mapping[bytes, bytes], body: bytes) -> None:
    """Raises Problem 415 for a body that is not said to be JSON, and 400 for one that is nested too deep."""
    kind = headers.get(b"content-type", b"")
    if kind != JSON and body and not is_json(kind):
        raise Problem("media_type")
    try:
        require_depth(body)
    except InputError as error:
        raise Problem("malformed", str(error)) from error


async def _rest(receive: Receive, first: bytes, limit: int) -> bytes:
    parts, size, more = [first], len(first), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem("malformed", "the connection was closed before the body was there")
        part = message.get("body", b"")
        size, more = size + len(part), message.get("more_body", False)
        if size <= limit:
            parts.append(part)
        elif size > limit * MOST_DRAINED:
            break
    if size > limit:
        raise too_large(limit)
    return b"".join(parts)


def too_large(limit: int) -> Problem:
    """The problem of a body that is too large."""
    return Problem("too_large", f"a body has at most {limit:,} bytes", headers=FAREWELL)


def request_key(headers: Mapping[bytes, bytes]) -> str | None:
    """The caller's key of the request; raises Problem 422 for one that cannot be."""
    key = headers.get(b"idempotency-key")
    if key is None:
        return None
    if KEY.fullmatch(key) is None:
        place = "header.Idempotency-Key"
        raise wrong(place, "it has 1 to 255 visible characters of ASCII")
    return key.decode("ascii")


def expected_seq(headers: Mapping[bytes, bytes]) -> int | None:
    """The version that the caller expects; raises Problem 422 for what is no version."""
    tag = headers.get(b"if-match")
    if tag is None or tag.strip() == b"*":
        return None
    match = TAG.fullmatch(tag.strip())
    if match is None:
        raise wrong("header.If-Match", 'it is one ETag of the instance, as in "3", or *')
    return int(match[1])
