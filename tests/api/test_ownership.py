"""Ownership over HTTP: end users see and send only what is theirs; charts say who else may read."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from headway import Actor, Ask, Event, Final, State, Statechart, any_live, person
from headway.actions import put, spawn
from headway.api.cursors import cursor_text
from headway.api.live import hub_of
from headway.codec import replace
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


class Parcel(Statechart, owner="{customer}"):
    """A parcel for a customer, who may hand it to somebody else; it cannot be cancelled."""

    waiting = State(initial=True, ask=Ask("{owner}", "{helper}", "clerk", delegate="anyone"))
    packing = State(run="pack")
    received = Final()
    take = waiting.to(received, by="{owner}")
    check = waiting.to(packing, by="clerk")
    refuse = waiting.to(received, by=("{owner}", "clerk"))
    lend = waiting.stay(by="{creator}", do=put(helper="eve"))
    lose = waiting.stay(by="clerk", do=put(helper=""))
    packed = packing.on_done.to(received)
    give = packing.to(received, by="{owner}")


@pytest.fixture
def service(database: str, runner: asyncio.Runner) -> Iterator[Service]:
    """A running service with an instance of ann's and one of bob's."""
    stack = AsyncExitStack()
    service = runner.run(stack.enter_async_context(serving(database, [Refund, Claim, Parcel])))
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
        await client.post(f"{path}/events", json=event, headers={"If-Match": '"99"'}),
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
    await service.node.tenant().create(Parcel, "p-ann", {"customer": "ann"}, by=SUE)
    async with service.as_("own", actor=MALLORY) as client:
        for known in ("r-ann", "p-ann"):
            there = await calls(client, known, ask.replace("r-ann", known))
            nowhere = await calls(client, "r-xxx", ask.replace("r-ann", "r-xxx"))
            assert there == nowhere
            assert {status for status, _ in there} == {404}
            assert (await service.node.engine.get("default", known)).seq == 1


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
    "path",
    ["/v1/charts", "/v1/charts/Refund/counts", "/v1/counts", "/v1/operations/work", "/v1/keys", "/v1/work"],
)
async def test_an_own_key_reaches_nothing_else(service: Service, path: str) -> None:
    """Charts, counts, operations, keys and work are not for end users."""
    async with service.as_("own", actor=ANN) as client:
        assert (await client.get(path)).status_code in {403, 404, 405}


async def test_an_own_key_creates_only_for_its_actor(service: Service) -> None:
    """A chart whose owner is the creator can be created; the key's roles do not matter."""
    async with service.as_("own", actor=ANN) as client:
        made = await client.post("/v1/instances", json={"chart": "Refund"})
        assert made.status_code == 201
        for context in ({"customer": "bob"}, {"customer": "bob", "helper": "ann"}):
            refused = await client.post("/v1/instances", json={"chart": "Parcel", "context": context})
            assert (refused.status_code, refused.json()["code"]) == (403, "owner")
    assert (await service.node.engine.get("default", made.json()["id"])).owner == "ann"


async def test_an_own_key_cannot_ask_for_an_id(service: Service) -> None:
    """Else a conflict would tell that an instance of that id exists, and ids could be taken in advance."""
    async with service.as_("own", actor=MALLORY) as client:
        for name in ("r-ann", "r-xxx"):
            refused = await client.post("/v1/instances", json={"chart": "Refund", "id": name})
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
        key = {"Idempotency-Key": "one"}
        made = [await client.post("/v1/instances", json={"chart": "Refund"}, headers=key) for _ in range(2)]
    assert made[0].json()["id"] == made[1].json()["id"]


async def test_a_cursor_does_not_tell_whether_an_instance_exists(service: Service) -> None:
    """A cursor that somebody made up is answered alike, whatever it names."""
    async with service.as_("own", actor=MALLORY) as client:
        for name in ("r-ann", "r-xxx"):
            answer = await client.get("/v1/instances", params={"cursor": cursor_text("instances", name)})
            assert (answer.status_code, answer.json()["code"]) == (422, "cursor")


