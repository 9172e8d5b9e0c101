"""The real service on SQLite, on a free port, and both forms of the client."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headway import Actor, Statechart
from tests.api.asking import Leave
from tests.api.charts import CHARTS
from tests.api.serving import ROOT, Service, serving
from tests.client.either import Either, Form


class Place:
    """A running service, and clients of the form that is tested."""

    def __init__(self, service: Service, form: Form) -> None:
        self.service, self.form = service, form

    @asynccontextmanager
    async def client(
        self, *scopes: str, actor: Actor = ROOT, tenant: str = "default", **options: Any
    ) -> AsyncIterator[Either]:
        """A client with a key of its own."""
        key = await self.service.key(*scopes or ("admin",), tenant=tenant, actor=actor)
        async with client_at(self.service.url, key, self.form, **options) as client:
            yield client


@asynccontextmanager
async def client_at(url: str, key: str, form: Form, **options: Any) -> AsyncIterator[Either]:
    """A client for the length of a block."""
    client = Either(form, url, key, **options)
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture(params=["async", "sync"])
def form(request: pytest.FixtureRequest) -> Form:
    """Each form of the client."""
    chosen: Form = request.param
    return chosen


@pytest.fixture
def place(tmp_path: Path, runner: asyncio.Runner, form: Form) -> Iterator[Place]:
    """A service with the sample charts."""
    stack = AsyncExitStack()
    charts: list[type[Statechart]] = [*CHARTS, Leave]
    service = runner.run(stack.enter_async_context(serving(f"sqlite:///{tmp_path}/headway.db", charts)))
    yield Place(service, form)
    runner.run(stack.aclose())
