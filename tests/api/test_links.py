"""Links that are made over HTTP: by whom, for whom, for how long, and what they do then."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any

import httpx
import pytest

from headway.api.access import Access
from headway.api.app import application
from headway.node import Node
from headway.store.sqlite.connection import MEMORY
from tests.api.asking import CHARTS
from tests.api.serving import ROOT, Service, serving

pytestmark = pytest.mark.mission("ENG-8", "ENG-14")

GRANT: dict[str, Any] = {"answer": "grant", "data": {"amount": 50, "note": "fine"}}
FOR_EVE = {"person": "eve", "roles": ["manager"], "lasts": "2d"}


@pytest.fixture
def service(database: str, runner: asyncio.Runner) -> Iterator[Service]:
    """A running service of charts that ask."""
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(serving(database, CHARTS)))
    runner.run(stack.aclose())


async def asked(service: Service) -> str:
    """The path of an open ask."""
    await service.node.tenant().create("Leave", "leave", {"purpose": "sea"})
    [ask] = await service.node.asks.of_instance("default", "leave")
    return f"/v1/asks/{ask.id}"


async def test_a_link_answers_once_without_a_login(service: Service) -> None:
    """Whoever has the token answers as the person it was made for; a second, other answer is refused."""
    before = await service.node.engine.store.now()
    made = await service.client.post(f"{await asked(service)}/link", json=FOR_EVE)
    assert made.status_code == 201, made.text
    told = made.json()
    assert (told["ask"], told["person"], told["roles"]) == ("leave:1:0", "eve", ["manager"])
    lasts = datetime.fromisoformat(told["expires_at"]) - before
    assert 0 <= lasts.total_seconds() - 2 * 86_400 < 60
    async with httpx.AsyncClient(base_url=service.url, timeout=30) as anybody:
        shown = (await anybody.get(f"/v1/links/{told['token']}")).json()
        assert (shown["person"], shown["expires_at"]) == ("eve", told["expires_at"])
        first, again = [await anybody.post(f"/v1/links/{told['token']}", json=GRANT) for _ in range(2)]
        other = await anybody.post(f"/v1/links/{told['token']}", json={"answer": "refuse"})
    assert (first.status_code, first.json()["states"], again.content) == (200, ["granted"], first.content)
    assert (other.status_code, other.json()["code"]) == (403, "link")
    [_, line] = await service.node.tenant().history("leave")
    assert (line.actor, line.event) == ("eve", "grant")


async def test_a_link_has_the_roles_it_was_made_with(service: Service) -> None:
    """Without the role that the chart asks for it opens, and its answer is refused as anybody's would be."""
    made = await service.client.post(f"{await asked(service)}/link", json={"person": "eve"})
    async with httpx.AsyncClient(base_url=service.url, timeout=30) as anybody:
        answer = await anybody.post(f"/v1/links/{made.json()['token']}", json=GRANT)
    assert (answer.status_code, answer.json()["code"]) == (403, "actor")


@pytest.mark.parametrize("scope", ["read", "send", "work", "operate"])
async def test_only_an_admin_speaks_for_others(service: Service, scope: str) -> None:
    """No other scope makes links, not even that of those who may answer themselves."""
    path = await asked(service)
    async with service.as_(scope) as client:
        answer = await client.post(f"{path}/link", json=FOR_EVE)
    assert (answer.status_code, answer.json()["code"], answer.json()["scope"]) == (403, "forbidden", "admin")


@pytest.mark.parametrize("name", ["leave:1:0", "nobody:1:0"], ids=["of another tenant", "unknown"])
async def test_another_tenants_ask_has_no_link(service: Service, name: str) -> None:
    """404 with the same words, whether another tenant has it or nobody does."""
    await asked(service)
    async with service.as_("admin", tenant="other") as other:
        answer = await other.post(f"/v1/asks/{name}/link", json=FOR_EVE)
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_ask")
    assert answer.json()["detail"] == f"there is no ask {name}"


async def test_a_closed_ask_has_no_link(service: Service) -> None:
    """There is nothing to answer any more: 409, as for an answer that is late."""
    path = await asked(service)
    assert (await service.client.post(f"{path}/answer", json=GRANT)).status_code == 200
    late = await service.client.post(f"{path}/link", json=FOR_EVE)
    assert (late.status_code, late.json()["code"]) == (409, "late")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        *(({"lasts": lasts}, "body.lasts") for lasts in ("0s", "soon", "", "1.5d", "-1d", "1000d", 2, None)),
        ({"person": ""}, "body.person"),
        ({"person": "a\x00"}, "body.person"),
        ({"person": 7}, "body.person"),
        ({"person": "system"}, "body.person"),
        ({"person": "instance:e1"}, "body.person"),
        ({"roles": "manager"}, "body.roles"),
        ({"roles": [""]}, "body.roles.0"),
        ({"roles": ["r"] * 101}, "body.roles"),
        ({"roles": [f"{number:0>200}" for number in range(20)]}, "body.roles"),
        ({"kind": "system"}, "body.kind"),
    ],
)
async def test_a_link_that_cannot_be_is_not_made(
    service: Service, change: dict[str, Any], place: str
) -> None:
    """Durations that are none or too long, nobody, too many roles for a token, and other kinds of actor."""
    answer = await service.client.post(f"{await asked(service)}/link", json={**FOR_EVE, **change})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid"), answer.text
    assert answer.json()["errors"][0]["place"] == place


async def test_a_service_without_a_secret_makes_no_links() -> None:
    """It says which setting is missing instead of telling of a link that is not valid."""
    async with Node(f"sqlite:///{MEMORY}", CHARTS) as node, Access(node.engine.store) as access:
        await node.tenant().create("Leave", "leave")
        admin = await access.keyring.make("default", ROOT, ["admin"])
        transport = httpx.ASGITransport(app=application(node, access))
        headers = {"Authorization": f"Bearer {admin.text}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://here", headers=headers) as client:
            answer = await client.post("/v1/asks/leave:1:0/link", json=FOR_EVE)
    assert (answer.status_code, answer.json()["code"]) == (409, "not_possible")
    assert "link_secrets" in answer.json()["detail"]


async def test_a_closed_ask_shows_itself_to_who_has_answered_it(service: Service) -> None:
    """Its data and its form are not for others who have a link to it, neither before nor after."""
    path = await asked(service)
    tokens = {
        body["person"]: (await service.client.post(f"{path}/link", json=body)).json()["token"]
        for body in (FOR_EVE, {"person": "joe"})
    }
    async with httpx.AsyncClient(base_url=service.url, timeout=30) as anybody:

        async def shown(person: str) -> tuple[bool, dict[str, Any], bool]:
            answer = (await anybody.get(f"/v1/links/{tokens[person]}")).json()
            return answer["closed"], answer["shows"], answer["form"] is not None

        data = {"purpose": "sea", "amount": 100}
        assert (await shown("eve"), await shown("joe")) == ((False, data, True), (False, {}, False))
        assert (await anybody.post(f"/v1/links/{tokens['eve']}", json=GRANT)).status_code == 200
        assert (await shown("eve"), await shown("joe")) == ((True, data, True), (True, {}, False))
