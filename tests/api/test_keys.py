"""API keys over HTTP: made, listed, rotated, revoked, limited, and what is noted of them."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from headway import Actor
from headway.api.access import Rate
from headway.api.keyring import act
from headway.codec import replace
from headway.errors import InputError
from tests.api.serving import Service, client_of, serving

pytestmark = pytest.mark.mission("ENG-14")

CLERK = {"id": "clerk", "kind": "person", "roles": ["manager"]}
ANN = Actor("ann", "person", frozenset({"manager"}))
ZEROS = f"hw_{'0' * 16}_{'0' * 48}"


async def make(service: Service, **body: Any) -> dict[str, Any]:
    """A new key, as the service tells it."""
    answer = await service.client.post("/v1/keys", json={"actor": CLERK, "scopes": ["read"], **body})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def status(service: Service, key: str, path: str = "/v1/charts") -> int:
    """What a request with a key gets."""
    async with client_of(service.url, key) as client:
        return (await client.get(path)).status_code


async def notes(service: Service, key: str) -> dict[str, int]:
    """What is noted of a key, and how often, when all is written."""
    await service.access.log.turn()
    answer = await service.client.get(f"/v1/keys/{key}/audit")
    return {note["what"]: note["count"] for note in answer.json()["items"]}


async def test_a_key_is_made_and_shown_once(service: Service) -> None:
    """Its text stands in the first answer and in no other, and not in the database."""
    made = await make(service, name="for the clerk", rate=50, lasts="90d")
    assert made["key"].startswith(f"hw_{made['id']}_")
    assert made["actor"] == CLERK
    got = (await service.client.get(f"/v1/keys/{made['id']}")).json()
    listed = (await service.client.get("/v1/keys")).json()
    assert got == {name: value for name, value in made.items() if name != "key"}
    assert got in listed["items"]
    secret = made["key"].rpartition("_")[2]
    _, row = await service.node.engine.store.keys.find(made["id"])
    assert secret not in repr((got, listed, row))
    assert await status(service, made["key"]) == 200


async def test_a_key_does_what_its_scopes_say(service: Service) -> None:
    """Whoever lacks a scope is told which; admin implies all."""
    reader, admin = await make(service), await make(service, scopes=["admin"])
    async with client_of(service.url, reader["key"]) as client:
        refused = await client.get("/v1/keys")
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert refused.json()["scope"] == "admin"
        assert (await client.post("/v1/instances", json={"chart": "Counter"})).status_code == 403
    async with client_of(service.url, admin["key"]) as client:
        assert (await client.get("/v1/keys")).status_code == 200
        assert (await client.post("/v1/instances", json={"chart": "Counter"})).status_code == 201


@pytest.mark.parametrize(
    "wrong",
    [
        {"scopes": []},
        {"scopes": ["all"]},
        {"scopes": "read"},
        {"actor": {"id": ""}},
        {"actor": {"id": "x", "kind": "robot"}},
        {"actor": {"id": "x\x00"}},
        {"actor": {"id": "x "}},
        {"actor": {"id": "x\n"}},
        {"actor": {"id": "x\u200b"}},
        {"actor": {"id": "\uff58"}},
        {"actor": {"id": "x", "roles": [" y"]}},
        {"actor": {"id": "x", "roles": ["y"] * 101}},
        {"lasts": "soon"},
        {"lasts": "999999d"},
        {"rate": 0},
        {"rate": True},
        {"rate": "5"},
        {"tenant": "other"},
        {"name": "x" * 201},
    ],
    ids=str,
)
async def test_a_wrong_key_is_not_made(service: Service, wrong: dict[str, Any]) -> None:
    """What cannot be is refused with its place, and nothing is coerced."""
    answer = await service.client.post("/v1/keys", json={"actor": CLERK, "scopes": ["read"], **wrong})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert len((await service.client.get("/v1/keys")).json()["items"]) == 1


async def test_keys_come_in_pages(service: Service) -> None:
    """Each key stands on one page, in the order in which they were made."""
    made = [(await make(service))["id"] for _ in range(5)]
    seen: list[str] = []
    more: dict[str, Any] = {}
    for _ in range(3):
        page = (await service.client.get("/v1/keys", params={"limit": 2, **more})).json()
        seen += [key["id"] for key in page["items"]]
        more = {"cursor": page["next"]}
    assert (seen[1:], more) == (made, {"cursor": None})
    bad = await service.client.get("/v1/keys?cursor=nonsense")
    assert (bad.status_code, bad.json()["code"]) == (422, "cursor")


async def test_a_rotated_key_has_two_secrets_for_a_while(service: Service) -> None:
    """Both are good in the overlap, only the new one without, and a third ends the first."""
    first = await make(service)
    second = (await service.client.post(f"/v1/keys/{first['id']}/rotate")).json()
    assert second["id"] == first["id"]
    assert [await status(service, each["key"]) for each in (first, second)] == [200, 200]
    third = (await service.client.post(f"/v1/keys/{first['id']}/rotate", json={"overlap": "0s"})).json()
    assert [await status(service, each["key"]) for each in (first, second, third)] == [401, 401, 200]


async def test_two_rotations_at_once_both_count(service: Service) -> None:
    """Each gets a secret of its own that was the key's; the last two of many are good."""
    made = await make(service)
    path = f"/v1/keys/{made['id']}/rotate"
    answers = await asyncio.gather(*(service.client.post(path) for _ in range(4)))
    good = [await status(service, answer.json()["key"]) for answer in answers]
    assert sorted(good) == [200, 200, 401, 401]


