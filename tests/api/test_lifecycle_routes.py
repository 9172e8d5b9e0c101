"""Routes that a lifecycle brings: the same checks as the service's own, whatever way a request comes in."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from fastapi import Depends, HTTPException, WebSocket
from starlette.responses import StreamingResponse

from headway import Event, person
from headway.api.access import Access
from headway.api.app import application
from headway.api.limits import Limits
from headway.errors import InputError
from headway.http import Here, Problem, Router, Who, json_response, needs
from headway.node import Node
from headway.store.sqlite.connection import MEMORY
from tests.api.charts import CHARTS
from tests.api.serving import Service, serving

pytestmark = pytest.mark.mission("ENG-6", "ENG-14")

LARGEST_BODY = 2_000
ANONYMOUS = {"Authorization": ""}
COUNTS = {"caller": 0, "stream": 0, "undeclared": 0}


def deny() -> None:
    """Refuse everybody."""
    raise Problem("forbidden", "nobody may")


inner = Router(prefix="/own")
whole = Router()


@inner.post("/caller")
async def counted(caller: Who) -> Any:
    """A route that takes a caller and asks for no scope."""
    COUNTS["caller"] += 1
    return json_response({"actor": caller.actor.id, "count": COUNTS["caller"]})


@inner.post("/admin")
async def admin() -> Any:
    """A route whose router asks for a scope."""
    return json_response({})


@inner.post("/denied", dependencies=[needs("read"), Depends(deny)])
async def denied() -> Any:
    """A route with a dependency of its own."""
    return json_response({})


@inner.post("/both", dependencies=[needs("read"), needs("admin")])
async def both() -> Any:
    """A route that asks for two scopes."""
    return json_response({})


@inner.post("/names/{first}/{second}", dependencies=[needs("read")])
async def names(second: str, first: str) -> Any:
    """A route whose function names the parts of its path in another order."""
    return json_response({"first": first, "second": second})


@inner.post("/refused", dependencies=[needs("read")])
async def refused(node: Here) -> Any:
    """A route that sends an event which the chart refuses."""
    tenant = node.tenant()
    await tenant.create("Expense", "e1", {"amount": 1, "purpose": "x"})
    return json_response(str(await tenant.send("e1", Event("approve", by=person("ann")))))


@inner.post("/missing", dependencies=[needs("read")])
async def missing() -> Any:
    """A route that raises FastAPI's own error."""
    raise HTTPException(404)


async def parts() -> AsyncIterator[bytes]:
    """An answer in parts."""
    yield b"a"
    yield b"b"


@inner.post("/stream", dependencies=[needs("read")], response_class=StreamingResponse)
async def stream() -> Any:
    """A route that says that it streams its answer."""
    COUNTS["stream"] += 1
    return StreamingResponse(parts())


@inner.post("/undeclared", dependencies=[needs("read")])
async def undeclared() -> Any:
    """A route that streams its answer and does not say so."""
    COUNTS["undeclared"] += 1
    return StreamingResponse(parts())


guarded = Router(prefix="/guarded")


@guarded.post("/act")
async def act() -> Any:
    """A route of a router that is included with a scope."""
    return json_response({})


whole.include_router(inner)
whole.include_router(guarded, dependencies=[needs("admin")])


@pytest.fixture
def own(database: str, runner: asyncio.Runner) -> Iterator[Service]:
    """A service with routes of a lifecycle, and a small limit of bodies."""
    stack = AsyncExitStack()
    limits = Limits(body=LARGEST_BODY)
    yield runner.run(stack.enter_async_context(serving(database, routers=[whole], limits=limits)))
    runner.run(stack.aclose())


@pytest.mark.parametrize("path", ["/own/caller", "/own/denied", "/own/both", "/guarded/act"])
async def test_nobody_is_let_in_without_a_credential(own: Service, path: str) -> None:
    """A route that takes a caller or asks for a scope, itself or by its router, is answered 401."""
    assert (await own.client.post(path, headers=ANONYMOUS)).status_code == 401


@pytest.mark.parametrize("path", ["/own/denied", "/own/both", "/guarded/act"])
async def test_every_dependency_and_scope_counts(own: Service, path: str) -> None:
    """A key with the first scope alone is refused."""
    async with own.as_("read") as reader:
        assert (await reader.post(path)).status_code == 403


