"""Duties over HTTP: who is barred from an ask neither claims, delegates nor is offered it, by key or link."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from headway import Actor, Ask, Final, State, Statechart, agent, person
from tests.api.serving import Service, serving

pytestmark = pytest.mark.mission("ENG-1", "ENG-8", "ENG-14")

ANN = person("ann", "manager", "employee")
BOB, CARL = person("bob", "manager"), person("carl", "clerk")
ROBOT = agent("robot", "manager")


class Claim(Statechart):
    """Whoever submits does not decide, and no agent does."""

    draft = State(initial=True)
    review = State(ask=Ask("manager", deadline="2d"))
    paid, refused = Final(), Final()
    submit = draft.to(review, by="employee")
    approve = review.to(paid, by="manager", distinct_from="submit", no_agent=True)
    expire = review.on_deadline.to(refused)


@pytest.fixture
def service(database: str, runner: asyncio.Runner) -> Iterator[Service]:
    """A running service of a chart with duties."""
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(serving(database, (Claim,))))
    runner.run(stack.aclose())


async def submitted(service: Service, name: str = "claim") -> str:
    """The id of the ask of a claim that ann has submitted."""
    await service.node.tenant().create("Claim", name)
    (await service.node.tenant().send(name, Claim.submit(by=ANN))).unwrap()
    [ask] = await service.node.asks.of_instance("default", name)
    return ask.id


async def acting(service: Service, ask: str, act: str, actor: Actor, **body: Any) -> httpx.Response:
    """An act on an ask."""
    async with service.as_("send", actor=actor) as client:
        return await client.post(f"/v1/asks/{ask}/{act}", json=body)


@pytest.mark.parametrize("barred", [ANN, ROBOT], ids=["submitter", "agent"])
async def test_who_is_barred_is_offered_nothing_and_refused_everything(
    service: Service, barred: Actor
) -> None:
    """403 with the duty for claim, delegation and answer; the inbox and `yours` are empty."""
    ask = await submitted(service)
    for act, body in (
        ("claim", {"lasts": "24h"}),
        ("delegate", {"to": "carl"}),
        ("answer", {"answer": "approve"}),
    ):
        refused = await acting(service, ask, act, barred, **body)
        assert (refused.status_code, refused.json()["code"]) == (403, "duty"), act
        assert ("--kind person" in refused.json()["detail"]) == (barred is ROBOT), "the kind of key it needs"
    async with service.as_("read", actor=barred) as client:
        assert (await client.get("/v1/asks")).json() == {"items": [], "next": None}
        assert (await client.get(f"/v1/asks/{ask}")).json()["yours"] == []
    async with service.as_("read", actor=BOB) as client:
        assert [each["id"] for each in (await client.get("/v1/asks")).json()["items"]] == [ask]


async def test_a_delegate_without_the_role_gets_no_answer_by_link(service: Service) -> None:
    """A link speaks for the person it names, whose roles and duties are checked like those of a key."""
    ask = await submitted(service)
    assert (await acting(service, ask, "delegate", BOB, to="carl")).status_code == 200
    async with service.as_("admin") as admin, httpx.AsyncClient(base_url=service.url, timeout=30) as anybody:
        for body, code in (
            ({"person": "carl"}, "actor"),
            ({"person": "ann", "roles": ["manager"]}, "actor"),
            ({"person": "carl", "roles": ["manager"]}, None),
        ):
            token = (await admin.post(f"/v1/asks/{ask}/link", json=body)).json()["token"]
            answer = await anybody.post(f"/v1/links/{token}", json={"answer": "approve"})
            assert answer.json().get("code") == code


@pytest.mark.parametrize("name", ["ann ", "ann\n", "a\u200bnn", "\uff41nn"], ids=ascii)
async def test_bodies_name_no_person_who_looks_like_another(service: Service, name: str) -> None:
    """A delegate, the person of a link and their roles are refused with the place that is wrong."""
    ask = await submitted(service)
    async with service.as_("admin", actor=BOB) as client:
        for act, body, place in (
            ("delegate", {"to": name}, "body.to"),
            ("link", {"person": name}, "body.person"),
            ("link", {"person": "ann", "roles": [name]}, "body.roles"),
        ):
            answer = await client.post(f"/v1/asks/{ask}/{act}", json=body)
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
            [error] = answer.json()["errors"]
            assert error["place"].startswith(place)
            assert error["message"].startswith("it must")
        claim = {"worker": name, "handlers": ["pay"]}
        assert (await client.post("/v1/work/claim", json=claim)).status_code == 422


async def test_a_page_of_an_inbox_goes_on_after_what_is_not_shown(service: Service) -> None:
    """The cursor of a page leads on, though asks that the caller is barred from lie between."""
    ids = [await submitted(service, f"claim {number}") for number in range(3)]
    await service.node.tenant().create("Claim", "other")
    (await service.node.tenant().send("other", Claim.submit(by=person("eve", "employee")))).unwrap()
    async with service.as_("read", actor=ANN) as client:
        first = (await client.get("/v1/asks?limit=1")).json()
        assert [ask["instance"] for ask in first["items"]] == ["other"]
        assert first["next"] is None
    async with service.as_("read", actor=BOB) as client:
        pages = [(await client.get("/v1/asks?limit=3")).json()]
        pages.append((await client.get("/v1/asks", params={"cursor": pages[0]["next"]})).json())
    assert [ask["id"] for ask in pages[0]["items"]] == ids
    assert [ask["instance"] for ask in pages[1]["items"]] == ["other"]
