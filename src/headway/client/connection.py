"""What both drivers share: requests and errors of httpx as the calls know them, and where the service is."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import httpx

from headway.client.actions import ConnectionFailure, HttpReply, HttpRequest
from headway.client.requests import header_text
from headway.errors import InputError

LOCAL = "http://127.0.0.1:8000"
SILENCE = 45.0
"""Seconds without data after which a stream counts as lost: the service sends something every 15."""
NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.LocalProtocolError,
)


class ServiceAddress(NamedTuple):
    """Where the service is, and with which credential it is called."""

    url: str
    key: str
    timeout: float

    @classmethod
    def given(cls, url: str | None, key: str | None, timeout: float) -> ServiceAddress:
        """From arguments, else HEADWAY_URL and HEADWAY_KEY; raises InputError for a wrong URL or no key.

        No error quotes the URL or the key: both may hold secrets.
        """
        found_url = url or os.environ.get("HEADWAY_URL") or LOCAL
        found_key = (key or os.environ.get("HEADWAY_KEY") or "").strip()
        _require_url(found_url)
        if not found_key:
            raise InputError("no key: pass key=... or set HEADWAY_KEY; `headway keys create NAME` makes one")
        return cls(found_url.rstrip("/"), header_text("the key", found_key), timeout)

    def options(self) -> dict[str, Any]:
        """What a client of httpx is made with."""
        return {"headers": {"Authorization": f"Bearer {self.key}"}}

    def arguments(self, request: HttpRequest) -> dict[str, Any]:
        """What httpx builds a request from; raises InputError for a path or filters that are too long."""
        try:
            url = httpx.URL(self.url + request.target)
        except httpx.InvalidURL as error:
            raise InputError(f"the name or the filters cannot be sent: {error}") from error
        headers = dict(request.headers)
        if request.key is not None:
            headers["idempotency-key"] = request.key
        if request.body is not None:
            headers["content-type"] = "application/json"
        read = SILENCE if request.stream else self.timeout + request.wait
        return {
            "method": request.method,
            "url": url,
            "content": request.body,
            "headers": headers,
            "timeout": httpx.Timeout(self.timeout, read=read),
        }


def _require_url(text: str) -> None:
    """Raises InputError for a URL that is none, or has what would be ignored or replace the key."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in {"http", "https"} or not url.host:
        raise InputError("the URL is not that of a service: write it as http://127.0.0.1:8000")
    if url.userinfo:
        raise InputError("the URL has a user or password: leave them out, the key is the credential")
    if "?" in text or "#" in text:
        raise InputError("the URL has a query or a fragment: leave them out")


def failure_of(error: httpx.RequestError) -> ConnectionFailure:
    """A request that has no answer; the message says what happened, without the credential."""
    sent = not isinstance(error, NOT_SENT)
    what = "the connection to the service was lost" if sent else "the service cannot be reached"
    text = "" if isinstance(error, httpx.LocalProtocolError) else str(error)  # it may quote a header
    return ConnectionFailure(f"{what}: {text or type(error).__name__}", sent)


def reply_of(response: httpx.Response, body: bytes) -> HttpReply:
    """An answer of httpx; names of headers are in lower case."""
    headers = {name.lower(): text for name, text in response.headers.items()}
    return HttpReply(response.status_code, headers, body)
