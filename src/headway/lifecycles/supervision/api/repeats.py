"""Calls that name their request in the body: a repeat gets the first answer, byte for byte."""

from __future__ import annotations

from fastapi.routing import APIRoute
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from headway.api.depends import access_of, node_of
from headway.api.front import once
from headway.api.idempotency import Repeats
from headway.api.requests import KEY, request_key, wrong
from headway.codec import decode
from headway.errors import InputError
from headway.lifecycles.supervision.meters import meters_of


class RepeatableRoute(APIRoute):
    """A route whose POST may carry a `request_id`, which is then what `Idempotency-Key` is elsewhere."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or answer again."""
        headers = dict(scope["headers"])
        if scope["method"] != "POST" or b"authorization" not in headers:
            await super().handle(scope, receive, send)
            return
        body = (await receive()).get("body", b"")
        request_id, named = _request_id(body), request_key(headers)
        if request_id is not None and named not in {None, request_id}:
            raise wrong("body.request_id", "it is not the same as the header Idempotency-Key")
        if request_id is None or named is not None:
            await super().handle(scope, once(body, receive), send)
        else:
            await self._repeat(scope, once(body, receive), send, key=request_id, body=body)

    async def _repeat(self, scope: Scope, receive: Receive, send: Send, *, key: str, body: bytes) -> None:
        connection = HTTPConnection(scope)
        node = node_of(connection)
        meters_of(node)
        streams = connection.app.state.streams
        repeats = Repeats(super().handle, node.engine, access_of(connection), streams)
        await repeats.serve(scope, receive, send, key=key, body=body)


def _request_id(body: bytes) -> str | None:
    """The request's name, if the body has one that can be one; what else is wrong is said by the route."""
    try:
        given = decode(dict[str, object], body).get("request_id") if body else None
    except InputError:
        return None
    return given if isinstance(given, str) and KEY.fullmatch(given.encode()) else None
