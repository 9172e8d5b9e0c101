"""A process that is killed right after an effect is committed: a repeat with the key gets its answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from headway.codec import replace
from headway.engine.engine import Engine
from headway.store import migrate
from headway.store.address import database_at, store_at
from headway.store.queries import KeyQuery, LetterQuery, Settlement, WorkQuery
from headway.store.rows import Cursor
from tests.api.dying import EFFECT, Working, process
from tests.store.contract.place import letter

pytestmark = pytest.mark.mission("ENG-3", "ENG-6")
NEW = {"actor": {"id": "bot"}, "scopes": ["read"], "name": "bot"}
CLAIM = {"worker": "w", "handlers": ["pay"], "limit": 2}
HEADERS = {"Idempotency-Key": "once"}


@asynccontextmanager
async def opened(database: str) -> AsyncIterator[Engine]:
    """The engine beside the service."""
    async with database_at(database, create=True) as migrated:
        await migrate.up(migrated)
    async with Engine(store_at(database), [Working]) as engine:
        yield engine


async def repeated(database: str, path: str, body: Any) -> httpx.Response:
    """The answer to the repeat of a request whose process was killed when its effect was committed."""
    async with process(database, EFFECT) as client:
        with pytest.raises(httpx.TransportError):
            await client.post(path, json=body, headers=HEADERS)
    async with process(database) as client:
        return await client.post(path, json=body, headers=HEADERS)


async def test_a_key_is_made_once(database: str) -> None:
    """The repeat is told that the key was made, and which one; there is no second one."""
    async with opened(database):
        pass
    answer = await repeated(database, "/v1/keys", NEW)
    async with opened(database) as engine:
        keys = [row for row in await engine.store.keys.list(KeyQuery()) if row.name == "bot"]
    assert (answer.status_code, answer.json()["code"]) == (409, "secret_told")
    assert [row.id for row in keys] == [answer.json()["key"]]
    assert answer.headers["Idempotency-Replayed"] == "true"


async def test_a_key_is_rotated_once(database: str) -> None:
    """The secret of the first rotation, which nobody has got, stays the old one's only successor."""
    async with opened(database), process(database) as client:
        made = (await client.post("/v1/keys", json=NEW)).json()
    answer = await repeated(database, f"/v1/keys/{made['id']}/rotate", {"overlap": "1h"})
    assert (answer.json()["code"], answer.json()["key"]) == ("secret_told", made["id"])
    async with process(database) as client:
        notes = (await client.get(f"/v1/keys/{made['id']}/audit")).json()["items"]
    assert [note["what"] for note in notes].count("rotated") == 1


async def test_a_claim_that_is_repeated_gets_the_same_work(database: str) -> None:
    """What the first claim has leased is the repeat's, and nothing else is leased."""
    async with opened(database) as engine:
        for number in range(4):
            (await engine.create("default", f"p{number}", Working, context={"n": number})).unwrap()
    answer = await repeated(database, "/v1/work/claim", CLAIM)
    async with process(database) as client:
        again = await client.post("/v1/work/claim", json=CLAIM, headers=HEADERS)
        others = await client.post("/v1/work/claim", json=CLAIM)
        first = answer.json()["items"][0]
        body = {"worker": "w", "attempt": first["attempt"]}
        ended = await client.post(f"/v1/work/{first['id']}/complete", json=body)
    assert answer.content == again.content
    assert answer.headers["Idempotency-Replayed"] == again.headers["Idempotency-Replayed"] == "true"
    assert [item["instance"] for item in answer.json()["items"]] == ["p0", "p1"]
    assert [item["context"] for item in answer.json()["items"]] == [{"n": 0}, {"n": 1}]
    assert [item["instance"] for item in others.json()["items"]] == ["p2", "p3"]
    assert ended.json()["status"] == "done"
    async with opened(database) as engine:
        assert len(await engine.store.work.page(WorkQuery("default", leased=True))) == 3


@pytest.mark.parametrize("what", ["redrive", "discard"])
async def test_letters_are_changed_once(database: str, what: str) -> None:
    """The repeat tells how many the first call has changed, and leaves those that it did not."""
    rows = tuple(replace(letter(number, dead=True), tenant="default") for number in range(1, 6))
    async with opened(database) as engine:
        assert await engine.store.leases.hold([("", "a")], "relay", 60_000)
        assert await engine.store.messages.settle(Settlement("a", "relay", Cursor(), rows))
    body = {"destination": "a", "limit": 2, "dry_run": False}
    answer = await repeated(database, f"/v1/operations/letters/{what}", body)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["count"], answer.json()["more"]) == (2, True)
    async with opened(database) as engine:
        left = await engine.store.letters.page(LetterQuery("a", dead=True))
    assert [row.position for row in left] == [3, 4, 5]
