"""Lives over HTTP: create, look at, list, move, explain, cancel."""

import asyncio
from typing import Any

import pytest

from headway import person
from tests.api.serving import Service

pytestmark = pytest.mark.mission("ENG-2")
CONTEXT = {"amount": 30, "purpose": "train"}


async def begin(service: Service, name: str = "e1", **context: object) -> None:
    """An expense in its first state."""
    body = {"chart": "Expense", "id": name, "context": {**CONTEXT, **context}}
    assert (await service.client.post("/v1/instances", json=body)).status_code == 201


async def send(service: Service, event: str, name: str = "e1", **headers: str) -> tuple[int, dict[str, Any]]:
    """The status and the body of the answer to an event."""
    answer = await service.client.post(f"/v1/instances/{name}/events", json={"event": event}, headers=headers)
    return answer.status_code, answer.json()


async def test_a_life_over_http(service: Service) -> None:
    """An instance is created, moved to its end, and can be looked at, listed and explained on the way."""
    body = {"chart": "Expense", "id": "e1", "context": CONTEXT}
    created = await service.client.post("/v1/instances", json=body)
    standing = {
        "id": "e1",
        "chart": "Expense",
        "version": 1,
        "seq": 1,
        "status": "draft",
        "states": ["draft"],
    }
    assert (created.status_code, created.json()) == (201, {**standing, "ended": False})
    assert created.headers["location"] == "/v1/instances/e1"
    assert created.headers["etag"] == '"1"'

    status, moved = await send(service, "submit")
    assert (status, moved["status"], moved["seq"]) == (200, "review", 2)

    seen = await service.client.get("/v1/instances/e1")
    assert seen.headers["etag"] == '"2"'
    assert (seen.json()["status"], seen.json()["context"]) == ("review", CONTEXT)

    allowed = (await service.client.get("/v1/instances/e1/allowed")).json()
    assert {each["event"]: each["yours"] for each in allowed["items"]} == {
        "approve": True,
        "reject": True,
        "withdraw": True,
    }
    why = (await service.client.get("/v1/instances/e1/why")).json()
    assert "manager" in why["text"]
    assert why["stuck"] is False

    status, ended = await send(service, "approve")
    assert (status, ended["status"], ended["ended"]) == (200, "approved", True)
    lines = (await service.client.get("/v1/instances/e1/history")).json()
    assert [line["event"] for line in lines["items"]] == ["start", "submit", "approve"]
    assert lines["items"][2]["actor"] == "root"


async def test_an_event_that_is_refused_says_where_it_stands_and_what_is_possible(service: Service) -> None:
    """An illegal transition is 409, with the states and the events that are allowed."""
    await begin(service)
    status, problem = await send(service, "approve")
    assert status == 409
    assert (problem["code"], problem["type"]) == ("illegal", "/problems/illegal")
    assert problem["states"] == ["draft"]
    assert {each["event"] for each in problem["allowed"]} == {"submit", "withdraw"}
    assert problem["instance"] == "/v1/instances/e1/events"


async def test_a_condition_that_says_no_gives_its_reason(service: Service) -> None:
    """A guard's reason reaches the caller."""
    await begin(service, purpose="")
    status, problem = await send(service, "submit")
    assert (status, problem["code"]) == (409, "guard")
    assert problem["objections"][0]["reason"] == "say what it is for"


async def test_only_who_has_the_role_may(service: Service) -> None:
    """A caller without the role gets 403, and the roles are named."""
    await begin(service)
    await send(service, "submit")
    async with service.as_("send", actor=person("eve")) as eve:
        answer = await eve.post("/v1/instances/e1/events", json={"event": "approve"})
    assert (answer.status_code, answer.json()["code"]) == (403, "actor")


async def test_if_match_guards_against_what_the_caller_has_not_seen(service: Service) -> None:
    """An event for an earlier version is 412 and tells the version; for the right one it goes through."""
    await begin(service)
    status, problem = await send(service, "submit", **{"If-Match": '"7"'})
    assert (status, problem["code"], problem["seq"]) == (412, "version", 1)
    assert (await send(service, "submit", **{"If-Match": '"1"'}))[0] == 200
    late = await service.client.post("/v1/instances/e1/cancel", json={}, headers={"If-Match": '"1"'})
    assert (late.status_code, late.json()["code"]) == (412, "version")
    assert (await send(service, "withdraw", **{"If-Match": "*"}))[0] == 200


