"""Asks over HTTP: the inbox, claims, delegation, answers, and links that need no login."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from headway import Actor
from headway.api.problem_kinds import KINDS
from tests.api.asking import ANN, BOB, CARL, CHARTS, ROBOT
from tests.api.serving import Service, client_of, serving

pytestmark = pytest.mark.mission("ENG-8", "ENG-14")

GRANT: dict[str, Any] = {"answer": "grant", "data": {"amount": 50, "note": "fine"}}


@pytest.fixture
def service(database: str, runner: asyncio.Runner) -> Iterator[Service]:
    """A running service of charts that ask."""
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(serving(database, CHARTS)))
    runner.run(stack.aclose())


async def asked(service: Service, name: str = "leave", tenant: str = "default") -> str:
    """The id of an open ask."""
    await service.node.tenant(tenant).create("Leave", name, {"purpose": "sea"})
    [ask] = await service.node.asks.of_instance(tenant, name)
    return ask.id


async def acting(service: Service, ask: str, act: str, actor: Actor = ANN, **body: Any) -> httpx.Response:
    """An act on an ask."""
    async with service.as_("send", actor=actor) as client:
        return await client.post(f"/v1/asks/{ask}/{act}", json=body)


async def inbox(service: Service, actor: Actor, tenant: str = "default") -> list[str]:
    """The instances whose asks stand in an inbox."""
    async with service.as_("read", actor=actor, tenant=tenant) as client:
        return [ask["instance"] for ask in (await client.get("/v1/asks")).json()["items"]]


async def test_an_inbox_holds_what_its_owner_may_answer(service: Service) -> None:
    """By role and tenant, the oldest first, in pages."""
    for number in range(5):
        await asked(service, f"leave {number}")
    await asked(service, "theirs", "other")
    assert await inbox(service, ANN) == [f"leave {number}" for number in range(5)]
    assert await inbox(service, CARL) == []
    assert await inbox(service, ANN, "other") == ["theirs"]
    async with service.as_("read", actor=ANN) as client:
        first = (await client.get("/v1/asks?limit=3")).json()
        rest = (await client.get("/v1/asks", params={"cursor": first["next"]})).json()
        bad = await client.get("/v1/asks?cursor=x")
    assert [ask["instance"] for ask in rest["items"]] == ["leave 3", "leave 4"]
    assert rest["next"] is None
    assert (bad.status_code, bad.json()["code"]) == (422, "cursor")


async def test_an_ask_tells_what_it_shows_and_takes(service: Service) -> None:
    """What people see, what they may answer, and the JSON Schema of the form."""
    ask = await asked(service)
    told = (await service.client.get(f"/v1/asks/{ask}")).json()
    assert (told["shows"], told["roles"]) == ({"purpose": "sea", "amount": 100}, ["manager"])
    assert set(told["answers"]) == {"grant", "refuse"}
    assert told["form"]["properties"]["amount"]["minimum"] == 0
    assert told["closed_at"] is None


async def test_an_ask_tells_which_answers_are_the_callers(service: Service) -> None:
    """By role, by delegation alone once it is passed on, and none when it is closed."""
    ask = await asked(service)

    async def yours(actor: Actor) -> list[str]:
        async with service.as_("read", actor=actor) as client:
            told: list[str] = (await client.get(f"/v1/asks/{ask}")).json()["yours"]
            return sorted(told)

    assert (await yours(ANN), await yours(CARL)) == (["grant", "refuse"], [])
    await acting(service, ask, "delegate", to="carl")
    assert (await yours(ANN), await yours(CARL)) == ([], [])
    await acting(service, ask, "release", CARL)
    await acting(service, ask, "delegate", to="bob")
    assert (await yours(ANN), await yours(BOB)) == ([], ["grant", "refuse"])
    await acting(service, ask, "answer", BOB, **GRANT)
    assert await yours(BOB) == []


async def test_an_answer_moves_the_instance(service: Service) -> None:
    """Once: the second answer is late, the ask is closed, and the inbox is empty."""
    ask = await asked(service)
    first = await acting(service, ask, "answer", **GRANT)
    assert (first.status_code, first.json()["states"], first.headers["etag"]) == (200, ["granted"], '"2"')
    second = await acting(service, ask, "answer", BOB, **GRANT)
    assert (second.status_code, second.json()["code"]) == (409, "late")
    assert second.json()["title"] == "The ask is no longer open"
    closed = (await service.client.get(f"/v1/asks/{ask}")).json()
    assert (closed["closed_by"], closed["closed_event"]) == ("ann", "grant")
    assert await inbox(service, ANN) == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"answer": "grant", "data": {"amount": -1}}, "payload"),
        ({"answer": "grant", "data": {"amount": "1"}}, "payload"),
        ({"answer": "nod"}, "illegal"),
        ({"answer": "ask.claim", "data": {"lasts": 1000}}, "invalid"),
        ({"answer": "deadline.review"}, "reserved"),
        ({"answer": ""}, "invalid"),
        ({"answer": 7}, "invalid"),
        ({"answer": "grant", "reason": "a\x00b"}, "invalid"),
        ({"answer": "grant", "by": "boss"}, "invalid"),
    ],
    ids=str,
)
async def test_a_wrong_answer_changes_nothing(service: Service, body: dict[str, Any], code: str) -> None:
    """What does not fit the form, no answer of the ask, and no answer at all."""
    ask = await asked(service)
    answer = await acting(service, ask, "answer", **body)
    assert (answer.status_code, answer.json()["code"]) == (KINDS[code].status, code)
    assert await inbox(service, ANN) == ["leave"]


async def test_the_chart_says_who_may_answer(service: Service) -> None:
    """Another role is refused by the chart, another scope by the route."""
    ask = await asked(service)
    other_role = await acting(service, ask, "answer", CARL, **GRANT)
    assert (other_role.status_code, other_role.json()["code"]) == (403, "actor")
    async with service.as_("read", actor=ANN) as client:
        other_scope = await client.post(f"/v1/asks/{ask}/answer", json=GRANT)
    assert (other_scope.status_code, other_scope.json()["code"]) == (403, "forbidden")


async def test_a_claimed_ask_is_answered_by_nobody_else(service: Service) -> None:
    """Until it is released, or its claimer answers."""
    ask = await asked(service)
    assert (await acting(service, ask, "claim", lasts="10m")).status_code == 200
    assert (await service.client.get(f"/v1/asks/{ask}")).json()["claimed_by"] == "ann"
    for act, body in (("answer", GRANT), ("claim", {}), ("release", {}), ("delegate", {"to": "eve"})):
        kept = await acting(service, ask, act, BOB, **body)
        assert (kept.status_code, kept.json()["code"]) == (409, "claimed")
    assert (await acting(service, ask, "release")).status_code == 200
    assert (await acting(service, ask, "answer", BOB, **GRANT)).status_code == 200


@pytest.mark.parametrize("lasts", ["0s", "25h", "soon", ""])
async def test_a_claim_has_its_limits(service: Service, lasts: str) -> None:
    """A day at most, and not no time at all."""
    ask = await asked(service)
    answer = await acting(service, ask, "claim", lasts=lasts)
    assert answer.json()["code"] in {"payload", "invalid"}
    assert (await service.client.get(f"/v1/asks/{ask}")).json()["claimed_by"] is None


async def test_a_delegated_ask_is_one_persons(service: Service) -> None:
    """It leaves all inboxes: the person it is passed on to needs the role to answer, and may give it back."""
    ask = await asked(service)
    assert (await acting(service, ask, "delegate", to="carl")).status_code == 200
    assert (await inbox(service, BOB), await inbox(service, CARL)) == ([], [])
    for actor in (BOB, CARL):
        kept = await acting(service, ask, "answer", actor, **GRANT)
        assert (kept.status_code, kept.json()["code"]) == (403, "actor")
    assert (await acting(service, ask, "release", CARL)).status_code == 200
    assert await inbox(service, BOB) == ["leave"]


@pytest.mark.mission("ENG-6")
@pytest.mark.parametrize(
    ("act", "body", "other"),
    [
        ("claim", {"lasts": "10m"}, {"lasts": "11m"}),
        ("delegate", {"to": "carl"}, {"to": "dora"}),
        ("answer", GRANT, {"answer": "refuse", "data": {"amount": 1}}),
    ],
)
async def test_an_act_with_a_key_is_done_once(
    service: Service, act: str, body: dict[str, Any], other: dict[str, Any]
) -> None:
    """A repeat gets the first answer byte for byte, another body is refused, and it is done once."""
    ask = await asked(service)
    headers = {"Idempotency-Key": "only once"}
    async with service.as_("send", actor=ANN) as client:
        path = f"/v1/asks/{ask}/{act}"
        answers = [await client.post(path, json=body, headers=headers) for _ in range(3)]
        reused = await client.post(path, json=other, headers=headers)
    assert {(answer.status_code, answer.content) for answer in answers} == {(200, answers[0].content)}
    assert (reused.status_code, reused.json()["code"]) == (422, "key_reused")
    assert len(await service.node.tenant().history("leave")) == 2


@pytest.mark.parametrize("path", ["", "/claim", "/release", "/delegate", "/answer"])
@pytest.mark.parametrize("theirs", [True, False], ids=["of another tenant", "unknown"])
async def test_another_tenants_ask_is_as_unknown_as_none(
    service: Service, path: str, *, theirs: bool
) -> None:
    """404 with the same body, whether another tenant has it or nobody does; and nothing happens to it."""
    ask = await asked(service)
    body = {"/delegate": {"to": "x"}, "/answer": GRANT}.get(path)
    async with service.as_("admin", tenant="other", actor=ANN) as other:
        name = ask if theirs else "nobody:1:0"
        answer = await other.request("POST" if path else "GET", f"/v1/asks/{name}{path}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_ask")
    assert answer.json()["detail"] == f"there is no ask {name}"
    assert len(await service.node.tenant().history("leave")) == 1


async def link(service: Service, ask: str, actor: Actor = ANN, lasts: str = "1d") -> str:
    """A link for an actor."""
    return await service.node.tenant().link(ask, for_=actor, lasts=lasts)


async def test_a_link_needs_no_login(service: Service) -> None:
    """Who has it sees what is asked and answers, once; looking uses nothing up."""
    token = await link(service, await asked(service))
    async with httpx.AsyncClient(base_url=service.url, timeout=30) as anybody:
        for _ in range(2):
            told = (await anybody.get(f"/v1/links/{token}")).json()
            assert (told["person"], told["shows"]["purpose"], told["closed"]) == ("ann", "sea", False)
            assert told["form"]["title"] == "Verdict"
        wrong = await anybody.post(f"/v1/links/{token}", json={"answer": "grant", "data": {"amount": -1}})
        assert wrong.json()["code"] == "payload"
        first, again = [await anybody.post(f"/v1/links/{token}", json=GRANT) for _ in range(2)]
        assert (first.status_code, first.json()["states"]) == (200, ["granted"])
        assert again.content == first.content
        other = await anybody.post(f"/v1/links/{token}", json={"answer": "refuse"})
        assert (other.status_code, other.json()["code"]) == (403, "link")
        assert (await anybody.get(f"/v1/links/{token}")).json()["closed"] is True
    [_, line] = await service.node.tenant().history("leave")
    assert (line.actor, line.event) == ("ann", "grant")


async def test_a_link_only_answers(service: Service) -> None:
    """It neither claims nor speaks for the engine, and a key is not asked for nor looked at."""
    token = await link(service, await asked(service))
    async with client_of(service.url, "x") as anybody:
        for name in ("ask.claim", "ask.delegate"):
            answer = await anybody.post(f"/v1/links/{token}", json={"answer": name, "data": {"to": "eve"}})
            assert (answer.status_code, answer.json()["code"]) == (403, "link")
    assert len(await service.node.tenant().history("leave")) == 1


async def test_a_false_link_is_refused(service: Service) -> None:
    """Forged, cut, run out, or huge: one code, and nothing is told."""
    ask = await asked(service)
    good, over = await link(service, ask), await link(service, ask, lasts="0s")
    body, _, signature = good.partition(".")
    other, _, _ = (await link(service, ask, BOB)).partition(".")
    false = [over, f"{other}.{signature}", f"{body}.", body, good[:-2], good + "A", "x", "%00", "x" * 3_900]
    async with httpx.AsyncClient(base_url=service.url, timeout=30) as anybody:
        for token in false:
            for answer in (
                await anybody.get(f"/v1/links/{token}"),
                await anybody.post(f"/v1/links/{token}", json=GRANT),
            ):
                assert answer.status_code in {403, 404, 422}, token
                assert answer.headers["content-type"] == "application/problem+json"
        assert (await anybody.get("/v1/links/" + "x" * 5_000)).status_code in {403, 404, 414, 422}
    assert await inbox(service, ANN) == ["leave"]


async def test_an_agent_answers_as_an_agent(service: Service) -> None:
    """The kind of the actor is the credential's, and stands in no body."""
    ask = await asked(service)
    assert (await acting(service, ask, "answer", ROBOT, **GRANT)).status_code == 200
    assert (await acting(service, ask, "answer", ROBOT, kind="person")).status_code == 422
