"""Requests that come again, on routes whose answers are kept by the service itself."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from headway.api.idempotency import Known, Repeats
from headway.api.limits import Limits
from headway.api.streams import Streams
from headway.store.rows import Key
from tests.api.serving import Service

pytestmark = pytest.mark.mission("ENG-2")
NEW = {"actor": {"id": "bot", "kind": "service", "roles": []}, "scopes": ["read"], "name": "bot"}
KEY = {"Idempotency-Key": "make bot"}


async def test_a_secret_is_told_once_and_kept_nowhere(service: Service) -> None:
    """A key that is made again is not: its secret was told, and the database does not have it."""
    made = await service.client.post("/v1/keys", json=NEW, headers=KEY)
    assert made.status_code == 201, made.text
    again = await service.client.post("/v1/keys", json=NEW, headers=KEY)
    assert (again.status_code, again.json()["code"]) == (409, "secret_told")
    keys = (await service.client.get("/v1/keys")).json()["items"]
    assert len([key for key in keys if key["name"] == "bot"]) == 1
    known = Known(("default", "answer:make bot"))
    await service.node.engine.store.run(known)
    assert known.row is not None
    secret = next(text for text in made.json().values() if str(text).startswith("hw_")).split("_")[2]
    assert secret not in known.row.answer


async def test_a_key_belongs_to_one_path_and_one_actor(service: Service) -> None:
    """The same key on another path, or by another tenant's caller, is another matter."""
    made = await service.client.post("/v1/keys", json=NEW, headers=KEY)
    name = made.json()["id"]
    elsewhere = await service.client.post(f"/v1/keys/{name}/revoke", headers=KEY)
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (422, "key_reused")
    async with service.as_("admin", tenant="other") as other:
        assert (await other.post("/v1/keys", json=NEW, headers=KEY)).status_code == 201


async def test_a_key_that_is_revoked_again_tells_the_same_again(service: Service) -> None:
    """The answer to a revocation holds no secret, so it is kept like others."""
    name = (await service.client.post("/v1/keys", json=NEW)).json()["id"]
    first, again = [await service.client.post(f"/v1/keys/{name}/revoke", headers=KEY) for _ in range(2)]
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.content == again.content


async def test_an_answer_is_kept_by_what_the_request_does(service: Service) -> None:
    """What makes something new is remembered for a day, what moves something that is there for an hour."""
    store = service.node.engine.store

    async def lasts(key: str) -> timedelta:
        known = Known(("default", f"answer:{key}"))
        await store.run(known)
        assert known.row is not None
        return known.row.expires_at - await store.now()

    name = (await service.client.post("/v1/keys", json=NEW, headers=KEY)).json()["id"]
    revoked = await service.client.post(f"/v1/keys/{name}/revoke", headers={"Idempotency-Key": "revoke"})
    assert revoked.status_code == 200, revoked.text
    minute = timedelta(minutes=1)
    assert timedelta(hours=24) - minute < await lasts("make bot") <= timedelta(hours=24)
    assert timedelta(hours=1) - minute < await lasts("revoke") <= timedelta(hours=1)


async def test_a_key_that_is_reused_is_told_in_the_callers_words(service: Service) -> None:
    """What the service puts before the key of a request is not told."""
    body = {"chart": "Counter", "id": "c1"}
    assert (await service.client.post("/v1/instances", json=body, headers=KEY)).status_code == 201
    again = await service.client.post("/v1/instances", json={**body, "id": "c2"}, headers=KEY)
    assert (again.status_code, again.json()["code"]) == (422, "key_reused")
    assert "http:" not in again.text


async def test_a_request_under_way_elsewhere_is_refused(service: Service) -> None:
    """A key that another node holds is 409, and is free when that node lets go."""
    name, store = ("default", "answer:make bot"), service.node.engine.store
    assert await store.leases.hold([name], "another node", 60_000)
    busy = await service.client.post("/v1/keys", json=NEW, headers=KEY)
    assert (busy.status_code, busy.json()["code"]) == (409, "key_in_flight")
    await store.leases.release([name], "another node")
    assert (await service.client.post("/v1/keys", json=NEW, headers=KEY)).status_code == 201


async def test_a_request_that_was_wrong_may_be_corrected_under_its_key(service: Service) -> None:
    """A request that was refused before anything happened does not use its key up."""
    wrong = await service.client.post("/v1/keys", json={**NEW, "scopes": []}, headers=KEY)
    assert wrong.status_code == 422
    assert (await service.client.post("/v1/keys", json=NEW, headers=KEY)).status_code == 201


async def test_a_key_is_free_by_the_time_its_refusal_is_told(service: Service) -> None:
    """Who corrects a request at once is not told that the first one is still under way."""
    store, name = service.node.engine.store, ("default", "answer:x")
    free: list[Key] = []

    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            free.extend(await store.leases.hold([name], "the next", 60_000))

    key = await service.key("admin")
    headers = [(b"authorization", f"Bearer {key}".encode())]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
    repeats = Repeats(Response(status_code=422), service.node.engine, service.access, Streams(Limits()))
    await repeats.serve(scope, asyncio.Queue().get, tell, key="x", body=b"")
    assert free == [name]


