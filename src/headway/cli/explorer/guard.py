"""What stands between the network and the explorer: who may call, and what a page may do."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """Refuses a call under a foreign name (DNS rebinding) or from a foreign page; adds the page's policy."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self.app = app
        self.hosts = LOOPBACK | set(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a call through, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(POLICY)
            await send(message)

        objection = self._objection(scope["method"], Headers(scope=scope))
        app = self.app if objection is None else objection
        await app(scope, receive, send_with_policy)

    def _objection(self, method: str, headers: Headers) -> JSONResponse | None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            return problem(421, "host", f"this explorer does not answer to the name {host!r}")
        origin = headers.get("origin")
        if method not in SAFE and origin is not None and urlsplit(origin).netloc != host:
            return problem(403, "origin", "another page may not change anything here")
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self.hosts or ("*" in self.hosts and _is_address(name))


def _is_address(name: str) -> bool:
    """An address is nobody's name: it cannot be made to point elsewhere."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def problem(status: int, code: str, message: str) -> JSONResponse:
    """An error as the body of a response."""
    return JSONResponse({"error": {"code": code, "message": message}}, status)
