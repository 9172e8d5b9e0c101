"""Requests that come again, on routes whose answers are kept by the service itself."""

import asyncio

import pytest
from starlette.responses import Response
from starlette.types import Message

from headway.api.idempotency import Keeping, Known, Repeats
from headway.engine.orders import HOUR
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
    assert await store.hold([name], "another node", 60_000)
    busy = await service.client.post("/v1/keys", json=NEW, headers=KEY)
    assert (busy.status_code, busy.json()["code"]) == (409, "key_in_flight")
    await store.let_go([name], "another node")
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
            free.extend(await store.hold([name], "the next", 60_000))

    key = await service.key("admin")
    headers = [(b"authorization", f"Bearer {key}".encode())]
    scope = {"type": "http", "path": "/", "query_string": b"", "headers": headers}
    repeats = Repeats(Response(status_code=422), service.node.engine, service.access)
    await repeats.serve(scope, asyncio.Queue().get, tell, key="x", body=b"")
    assert free == [name]


async def test_of_many_at_once_one_is_carried_out(service: Service) -> None:
    """Eight equal requests at once make one key."""
    answers = await asyncio.gather(
        *(service.client.post("/v1/keys", json=NEW, headers=KEY) for _ in range(8))
    )
    assert [answer.status_code for answer in answers].count(201) == 1
    assert {answer.json().get("code") for answer in answers} <= {None, "key_in_flight", "secret_told"}


async def test_an_answer_that_is_kept_is_told_to_who_comes_second(service: Service) -> None:
    """What one node keeps, another node tells."""
    store, name = service.node.engine.store, ("default", "answer:x")
    await store.run(Keeping(name, "what was asked", "the answer", HOUR))
    known = Known(name)
    await store.run(known)
    assert known.row is not None
    assert (known.row.body, known.row.answer) == ("what was asked", "the answer")
