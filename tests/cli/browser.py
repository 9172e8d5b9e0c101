"""A browser for tests: it calls an application in this process and keeps its cookies."""

import asyncio
from typing import Any

import httpx
from starlette.types import ASGIApp


class Browser:
    """Calls an application as a browser at this address would."""

    def __init__(self, app: ASGIApp, address: str = "http://localhost:8000") -> None:
        self.app, self.address = app, address
        self.cookies = httpx.Cookies()

    def request(self, method: str, path: str, **request: Any) -> httpx.Response:
        """One call, redirects followed."""
        return asyncio.run(self._request(method, path, request))

    def get(self, path: str, **request: Any) -> httpx.Response:
        """Read something."""
        return self.request("GET", path, **request)

    def post(self, path: str, **request: Any) -> httpx.Response:
        """Change something."""
        return self.request("POST", path, **request)

    async def _request(self, method: str, path: str, request: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url=self.address, cookies=self.cookies, follow_redirects=True
        ) as client:
            answer = await client.request(method, path, **request)
            self.cookies = client.cookies
            return answer