async def test_a_revoked_key_is_over_at_once(service: Service) -> None:
    """The very next request is refused, though the key came a moment ago; revoking again is no error."""
    made = await make(service)
    assert await status(service, made["key"]) == 200
    for _ in range(2):
        revoked = await service.client.post(f"/v1/keys/{made['id']}/revoke")
        assert revoked.status_code == 200
        assert revoked.json()["revoked_at"]
    assert await status(service, made["key"]) == 401
    rotated = await service.client.post(f"/v1/keys/{made['id']}/rotate")
    assert (rotated.status_code, rotated.json()["code"]) == (404, "unknown_key")
    assert (await notes(service, made["id"]))["revoked"] == 1


async def test_what_is_noted_of_a_key(service: Service) -> None:
    """Acts one by one with who did it; use and refusals counted by the day, and when it was used last."""
    made = await make(service)
    for _ in range(3):
        assert await status(service, made["key"]) == 200
    assert await status(service, f"hw_{made['id']}_{'0' * 48}") == 401
    await service.client.post(f"/v1/keys/{made['id']}/revoke")
    assert await status(service, made["key"]) == 401
    expected = {"made": 1, "used": 3, "refused: secret": 1, "refused: revoked": 1, "revoked": 1}
    assert await notes(service, made["id"]) == expected
    got = (await service.client.get(f"/v1/keys/{made['id']}")).json()
    assert datetime.now(UTC) - datetime.fromisoformat(got["used_at"]) < timedelta(minutes=1)
    first = (await service.client.get(f"/v1/keys/{made['id']}/audit?limit=1")).json()
    rest = (await service.client.get(f"/v1/keys/{made['id']}/audit?cursor={first['next']}")).json()
    assert {note["what"] for note in (first["items"] + rest["items"])} == set(expected)
    assert next(note["by"] for note in rest["items"] if note["what"] == "made") == "root"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        f"Bearer {ZEROS}",
        f"Basic {ZEROS}",
        ZEROS,
        f"Bearer {ZEROS}0",
        f"Bearer {ZEROS[:-1]}",
        "Bearer hw__",
        "Bearer " + "x" * 9_000,
        "Bearer a.b.c",
        "Bearer \xff\xfe",
        f"Bearer {ZEROS} {ZEROS}",
    ],
)
async def test_nothing_is_told_of_a_wrong_credential(service: Service, header: str | None) -> None:
    """Whatever is wrong, the answer is the same: 401, a challenge, and no hint."""
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    async with httpx.AsyncClient(base_url=service.url, timeout=30) as client:
        answer = await client.get("/v1/charts", headers=headers)  # type: ignore[arg-type]  # raw bytes
    known = await service.client.get("/v1/charts", headers={"Authorization": f"Bearer {ZEROS}"})
    assert answer.status_code == 401
    assert answer.json() == known.json()
    assert answer.headers["www-authenticate"].startswith('Bearer realm="headway"')


