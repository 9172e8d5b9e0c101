"""Ownership over HTTP: end users see and send only what is theirs; charts say who else may read."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from headway import Actor, Ask, Final, State, Statechart, any_live, person
from headway.errors import InputError
from tests.api.serving import Service, serving

pytestmark = pytest.mark.mission("ENG-20", "ENG-14")

ANN, BOB, SUE = person("ann", "customer"), person("bob", "customer"), person("sue", "support")
MALLORY = person("mallory", "customer", "support", "admin")


class Refund(Statechart, owner="{creator}", cancel="drop"):
    """A refund that a customer asks for; support and somebody whom it names help."""

    requested = State(initial=True, ask=Ask("{owner}", "support"))
    closed = Final()
    withdraw = requested.to(closed, by="{owner}")
    settle = requested.to(closed, by=("support", "{contact}"))
    note = any_live.stay(by="customer")
    drop = any_live.to(closed, by="system")


class Claim(Statechart, owner="{creator}", read_by="auditor", cancel="drop"):
    """A claim that nobody but its owner and auditors may read."""

    requested = State(initial=True, ask=Ask("support", shows=("iban",)))
    closed = Final()
    close = requested.to(closed, by="support")
    drop = any_live.to(closed, by="system")


@pytest.fixture
def service(database: str, runner: asyncio.Runner) -> Iterator[Service]:
    """A running service with an instance of ann's and one of bob's."""
    stack = AsyncExitStack()
    service = runner.run(stack.enter_async_context(serving(database, [Refund, Claim])))
    for actor in (ANN, BOB):
        runner.run(service.node.tenant().create(Refund, f"r-{actor.id}", {"contact": "carl"}, by=actor))
        runner.run(service.node.tenant().create(Claim, f"c-{actor.id}", {"iban": "secret"}, by=actor))
    yield service
    runner.run(stack.aclose())


async def ask_of(service: Service, instance: str) -> str:
    """The open ask of an instance."""
    [ask] = await service.node.asks.of_instance("default", instance)
    return ask.id


def shape(response: httpx.Response, *names: str) -> tuple[int, str]:
    """An answer without the names that were asked for: what a stranger can learn."""
    text = json.dumps({key: value for key, value in response.json().items() if key != "instance"})
    for name in names:
        text = text.replace(name, "…")
    return response.status_code, text


async def calls(client: httpx.AsyncClient, instance: str, ask: str) -> list[tuple[int, str]]:
    """Every call that an end user could make on an instance and its ask."""
    path, asks = f"/v1/instances/{instance}", f"/v1/asks/{ask}"
    event = {"event": "note"}
    answers = [
        *[await client.get(path + part) for part in ("", "/allowed", "/history", "/why")],
        await client.post(f"{path}/events", json=event),
        await client.post(f"{path}/events", json={"event": "nonsense"}),
        await client.post(f"{path}/cancel"),
        await client.get(asks),
        await client.post(f"{asks}/claim"),
        await client.post(f"{asks}/release"),
        await client.post(f"{asks}/delegate", json={"to": "eve"}),
        await client.post(f"{asks}/answer", json={"answer": "settle"}),
        await client.get(f"/v1/events?instance={instance}"),
    ]
    return [shape(answer, instance, ask) for answer in answers]


async def test_a_stranger_cannot_tell_an_instance_from_none(service: Service) -> None:
    """Each call of an own key on another person's instance is answered as for one that does not exist."""
    ask = await ask_of(service, "r-ann")
    async with service.as_("own", actor=MALLORY) as client:
        there = await calls(client, "r-ann", ask)
        nowhere = await calls(client, "r-xxx", ask.replace("r-ann", "r-xxx"))
    assert there == nowhere
    assert {status for status, _ in there} == {404}
    assert (await service.node.engine.get("default", "r-ann")).seq == 1


async def test_an_owner_sees_and_sends_what_is_theirs(service: Service) -> None:
    """An own key reads, lists, follows, and answers asks for its actor by name."""
    async with service.as_("own", actor=ANN) as client:
        assert (await client.get("/v1/instances/r-ann")).json()["owner"] == "ann"
        listed = (await client.get("/v1/instances")).json()["items"]
        assert [each["id"] for each in listed] == ["r-ann", "c-ann"]
        assert (await client.get("/v1/instances?owner=bob")).json()["items"] == []
        allowed = {
            each["event"]: each for each in (await client.get("/v1/instances/r-ann/allowed")).json()["items"]
        }
        assert allowed["withdraw"]["people"] == ["ann"]
        assert (allowed["withdraw"]["yours"], allowed["settle"]["yours"]) == (True, False)
        [ask] = (await client.get("/v1/asks")).json()["items"]
        assert (ask["instance"], ask["roles"], ask["people"]) == ("r-ann", ["support"], ["ann"])
        assert (await client.post("/v1/instances/r-ann/events", json={"event": "note"})).status_code == 200
        done = await client.post(f"/v1/asks/{ask['id']}/answer", json={"answer": "withdraw"})
        assert done.json()["status"] == "closed"