async def test_a_stored_answer_needs_all_scopes(own: Service) -> None:
    """The answer to an administrator's request is not repeated for a reader."""
    key = {"Idempotency-Key": "k"}
    assert (await own.client.post("/own/both", headers=key)).status_code == 200
    async with own.as_("read") as reader:
        assert (await reader.post("/own/both", headers=key)).status_code == 403


async def test_a_key_counts_where_no_scope_is_asked_for(own: Service) -> None:
    """Every POST with a credential takes an idempotency key."""
    key = {"Idempotency-Key": "twice"}
    first, second = [await own.client.post("/own/caller", headers=key) for _ in range(2)]
    assert first.status_code == 200
    assert second.content == first.content
    assert second.headers["Idempotency-Replayed"] == "true"


async def test_a_stream_takes_no_key(own: Service) -> None:
    """A keyed request for a stream is refused before its effect; without a key it is streamed."""
    before = COUNTS["stream"]
    refused = await own.client.post("/own/stream", headers={"Idempotency-Key": "s"})
    assert (refused.status_code, refused.json()["errors"][0]["place"]) == (422, "header.Idempotency-Key")
    assert COUNTS["stream"] == before
    streamed = await own.client.post("/own/stream")
    assert (streamed.content, streamed.headers["transfer-encoding"]) == (b"ab", "chunked")


async def test_a_stream_that_was_not_declared_is_stored_whole(own: Service) -> None:
    """A keyed request has its effect once, and its repeat gets the same answer."""
    before, key = COUNTS["undeclared"], {"Idempotency-Key": "u"}
    answers = [await own.client.post("/own/undeclared", headers=key) for _ in range(2)]
    assert [(each.status_code, each.content) for each in answers] == [(200, b"ab")] * 2
    assert COUNTS["undeclared"] == before + 1


async def test_the_parts_of_a_path_are_given_by_name(own: Service) -> None:
    """The order in which a function names them does not matter."""
    answer = await own.client.post("/own/names/a/b")
    assert answer.json() == {"first": "a", "second": "b"}


@pytest.mark.mission("ENG-2")
async def test_a_refused_call_of_a_route_is_the_problem_of_the_refusal(own: Service) -> None:
    """A route need not catch RefusedError: the answer says where the instance stands and what it takes."""
    answer = await own.client.post("/own/refused")
    assert (answer.status_code, answer.json()["code"]) == (409, "illegal"), answer.text
    assert answer.json()["states"] == ["draft"]
    assert {each["event"] for each in answer.json()["allowed"]} >= {"submit"}


async def test_an_error_of_fastapi_is_a_problem(own: Service) -> None:
    """HTTPException keeps its status."""
    answer = await own.client.post("/own/missing")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_the_limit_of_bodies_holds_for_small_bodies_too(own: Service) -> None:
    """A body beyond the limit is 413, though it is small."""
    body = {"chart": "Expense", "context": {"amount": 1, "purpose": "x" * LARGEST_BODY}}
    assert (await own.client.post("/v1/instances", json=body)).status_code == 413


@pytest.mark.parametrize(
    ("path", "status"), [("/v1/links/token?x=1", 422), ("/v1/instances/a?x=/events", 405)]
)
async def test_a_query_is_no_part_of_the_path(own: Service, path: str, status: int) -> None:
    """What follows the question mark chooses no route and belongs to no name."""
    assert (await own.client.post(path, json={"event": "submit"})).status_code == status


@pytest.mark.parametrize("guards", [[needs("admin")], []], ids=["guarded", "open"])
async def test_a_lifecycle_cannot_bring_a_websocket(guards: list[Any]) -> None:
    """Nothing checks its scopes: the service does not start with one."""
    router = Router(prefix="/mine", dependencies=guards)

    @router.websocket("/ws")
    async def talk(socket: WebSocket) -> None:
        await socket.accept()

    async with Node(f"sqlite:///{MEMORY}", CHARTS) as node, Access(node.engine.store) as access:
        with pytest.raises(InputError, match="/mine/ws must not be a WebSocket"):
            application(node, access, routers=[router])


def test_a_scope_is_closed_where_nothing_checks_it() -> None:
    """A route of another kind calls the dependency, which refuses everybody."""
    with pytest.raises(Problem) as refused:
        needs("read").dependency()
    assert refused.value.code == "forbidden"
