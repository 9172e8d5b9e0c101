"""Idempotency keys over HTTP: which request it is, and the stored form of an answer.

The engine keeps the answers (`headway.engine.requests`). A route that takes `RequestId` makes one call to the
engine, which gets the key; the answer of any other POST route is stored by `headway.api.route`.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from starlette.responses import Response

from headway.api.access import Caller
from headway.api.call import HttpCall, Reply, json_response
from headway.api.problems import PROBLEM_JSON, Problem
from headway.codec import Value, decode, encode, fingerprint
from headway.engine.orders import own_id
from headway.engine.requests import Request
from headway.errors import InputError

REPLAYED = (b"idempotency-replayed", b"true")
"""The header of a repeated answer."""
REQUEST_ID = "http:"
"""Prefix of the engine's request id of a request over HTTP."""
LOWEST_ERROR, CONFLICT = 400, 409
STORED_HEADERS = frozenset({"content-type", "location", "etag", "cache-control"})


class StoredResponse(Value):
    """An answer as it is stored."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def stored_text(response: Response) -> str:
    """A response as it is stored."""
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers]
    own = [(name, value) for name, value in headers if name in STORED_HEADERS]
    return encode(StoredResponse(response.status_code, own, bytes(response.body))).decode()


def stored_json(data: object) -> str:
    """The response 200 with data as JSON, as it is stored."""
    return stored_text(json_response(data))


def secret_shown(path: str, **extra: Any) -> str:
    """What is stored for an answer that holds a secret; `extra` are members of the problem."""
    problem = Problem("secret_told", **extra)
    headers = [("content-type", PROBLEM_JSON)]
    return encode(StoredResponse(problem.status, headers, problem.document(path))).decode()


def stored_reply(text: str) -> Reply:
    """The response that is stored."""
    stored = decode(StoredResponse, text)
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in stored.headers]
    return Reply(stored.status, stored.body, headers)


def repeated(text: str) -> Reply:
    """The response that is stored, marked as a repeat."""
    reply = stored_reply(text)
    reply.raw_headers.append(REPLAYED)
    return reply


def is_stored(response: Response) -> bool:
    """Whether an answer is stored: something was done, or it was refused as a conflict."""
    return response.status_code < LOWEST_ERROR or response.status_code == CONFLICT


def request_id_of(caller: Caller, key: str) -> str:
    """The engine's request id of a request with a key.

    The credentials of a tenant share their keys, but each end user has keys of their own: nobody else can use
    them up, or learn that they were used.
    """
    whole = REQUEST_ID + key
    return own_id("own", whole, caller.actor.id) if caller.actor.own else whole


def request_of(call: HttpCall, caller: Caller, request_id: str) -> Request:
    """The request that a call with a request id is."""
    return Request((caller.tenant, request_id), _asked(call, caller), call.path)


def _asked(call: HttpCall, caller: Caller) -> str:
    """A fingerprint of the request: the same for JSON that differs only in spaces and the order of keys."""
    asked = (call.method, call.path, call.query.decode("latin-1"), caller.actor, _canonical(call.body))
    return sha256(fingerprint(asked)).hexdigest()


def _canonical(body: bytes) -> bytes:
    try:
        return fingerprint(decode(object, body))
    except InputError:
        return body