async def test_somebody_whom_an_instance_names_reaches_it(service: Service) -> None:
    """Not the owner, but named by a field: they may read it and send what is for them, and nothing else."""
    carl = person("carl")
    async with service.as_("own", actor=carl) as client:
        assert (await client.get("/v1/instances/r-ann")).status_code == 200
        assert (await client.get("/v1/instances")).json()["items"] == []
        refused = await client.post("/v1/instances/r-ann/events", json={"event": "withdraw"})
        assert (refused.status_code, refused.json()["code"]) == (403, "actor")
        assert (await client.post("/v1/instances/r-ann/events", json={"event": "settle"})).status_code == 200


@pytest.mark.parametrize(
    "path", ["/v1/charts", "/v1/charts/Refund/counts", "/v1/operations/work", "/v1/keys", "/v1/work"]
)
async def test_an_own_key_reaches_nothing_else(service: Service, path: str) -> None:
    """Charts, counts, operations, keys and work are not for end users."""
    async with service.as_("own", actor=ANN) as client:
        assert (await client.get(path)).status_code in {403, 404, 405}


async def test_an_own_key_creates_only_for_its_actor(service: Service) -> None:
    """A chart whose owner is the creator can be created; the key's roles do not matter."""
    async with service.as_("own", actor=ANN) as client:
        made = await client.post("/v1/instances", json={"chart": "Refund", "id": "r-new"})
        assert made.status_code == 201
    assert (await service.node.engine.get("default", "r-new")).owner == "ann"


async def test_own_stands_alone(service: Service) -> None:
    """A key cannot have `own` and a scope that reaches more."""
    with pytest.raises(InputError, match="stands alone"):
        await service.access.keyring.make("default", ANN, ["own", "read"])


@pytest.mark.parametrize("roles", [["{owner}"], ["@ann"]])
async def test_no_key_and_no_link_has_a_role_that_stands_for_a_person(
    service: Service, roles: list[str]
) -> None:
    """Who could claim to be `{owner}` would own everything."""
    key = {"name": "k", "scopes": ["send"], "actor": {"id": "mallory", "kind": "person", "roles": roles}}
    assert (await service.client.post("/v1/keys", json=key)).status_code == 422
    ask = await ask_of(service, "r-ann")
    link = {"person": "mallory", "roles": roles}
    assert (await service.client.post(f"/v1/asks/{ask}/link", json=link)).status_code == 422


async def test_a_closed_chart_is_read_by_its_readers_and_owners_alone(service: Service) -> None:
    """`read_by` holds for instances, lists, asks and streams of ordinary keys; admins read everything."""
    ask = await ask_of(service, "c-ann")
    expected: list[tuple[Actor, int, list[str]]] = [
        (ANN, 200, ["r-ann", "c-ann", "r-bob"]),
        (BOB, 404, ["r-ann", "r-bob", "c-bob"]),
        (person("otto", "auditor"), 200, ["r-ann", "c-ann", "r-bob", "c-bob"]),
    ]
    for actor, status, listed in expected:
        async with service.as_("read", actor=actor) as client:
            parts = ("", "/history", "/why", "/allowed")
            answers = [await client.get(f"/v1/instances/c-ann{part}") for part in parts]
            if status == httpx.codes.NOT_FOUND:
                answers += [
                    await client.get(f"/v1/asks/{ask}"),
                    await client.get("/v1/events?instance=c-ann"),
                ]
            assert {each.status_code for each in answers} == {status}
            found = (await client.get("/v1/instances")).json()["items"]
            assert [each["id"] for each in found] == listed
    assert (await service.client.get("/v1/instances/c-ann")).status_code == 200
    async with service.as_("read", actor=SUE) as client:  # asked, so she sees what she decides on
        assert (await client.get("/v1/instances/c-ann")).status_code == 404
        assert (await client.get(f"/v1/asks/{ask}")).json()["shows"] == {"iban": "secret"}


async def events_of(service: Service, actor: Actor, scope: str, until: str, **wanted: Any) -> list[str]:
    """The instances whose events a stream shows, from the beginning up to one."""
    seen: list[str] = []
    async with (
        service.as_(scope, actor=actor) as client,
        client.stream("GET", "/v1/events", params=wanted) as stream,
    ):
        lines = stream.aiter_lines()
        await anext(line async for line in lines if line == ": welcome")
        for name in ("r-bob", "c-bob", "c-ann", "r-ann"):
            await service.node.engine.cancel("default", name, children=False)
        async for line in lines:
            if line.startswith("data:") and "instance" in (event := json.loads(line[5:])):
                seen.append(event["instance"])
                if event["instance"] == until:
                    return list(dict.fromkeys(seen))
    raise AssertionError(seen)


@pytest.mark.parametrize(
    ("actor", "scope", "shown"),
    [
        (ANN, "own", ["c-ann", "r-ann"]),
        (ANN, "read", ["r-bob", "c-ann", "r-ann"]),
        (person("otto", "auditor"), "read", ["r-bob", "c-bob", "c-ann", "r-ann"]),
    ],
)
async def test_a_stream_shows_what_its_reader_may_read(
    service: Service, actor: Actor, scope: str, shown: list[str]
) -> None:
    """End users follow their own instances; others everything but closed charts."""
    assert await events_of(service, actor, scope, "r-ann") == shown


async def test_a_stream_of_somebody_elses_events_is_refused(service: Service) -> None:
    """An own key cannot name another owner."""
    async with service.as_("own", actor=ANN) as client:
        assert (await client.get("/v1/events?owner=bob")).status_code == 403
