"""How every call asks: requests with their keys, pages, names in paths, and answers as values."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from headway.client.actions import HttpReply, HttpRequest, Item, Items, Steps
from headway.client.answers import AnswerPage
from headway.client.retries import answered
from headway.codec import as_json, decode, encode
from headway.errors import ClientError, InputError

T = TypeVar("T")
PER_PAGE = 100
UNADDRESSABLE = frozenset({"", ".", ".."})
NOT_UNICODE = "a name or a filter has a lone surrogate, which cannot be sent"
VISIBLE = re.compile("[!-~]+")


class RepeatedRequests:
    """Requests that are repeated `retries` times at most."""

    def __init__(self, retries: int) -> None:
        self._retries = retries

    def _get(self, kind: type[T], path: str, query: Mapping[str, Any] | None = None) -> Steps[T]:
        reply = yield from answered(HttpRequest("GET", target(path, query or {})), self._retries)
        return _read(kind, reply)

    def _post(
        self,
        kind: type[T],
        path: str,
        body: Mapping[str, Any] | None,
        *,
        request_id: str | None,
        expected_seq: int | None = None,
        wait: float = 0.0,
    ) -> Steps[T]:
        key = secrets.token_urlsafe(18) if request_id is None else header_text("request_id", request_id)
        request = HttpRequest(
            "POST",
            path,
            None if body is None else encode(as_json(body)),
            key=key,
            headers={} if expected_seq is None else {"if-match": f'"{expected_seq}"'},
            wait=wait,
        )
        reply = yield from answered(request, self._retries)
        return _read(kind, reply, request)

    def _pages(self, kind: type[T], path: str, query: Mapping[str, Any]) -> Items[T]:
        cursor: str | None = None
        while True:
            page = yield from self._get(AnswerPage[kind], path, {**query, "cursor": cursor})  # type: ignore[valid-type]
            for item in page.items:
                yield Item(item)
            if page.next is None:
                return
            cursor = page.next


def header_text(what: str, text: str) -> str:
    """A text for a header; raises InputError, which does not quote it, if no header can hold it."""
    if VISIBLE.fullmatch(text) is None:
        raise InputError(f"{what} must have visible ASCII characters only, at least one")
    return text


def quoted(name: str) -> str:
    """A name as a part of a path; raises InputError for one that would be another path."""
    if name in UNADDRESSABLE:
        raise InputError(f"no instance, chart, ask or work is called {name!r}")
    try:
        return quote(name, safe="")
    except UnicodeEncodeError as error:
        raise InputError(NOT_UNICODE) from error


def target(path: str, query: Mapping[str, Any]) -> str:
    """A path with its query; booleans as JSON has them. Raises InputError for what is not Unicode."""
    fields = given(**query).items()
    texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in fields}
    try:
        return f"{path}?{urlencode(texts)}" if texts else path
    except UnicodeEncodeError as error:
        raise InputError(NOT_UNICODE) from error


def given(**fields: Any) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _read(kind: type[T], reply: HttpReply, request: HttpRequest | None = None) -> T:
    """The answer as a value; raises ClientError if it is not an answer of Headway."""
    try:
        return decode(kind, reply.body)
    except InputError as error:
        key = None if request is None else request.key
        text = f"the answer is not that of a Headway service, is the URL right? ({error})"
        raise ClientError(text, request_id=key, maybe_committed=key is not None) from error