async def test_a_repeated_request_gets_the_first_answer_byte_for_byte(service: Service) -> None:
    """The same key and body get the same bytes again; another body is 422."""
    await begin(service)
    url, key = "/v1/instances/e1/events", {"Idempotency-Key": "k 1"}
    first = await service.client.post(url, json={"event": "submit"}, headers=key)
    await send(service, "approve")
    again = await service.client.post(url, json={"event": "submit"}, headers=key)
    assert (again.status_code, again.content) == (first.status_code, first.content) == (200, first.content)
    assert again.headers["etag"] == first.headers["etag"]
    other = await service.client.post(url, json={"event": "withdraw"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "key_reused")


async def test_a_repeated_creation_gets_the_same_id(service: Service) -> None:
    """An instance without an id of its own has the same one when the request is repeated."""
    body, key = {"chart": "Counter"}, {"Idempotency-Key": "c1"}
    first = await service.client.post("/v1/instances", json=body, headers=key)
    again = await service.client.post("/v1/instances", json=body, headers=key)
    assert (first.status_code, first.content) == (201, again.content)


async def test_a_repeated_cancellation_is_told_again(service: Service) -> None:
    """A route that is not the engine's own keeps its answer too, and tells another body apart."""
    await begin(service)
    key = {"Idempotency-Key": "x"}
    first = await service.client.post("/v1/instances/e1/cancel", json={"reason": "a"}, headers=key)
    again = await service.client.post("/v1/instances/e1/cancel", json={"reason": "a"}, headers=key)
    assert (first.status_code, first.json()["status"]) == (200, "withdrawn")
    assert (again.status_code, again.content, again.headers["etag"]) == (200, first.content, '"2"')
    other = await service.client.post("/v1/instances/e1/cancel", json={"reason": "b"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "key_reused")


async def test_repeats_that_come_at_once_get_the_first_answer(service: Service) -> None:
    """Of many requests with one key at once, one is carried out, and the others get its answer and say so."""
    await begin(service)
    key = {"Idempotency-Key": "x"}
    answers = await asyncio.gather(
        *(service.client.post("/v1/instances/e1/cancel", json={}, headers=key) for _ in range(8)),
        *(
            service.client.post(
                "/v1/instances/e1/events", json={"event": "submit"}, headers={"Idempotency-Key": "y"}
            )
            for _ in range(8)
        ),
    )
    for few in (answers[:8], answers[8:]):
        assert {answer.status_code for answer in few} <= {200, 409}
        assert len({answer.content for answer in few}) == 1
        replayed = [answer.headers.get("Idempotency-Replayed") for answer in few]
        assert sorted(map(str, replayed)) == ["None"] + ["true"] * 7


async def test_pages_follow_one_another(service: Service) -> None:
    """All pages together hold each instance once, in the order of creation, and filters hold."""
    for number in range(5):
        await begin(service, f"e{number}")
    names, cursor = [], None
    while True:
        parameters = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = (await service.client.get("/v1/instances", params=parameters)).json()
        names += [item["id"] for item in page["items"]]
        if (cursor := page["next"]) is None:
            break
    assert names == ["e0", "e1", "e2", "e3", "e4"]
    await send(service, "submit", "e3")
    page = (await service.client.get("/v1/instances", params={"status": "review", "chart": "Expense"})).json()
    assert [item["id"] for item in page["items"]] == ["e3"]
    counts = (await service.client.get("/v1/charts/Expense/counts")).json()
    assert counts["counts"] == {"draft": 4, "review": 1, "approved": 0, "rejected": 0, "withdrawn": 0}


@pytest.mark.parametrize("name", ["a/b", "ä ö", "100%", "a%2Fb", "..a", "x?y#z", "😀", "a:1"])
async def test_a_name_may_hold_any_character(service: Service, name: str) -> None:
    """An id with slashes, percent signs or other letters is found again at its Location."""
    created = await service.client.post("/v1/instances", json={"chart": "Counter", "id": name})
    where = created.headers["location"]
    assert (await service.client.post(f"{where}/events", json={"event": "flip"})).status_code == 200
    assert (await service.client.get(where)).json()["id"] == name


async def test_another_tenants_instance_is_as_unknown_as_one_that_is_not_there(service: Service) -> None:
    """Every route answers another tenant's id with the very bytes it has for an id that nobody has."""
    await begin(service)
    routes = [("GET", ""), ("GET", "/allowed"), ("GET", "/history"), ("GET", "/why"), ("POST", "/cancel")]
    async with service.as_("admin", tenant="other") as other:
        for method, path in [*routes, ("POST", "/events")]:
            body: dict[str, Any] = {"json": {"event": "submit"}} if path == "/events" else {}
            theirs = await other.request(method, f"/v1/instances/e1{path}", **body)
            nobodys = await other.request(method, f"/v1/instances/xx{path}", **body)
            assert (theirs.status_code, nobodys.status_code) == (404, 404)
            assert theirs.content.replace(b"e1", b"xx") == nobodys.content
        assert (await other.get("/v1/instances")).json()["items"] == []
        assert (await other.get("/v1/charts/Expense/counts")).json()["counts"]["draft"] == 0


async def test_an_instance_that_has_not_changed_is_not_sent_again(service: Service) -> None:
    """A caller who has the version gets 304 and no body."""
    await begin(service)
    answer = await service.client.get("/v1/instances/e1", headers={"If-None-Match": '"1"'})
    assert (answer.status_code, answer.content) == (304, b"")
