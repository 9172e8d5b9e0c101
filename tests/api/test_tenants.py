"""Nothing of one tenant is told to another: every route, by one table that must name them all."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import httpx
import pytest
from fastapi.routing import APIRoute

from headway.api.app import ROUTERS
from tests.api.asking import ANN, CHARTS
from tests.api.serving import Service, serving

pytestmark = pytest.mark.mission("ENG-14")

THEIRS, NOBODYS = "life-of-default", "life-of-nobodyy"


class Call(NamedTuple):
    """A call that names something of a tenant."""

    method: str
    path: str
    body: Any = None


def _asks(act: str, body: Any = None) -> Call:
    return Call("POST", f"/v1/asks/{{ask}}/{act}", body)


NAMING: dict[str, Call] = {
    "get_instance": Call("GET", "/v1/instances/{instance}"),
    "get_allowed_events": Call("GET", "/v1/instances/{instance}/allowed"),
    "get_history": Call("GET", "/v1/instances/{instance}/history"),
    "get_why": Call("GET", "/v1/instances/{instance}/why"),
    "cancel_instance": Call("POST", "/v1/instances/{instance}/cancel"),
    "send_event": Call("POST", "/v1/instances/{instance}/events", {"event": "grant"}),
    "get_ask": Call("GET", "/v1/asks/{ask}"),
    "claim_ask": _asks("claim"),
    "release_ask": _asks("release"),
    "delegate_ask": _asks("delegate", {"to": "eve"}),
    "answer_ask": _asks("answer", {"answer": "grant"}),
    "make_link": _asks("link", {"person": "eve"}),
    "get_key": Call("GET", "/v1/keys/{key}"),
    "rotate_key": Call("POST", "/v1/keys/{key}/rotate"),
    "revoke_key": Call("POST", "/v1/keys/{key}/revoke"),
    "list_key_notes": Call("GET", "/v1/keys/{key}/audit"),
}
LISTS = {
    "list_instances": "/v1/instances",
    "list_asks": "/v1/asks",
    "list_keys": "/v1/keys",
    "count_instances": "/v1/charts/Leave/counts",
    "list_work": "/v1/operations/work",
    "list_timers": "/v1/operations/timers",
    "list_letters": "/v1/operations/letters",
}
CHARTS_OF_THE_SERVICE = {"list_charts", "get_chart", "draw_chart_as_mermaid", "draw_chart_as_svg"}
MADE_IN_ONES_OWN = {"create_instance", "make_key"}
NOBODYS_OWN = {"health", "ready"}
BY_LINK = {"open_link", "answer_link"}
ELSEWHERE = {
    "claim_work",
    "heartbeat",
    "checkpoint_work",
    "complete_work",
    "fail_work",
    "release_work",
    "metrics",
    "follow_events",
    "get_counts",
    "get_work",
    "retry_work",
    "list_workers",
    "redrive_letters",
    "discard_letters",
    "list_destinations",
    "change_many",
}
"""Work, operations, streams and metrics have tests of their own beside the routes."""


@pytest.fixture
def service(database: str, runner: asyncio.Runner) -> Iterator[Service]:
    """A running service."""
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(serving(database, CHARTS)))
    runner.run(stack.aclose())


def test_every_route_is_in_the_table() -> None:
    """A new route must say what it tells of whom."""
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    names = {route.operation_id for route in routes if route.include_in_schema and route.operation_id}
    known = {*NAMING, *LISTS} | CHARTS_OF_THE_SERVICE | MADE_IN_ONES_OWN | NOBODYS_OWN | BY_LINK | ELSEWHERE
    assert names - known == set()


async def _names(service: Service) -> dict[str, tuple[str, str]]:
    """For each kind of thing one of the default tenant, and one that nobody has."""
    await service.node.tenant("default").create("Leave", THEIRS)
    [ask] = await service.node.asks.of_instance("default", THEIRS)
    key = (await service.access.keyring.make("default", ANN, ["read"])).key.id
    return {
        "instance": (THEIRS, NOBODYS),
        "ask": (ask.id, ask.id.replace(THEIRS, NOBODYS)),
        "key": (key, "f" * len(key)),
    }


def _told(answer: httpx.Response, *names: str) -> tuple[Any, ...]:
    """All that an answer tells, but for the name that was asked for."""
    body = answer.text
    for name in names:
        body = body.replace(name, "it")
    headers = sorted((name, value) for name, value in answer.headers.items() if name != "date")
    return answer.status_code, body, headers


@pytest.mark.parametrize("operation", NAMING)
async def test_what_another_tenant_has_is_what_nobody_has(service: Service, operation: str) -> None:
    """404 with the same body and headers, whoever asks with whatever scope; and nothing happens to it."""
    names, call = await _names(service), NAMING[operation]
    before = await service.node.tenant("default").get(THEIRS)
    async with service.as_("admin", tenant="other", actor=ANN) as other:
        answers = []
        for index in (0, 1):
            own = {kind: pair[index] for kind, pair in names.items()}
            answers.append(await other.request(call.method, call.path.format(**own), json=call.body))
    told = [_told(answer, *(pair[index] for pair in names.values())) for index, answer in enumerate(answers)]
    assert told[0] == told[1]
    assert told[0][0] == 404
    assert await service.node.tenant("default").get(THEIRS) == before
    assert (await service.access.keyring.get("default", names["key"][0])).revoked_at is None


@pytest.mark.parametrize("operation", LISTS)
async def test_lists_and_counts_hold_ones_own(service: Service, operation: str) -> None:
    """What others have neither stands in a list nor counts, and its cursors lead nowhere."""
    path = LISTS[operation]
    async with service.as_("admin", tenant="other", actor=ANN) as other:
        before = (await other.get(path)).text
        names = await _names(service)
        assert (await other.get(path)).text == before
        for name, _ in names.values():
            assert name not in before
        theirs = (await service.client.get(path, params={"limit": 1})).json()
        if theirs.get("next"):
            answer = await other.get(path, params={"cursor": theirs["next"]})
            assert not answer.json().get("items")


async def test_a_token_is_of_one_tenant_however_one_asks(service: Service) -> None:
    """Neither a header nor a query nor a body moves a caller to another tenant."""
    await _names(service)
    async with service.as_("admin", tenant="other") as other:
        for trick in ({"params": {"tenant": "default"}}, {"headers": {"X-Tenant": "default"}}):
            answer = await other.get(f"/v1/instances/{THEIRS}", **trick)  # type: ignore[arg-type]  # one or the other
            assert answer.status_code in {404, 422}
        made = await other.post("/v1/instances", json={"chart": "Leave", "tenant": "default"})
        assert made.status_code == 422
