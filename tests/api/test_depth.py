"""JSON that is nested too deep is refused where it comes in; what is taken can always be answered."""

from typing import Any

import httpx
import pytest

from headway import Actor, Ask, Final, State, Statechart, View
from headway.codec import DEEPEST, encode
from headway.store.address import database_at
from tests.api.serving import Service, serving

pytestmark = pytest.mark.mission("ENG-2")
MANAGER = Actor("mia", "person", frozenset({"manager"}))


def keep(view: View) -> dict[str, Any]:
    """The payload, into the context."""
    return {"kept": view.payload}


class Report(Statechart):
    """Work, then a question that shows what the work has found."""

    reading = State(initial=True, run="read")
    asked = State(ask=Ask("manager", shows=("given", "kept")))
    closed, failed = Final(), Final()
    found = reading.on_done.to(asked, do=keep)
    broken = reading.on_error.to(failed)
    close = asked.to(closed, by="manager", do=keep)


def nested(levels: int) -> Any:
    """A value in so many lists and objects."""
    value: Any = "core"
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


async def begin(client: httpx.AsyncClient, name: str, context: Any) -> httpx.Response:
    """Create a report."""
    return await client.post("/v1/instances", json={"chart": "Report", "id": name, "context": context})


async def claim(client: httpx.AsyncClient, key: str | None = None) -> list[dict[str, Any]]:
    """Claim all work."""
    asked = {"worker": "w", "handlers": ["read"], "limit": 10}
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = await client.post("/v1/work/claim", json=asked, headers=headers)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_what_is_as_deep_as_allowed_is_answered_everywhere(database: str) -> None:
    """The deepest context, checkpoint, result and answer come back from every call that shows them."""
    async with serving(database, [Report]) as service, service.as_("admin", actor=MANAGER) as client:
        assert (await begin(client, "r1", {"given": nested(DEEPEST - 2)})).status_code == 201
        [work] = await claim(client)
        about = {"worker": "w", "attempt": 1}
        path = f"/v1/work/{work['id']}"
        deep = nested(DEEPEST - 1)
        for call, more in (
            ("checkpoint", {"checkpoint": deep}),
            ("heartbeat", {"progress": 0.5, "data": {"x": nested(DEEPEST - 2)}, "checkpoint": deep}),
            ("complete", {"result": deep}),
        ):
            answer = await client.post(f"{path}/{call}", json={**about, **more})
            assert answer.status_code == 200, (call, answer.text)
        asks = await client.get("/v1/asks")
        assert asks.json()["items"][0]["shows"] == {"given": nested(DEEPEST - 2), "kept": deep}
        closing = {"event": "close", "data": deep}
        assert (await client.post("/v1/instances/r1/events", json=closing)).status_code == 200
        for shown in ("", "/history", "/why", "/explain"):
            answer = await client.get(f"/v1/instances/r1{shown}")
            assert answer.status_code in {200, 404}, (shown, answer.text)
        history = (await client.get("/v1/instances/r1/history")).json()["items"]
        assert deep in [row["data"] for row in history]
        assert (await client.get("/v1/instances/r1")).json()["context"]["kept"] == deep


@pytest.mark.parametrize("levels", [DEEPEST, 300, 2_000])
async def test_a_body_that_is_too_deep_is_refused(service: Service, levels: int) -> None:
    """Every route refuses it as a bad request that names the limit, and nothing is stored."""
    text = '{"in":' * levels + "1" + "}" * levels
    bodies = {
        "/v1/instances": f'{{"chart": "Counter", "id": "e1", "context": {text}}}',
        "/v1/instances/e0/events": f'{{"event": "flip", "data": {text}}}',
        "/v1/work/x/complete": f'{{"worker": "w", "attempt": 1, "result": {text}}}',
        "/v1/work/x/checkpoint": f'{{"worker": "w", "attempt": 1, "checkpoint": {text}}}',
        "/v1/asks/x/answer": f'{{"answer": "approve", "data": {text}}}',
        "/v1/keys": f'{{"actor": {text}}}',
    }
    await service.client.post("/v1/instances", json={"chart": "Counter", "id": "e0"})
    for path, body in bodies.items():
        answer = await service.client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (400, "malformed"), (path, answer.text)
        assert f"more than {DEEPEST} levels" in answer.json()["detail"]
    assert (await service.client.get("/v1/instances/e1")).status_code == 404
    assert (await service.client.get("/v1/instances/e0")).json()["seq"] == 1


async def test_brackets_in_texts_are_no_levels(service: Service) -> None:
    """A text may hold any brackets, and a long list is not deep."""
    context = {"text": '[{"\\' * 500, "list": [[], {}] * 500}
    answer = await service.client.post(
        "/v1/instances", json={"chart": "Counter", "id": "e1", "context": context}
    )
    assert answer.status_code == 201, answer.text
    assert (await service.client.get("/v1/instances/e1")).json()["context"] == context


@pytest.mark.parametrize("key", [None, "c1"])
async def test_work_that_cannot_be_told_fails_alone(database: str, key: str | None) -> None:
    """A context stored before there was a limit fails its own work; what is claimed along is handed out."""
    deep = encode(nested(300)).decode()
    async with serving(database, [Report]) as service, service.as_("work", actor=MANAGER) as client:
        for name in ("r1", "r2", "r3"):
            await begin(service.client, name, {"given": "here"})
        async with database_at(database) as opened:
            await opened.execute(
                f"UPDATE instance SET snapshot = replace(snapshot, '\"here\"', '{deep}') WHERE id = 'r2'"  # noqa: S608 - of this test
            )
        claimed = await claim(client, key)
        assert {work["instance"] for work in claimed} == {"r1", "r3"}
        assert (await service.node.engine.get("default", "r2")).states == ("failed",)
        assert await claim(client, key) == ([] if key is None else claimed)