@pytest.mark.parametrize("scope", ["send", "operate"])
async def test_who_may_not_read_a_closed_chart_learns_nothing_from_sending(
    service: Service, scope: str
) -> None:
    """Events, cancellations and bulk calls of strangers find nothing; who has a part is told why not."""
    eve = person("eve", "customer")
    async with service.as_(scope, actor=eve) as client:
        if scope == "operate":
            body = {"action": "cancel", "filter": {"chart": "Claim"}, "dry_run": True}
            found = (await client.post("/v1/operations/bulk", json=body)).json()
            assert (found["seen"], found["sample"]) == (0, [])
            return
        for name in ("c-ann", "c-xxx"):
            path = f"/v1/instances/{name}"
            for call in (
                client.post(f"{path}/events", json={"event": "close"}),
                client.post(f"{path}/events", json={"event": "nonsense"}),
                client.post(f"{path}/events", json={"event": "close"}, headers={"If-Match": '"99"'}),
                client.post(f"{path}/cancel"),
            ):
                assert (await call).status_code == 404
    async with service.as_("send", actor=SUE) as client:
        refused = await client.post("/v1/instances/c-ann/events", json={"event": "nonsense"})
        assert (refused.status_code, refused.json()["code"]) == (409, "unknown_event")


async def test_counts_are_of_what_the_caller_may_read(service: Service) -> None:
    """The counts of a closed chart leave out what others own; its readers and admins see all."""
    counted = {}
    for actor in (ANN, SUE, person("otto", "auditor")):
        async with service.as_("read", actor=actor) as client:
            counted[actor.id] = (await client.get("/v1/charts/Claim/counts")).json()["counts"]["requested"]
    counted["root"] = (await service.client.get("/v1/charts/Claim/counts")).json()["counts"]["requested"]
    assert counted == {"ann": 1, "sue": 0, "otto": 2, "root": 2}


async def parcel(service: Service) -> str:
    """The ask of a parcel of ann's, that sue has created and lent to eve."""
    tenant = service.node.tenant()
    await tenant.create(Parcel, "p-ann", {"customer": "ann"}, by=SUE)
    (await tenant.send("p-ann", Parcel.lend(by=SUE))).unwrap()
    return await ask_of(service, "p-ann")


async def test_an_inbox_lists_the_answers_that_the_caller_may_give(service: Service) -> None:
    """Of the same ask each person sees their own answers; who is asked but can answer nothing sees none."""
    ask = await parcel(service)
    clerk = person("cleo", "clerk")
    shown = {}
    for actor, scope in ((ANN, "own"), (clerk, "read"), (person("eve"), "own")):
        async with service.as_(scope, actor=actor) as client:
            items = (await client.get("/v1/asks")).json()["items"]
            shown[actor.id] = {each["id"]: each["answers"] for each in items}[ask] if items else None
            direct = await service.node.tenant().inbox(actor)
            assert [each.answers for each in direct if each.id == ask] == [
                tuple(each["answers"]) for each in items if each["id"] == ask
            ]
    assert shown == {"ann": ["take", "refuse"], "cleo": ["check", "refuse", "lose"], "eve": None}


async def test_a_link_shows_what_its_person_may_answer(service: Service) -> None:
    """A link for somebody else than the owner opens, shows nothing, and its answer is refused."""
    ask = await ask_of(service, "r-ann")
    for who, status, answers in ((ANN, 200, ["withdraw"]), (person("eve", "customer"), 403, [])):
        token = await service.node.tenant().link(ask, for_=who)
        opened = (await service.client.get(f"/v1/links/{token}")).json()
        assert opened["answers"] == answers
        if status == httpx.codes.FORBIDDEN:
            answer = await service.client.post(f"/v1/links/{token}", json={"answer": "withdraw"})
            assert (answer.status_code, answer.json()["code"]) == (403, "actor")
    claim = await ask_of(service, "c-ann")
    for who, shows in ((SUE, {"iban": "secret"}), (person("eve", "customer"), {})):
        token = await service.node.tenant().link(claim, for_=who)
        assert (await service.client.get(f"/v1/links/{token}")).json()["shows"] == shows