async def test_refused_keys_get_the_same_answer_byte_for_byte(service: Service) -> None:
    """An unknown key, a wrong secret, an expired and a revoked key cannot be told apart."""
    good, gone, over = await make(service), await make(service), await make(service, lasts="1ms")
    await service.client.post(f"/v1/keys/{gone['id']}/revoke")
    texts = [ZEROS, f"hw_{good['id']}_{'0' * 48}", gone["key"], over["key"]]
    seen = set()
    for text in texts:
        answer = await service.client.get("/v1/charts", headers={"Authorization": f"Bearer {text}"})
        headers = {name: value for name, value in answer.headers.items() if name != "date"}
        seen.add((answer.status_code, answer.content, *sorted(headers.items())))
    assert len(seen) == 1


@pytest.mark.parametrize("route", ["", "/rotate", "/revoke", "/audit"])
async def test_another_tenants_key_is_as_unknown_as_none(service: Service, route: str) -> None:
    """The same status and the same body, but for the id that was asked for."""
    made = await make(service)
    method = "POST" if route in {"/rotate", "/revoke"} else "GET"
    async with service.as_("admin", tenant="other") as other:
        answers = [await other.request(method, f"/v1/keys/{key}{route}") for key in (made["id"], "0" * 16)]
        assert (await other.get("/v1/keys")).json()["items"][0]["id"] != made["id"]
    assert [answer.status_code for answer in answers] == [404, 404]
    texts = [answer.text.replace(made["id"], "0" * 16) for answer in answers]
    assert texts[0] == texts[1]
    assert await status(service, made["key"]) == 200


async def test_a_key_has_its_rate(database: str) -> None:
    """Beyond it: 429, when to come back, and the policy; another key is not concerned."""
    async with serving(database, rate=Rate(1, 2), monotonic=lambda: 1_000.0) as service:
        slow = (await service.access.keyring.make("default", ANN, ["read"])).text
        fast = (await service.access.keyring.make("default", ANN, ["read"], rate=1_000)).text
        async with client_of(service.url, slow) as client:
            answers = [await client.get("/v1/charts") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        refused = answers[-1]
        assert refused.json()["code"] == "rate_limited"
        assert refused.headers["retry-after"] == "1"
        assert refused.headers["ratelimit-policy"] == '"credential";q=1;w=1'
        assert refused.headers["ratelimit"] == '"credential";r=0;t=1'
        async with client_of(service.url, fast) as client:
            assert {(await client.get("/v1/charts")).status_code for _ in range(20)} == {200}
        await service.access.log.turn()
        noted = await service.access.keyring.notes("default", slow.split("_")[1])
        assert {note.what: note.count for note in noted} == {"made": 1, "used": 2, "refused: rate": 1}


@pytest.mark.parametrize(
    "actor",
    [
        {"id": "system"},
        {"id": "System", "kind": "person"},
        {"id": "ann", "kind": "system"},
        {"id": "instance:e1"},
    ],
    ids=str,
)
async def test_nobody_gets_a_key_for_the_engine(service: Service, actor: dict[str, str]) -> None:
    """The engine's own actors stay the engine's: a history that names one means the engine."""
    answer = await service.client.post("/v1/keys", json={"actor": actor, "scopes": ["send"]})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid"), answer.text
    with pytest.raises(InputError):
        await service.access.keyring.make("default", Actor(**actor), ["send"])  # type: ignore[arg-type]


async def test_a_key_that_was_made_for_the_engine_lets_nobody_in(service: Service) -> None:
    """One that an earlier version has made is refused, and its owner can see why."""
    made = await make(service)
    keys = service.node.engine.store.keys
    at, row = await keys.find(made["id"])
    assert row is not None
    old = replace(row, id="0" * 16, actor="system")
    await keys.add(old, act(old, "made", at, ""))
    assert await status(service, made["key"]) == 200
    assert await status(service, made["key"].replace(row.id, old.id)) == 401
    assert (await notes(service, old.id))["refused: reserved"] == 1