async def test_of_many_at_once_one_is_carried_out(service: Service) -> None:
    """Eight equal requests at once make one key."""
    answers = await asyncio.gather(
        *(service.client.post("/v1/keys", json=NEW, headers=KEY) for _ in range(8))
    )
    assert [answer.status_code for answer in answers].count(201) == 1
    assert {answer.json().get("code") for answer in answers} == {None, "secret_told"}


async def test_one_key_is_for_one_path_whoever_keeps_its_answer(service: Service) -> None:
    """A key that made an instance makes no API key, nor the other way round: it is 422."""
    instance = {"chart": "Expense", "id": "c1", "context": {"amount": 1, "purpose": "x"}}
    paths: list[tuple[str, Any]] = [
        ("/v1/instances", instance),
        ("/v1/keys", NEW),
        ("/v1/instances/c1/events", {"event": "submit"}),
        ("/v1/instances/c1/cancel", {}),
        ("/v1/work/claim", {"worker": "w", "handlers": ["h"]}),
    ]
    for first in range(2):
        key = {"Idempotency-Key": f"key {first}"}
        answers = [await service.client.post(path, json=body, headers=key) for path, body in paths[first:]]
        assert answers[0].status_code == 201
        for answer in answers[1:]:
            assert (answer.status_code, answer.json()["code"]) == (422, "key_reused")
    assert (await service.client.get("/v1/instances/c1")).json()["seq"] == 1


async def test_the_same_json_is_the_same_request(service: Service) -> None:
    """Spaces and the order of keys do not matter; a value that differs does."""
    send = {"Content-Type": "application/json", **KEY}
    claim = '{"worker": "w", "handlers": ["h"], "limit": 1}'
    for again, status in [
        ('{"limit":1,"handlers":["h"],\n"worker":"w"}', 200),
        ('{"limit":2,"handlers":["h"],"worker":"w"}', 422),
        ("{", 422),
    ]:
        first = await service.client.post("/v1/work/claim", content=claim, headers=send)
        answer = await service.client.post("/v1/work/claim", content=again, headers=send)
        assert (first.status_code, answer.status_code) == (200, status)
        if status == 200:
            assert answer.content == first.content
            assert answer.headers["Idempotency-Replayed"] == "true"


async def test_a_replayed_answer_says_that_it_is_one(service: Service) -> None:
    """An answer or a refusal that was given before has a header, on every kind of route."""
    await service.client.post(
        "/v1/instances", json={"chart": "Expense", "id": "e1", "context": {"amount": 1}}
    )
    name = (await service.client.post("/v1/keys", json=NEW)).json()["id"]
    paths: list[tuple[str, Any]] = [
        ("/v1/instances", {"chart": "Counter"}),
        ("/v1/instances/e1/events", {"event": "approve"}),
        ("/v1/instances/e1/cancel", {}),
        (f"/v1/keys/{name}/rotate", {}),
        (f"/v1/keys/{name}/revoke", None),
    ]
    for path, body in paths:
        key = {"Idempotency-Key": path}
        first, again = [await service.client.post(path, json=body, headers=key) for _ in range(2)]
        assert "Idempotency-Replayed" not in first.headers
        assert again.headers["Idempotency-Replayed"] == "true"
        if "rotate" not in path:
            assert (again.status_code, again.content) == (first.status_code, first.content)


async def test_a_repeat_waits_for_the_first_answer(service: Service) -> None:
    """Repeats that come while the first request waits for work get its answer when there is one."""
    body = {"worker": "w", "handlers": ["h"], "wait": 1}
    answers = await asyncio.gather(
        *(service.client.post("/v1/work/claim", json=body, headers=KEY) for _ in range(4))
    )
    assert [answer.status_code for answer in answers] == [200] * 4
    assert len({answer.content for answer in answers}) == 1
    assert [answer.headers.get("Idempotency-Replayed") for answer in answers].count("true") == 3


@pytest.mark.mission("ENG-14")
async def test_a_request_under_way_holds_up_no_other_tenant(service: Service) -> None:
    """While a tenant's request is under way, another tenant may use the same key."""
    answered: list[int] = []

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        async with service.as_("admin", tenant="other") as other:
            answered.append((await other.post("/v1/keys", json=NEW, headers=KEY)).status_code)
        await Response()(scope, receive, send)

    async def ignore(_message: Message) -> None:
        pass

    key = await service.key("admin")
    headers = [(b"authorization", f"Bearer {key}".encode())]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
    repeats = Repeats(slow, service.node.engine, service.access, Streams(Limits()))
    await repeats.serve(scope, asyncio.Queue().get, ignore, key="make bot", body=b"")
    assert answered == [201]