async def test_a_remote_worker_cannot_act_for_the_owner(service: Service) -> None:
    """A worker's result may be an event of the chart, but none that is for a person, whatever its name."""
    await parcel(service)
    (await service.node.tenant().send("p-ann", Parcel.check(by=person("cleo", "clerk")))).unwrap()
    async with service.as_("work", actor=Actor("ann", "service")) as client:
        wanted = {"worker": "ann", "queues": ["default"], "handlers": ["pack"]}
        [work] = (await client.post("/v1/work/claim", json=wanted)).json()["items"]
        held = {"worker": "ann", "attempt": work["attempt"], "event": "give"}
        ended = await client.post(f"/v1/work/{work['id']}/complete", json=held)
    assert ended.json()["status"] != "received", ended.text
    assert (await service.node.engine.get("default", "p-ann")).states != ("received",)


async def test_bulk_calls_act_with_the_rights_of_their_caller(service: Service) -> None:
    """An operator with a role of the chart moves none of the instances whose owner alone may."""
    body = {"action": "send", "event": "withdraw", "filter": {"chart": "Refund"}, "dry_run": False}
    async with service.as_("operate", actor=MALLORY) as client:
        result = (await client.post("/v1/operations/bulk", json=body)).json()
    assert (result["seen"], result["done"], result["refused"]) == (2, 0, {"actor": 2})


async def test_an_own_key_is_told_no_operations(service: Service) -> None:
    """`why` tells end users the chart's reasons: no children of others, workers or failed deliveries."""
    await parcel(service)
    (await service.node.tenant().send("p-ann", Parcel.check(by=person("cleo", "clerk")))).unwrap()
    answers = {}
    for scope in ("own", "read"):
        async with service.as_(scope, actor=ANN) as client:
            answers[scope] = (await client.get("/v1/instances/p-ann/why")).json()["work"]
    assert answers["own"] == []
    assert [each["handler"] for each in answers["read"]] == ["pack"]


async def test_own_stands_alone(service: Service) -> None:
    """A key cannot have `own` and a scope that reaches more."""
    with pytest.raises(InputError, match="cannot be combined"):
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


@pytest.mark.parametrize("event", [Event("withdraw"), Event("nonsense")])
async def test_no_sender_has_a_role_that_stands_for_a_person(service: Service, event: Event) -> None:
    """The engine refuses an actor of a program who claims to be the owner by a role."""
    forged = replace(event, by=Actor("mallory", "person", frozenset({"{owner}"})))
    with pytest.raises(InputError, match="stands for a person"):
        await service.node.engine.send("default", "r-ann", forged)


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
    """An own key cannot name another owner, nor follow another's instance, by either protocol."""
    async with service.as_("own", actor=ANN) as client:
        assert (await client.get("/v1/events?owner=bob")).status_code == 403
    key = await service.key("own", actor=ANN)
    for wanted, code in (
        ({"owner": "bob"}, 4403),
        *(({name: "r-bob"}, 4404) for name in ("instance", "parent")),
        *(({name: "r-xxx"}, 4404) for name in ("instance", "parent")),
    ):
        async with connect(f"{service.url.replace('http', 'ws')}/v1/live") as socket:
            await socket.send(json.dumps({"type": "hello", "token": key, **wanted}))
            await socket.wait_closed()
            assert socket.close_code == code


async def test_a_socket_shows_end_users_their_own_events(service: Service) -> None:
    """The WebSocket is limited as the stream of server-sent events is."""
    key = await service.key("own", actor=ANN)
    async with connect(f"{service.url.replace('http', 'ws')}/v1/live") as socket:
        await socket.send(json.dumps({"type": "hello", "token": key}))
        assert json.loads(await socket.recv())["type"] == "welcome"
        for name in ("r-bob", "c-bob", "c-ann", "r-ann"):
            await service.node.engine.cancel("default", name, children=False)
        seen = []
        while "r-ann" not in seen:
            seen.append(json.loads(await socket.recv()).get("instance"))
    assert list(dict.fromkeys(filter(None, seen))) == ["c-ann", "r-ann"]


async def test_a_stream_ends_when_its_reader_is_no_longer_named(service: Service) -> None:
    """Who follows an instance because its data names them follows it only as long as it does."""
    await parcel(service)
    async with (
        service.as_("own", actor=person("eve")) as client,
        client.stream("GET", "/v1/events?instance=p-ann") as stream,
    ):
        lines = stream.aiter_lines()
        await anext(line async for line in lines if line == ": welcome")
        (await service.node.tenant().send("p-ann", Parcel.lose(by=person("cleo", "clerk")))).unwrap()
        await hub_of(service.app.app).look()
        last = [line async for line in lines if line.startswith("data:")][-1]
    assert json.loads(last[5:])["code"] == "unknown_instance"


class Folder(Statechart):
    """Everybody may read it, but not the claims in it."""

    here = State(initial=True, entry=spawn("Claim"))
    stay = here.stay()


async def test_why_lists_only_children_that_the_caller_may_read(database: str) -> None:
    """A child of a closed chart is named to its readers and its owner alone."""
    async with serving(database, [Folder, Claim]) as service:
        await service.node.tenant().create(Folder, "f", by=ANN)
        shown = {}
        for actor in (ANN, BOB, person("otto", "auditor")):
            async with service.as_("read", actor=actor) as client:
                shown[actor.id] = len((await client.get("/v1/instances/f/why")).json()["children"])
        assert shown == {"ann": 1, "bob": 0, "otto": 1}


async def test_end_users_do_not_share_their_idempotency_keys(service: Service) -> None:
    """Nobody can use up the keys of somebody else, or learn that they were used."""
    body, key = {"chart": "Refund"}, {"Idempotency-Key": "predictable"}
    async with service.as_("own", actor=MALLORY) as mallory, service.as_("own", actor=ANN) as ann:
        taken = await mallory.post("/v1/instances", json=body, headers=key)
        made, again = [await ann.post("/v1/instances", json=body, headers=key) for _ in range(2)]
        other = await service.client.post("/v1/instances", json=body, headers=key)
    assert (taken.status_code, made.status_code, other.status_code) == (201, 201, 201)
    assert made.json()["id"] == again.json()["id"] != other.json()["id"]
    assert [each.headers.get("Idempotency-Replayed") for each in (made, again, other)] == [None, "true", None]


async def test_a_link_to_a_hidden_instance_names_the_ask(service: Service) -> None:
    """The chart hides the instance from the person: the answer is that of an unknown ask."""
    token = await service.node.asks.link("default", await ask_of(service, "c-ann"), for_=person("eve"))
    async with httpx.AsyncClient(base_url=service.url, timeout=30) as anybody:
        answer = await anybody.post(f"/v1/links/{token}", json={"answer": "close"})
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_ask")
    assert answer.json()["detail"] == "there is no ask c-ann:1:0"


async def test_who_has_answered_an_ask_may_go_on_to_read_it(service: Service) -> None:
    """Though the chart shows the instance to others; who had no part in it still finds nothing."""
    ask = await ask_of(service, "c-ann")
    async with service.as_("read", "send", actor=SUE) as sue, service.as_("read", actor=BOB) as bob:
        assert (await sue.post(f"/v1/asks/{ask}/answer", json={"answer": "close"})).status_code == 200
        read = await sue.get(f"/v1/asks/{ask}")
        assert (read.status_code, read.json()["closed_by"], read.json()["yours"]) == (200, "sue", [])
        assert (await bob.get(f"/v1/asks/{ask}")).status_code == 404
        assert (await sue.get("/v1/instances/c-ann")).status_code == 404


async def test_an_ask_of_a_chart_that_nobody_has_stored_is_not_for_end_users(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing says whether it is theirs; others see its answers as before."""

    async def unknown(_: object) -> None:
        return None

    row = await service.node.asks.get("default", await ask_of(service, "r-ann"))
    monkeypatch.setattr(service.node.engine.visibility, "chart", unknown)
    assert await service.node.asks.yours(row, replace(ANN, own=True)) == ()
    assert await service.node.asks.yours(row, SUE) == row.answers
