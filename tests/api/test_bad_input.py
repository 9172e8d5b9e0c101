"""Whatever comes in: a problem document, and the service stays up."""

import asyncio
import json
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator

import httpx
import pytest

from headway.api.cursors import cursor_text
from headway.api.problem_kinds import KINDS
from tests.api.serving import Service

pytestmark = pytest.mark.mission("ENG-2")
EVENTS = "/v1/instances/e1/events"
JSON = {"Content-Type": "application/json"}
BODIES = [
    (b"", 400, "malformed"),
    (b"{", 400, "malformed"),
    (b'{"a":', 400, "malformed"),
    (b'{"event": 1, ', 400, "malformed"),
    (b'{"a": 1} x', 400, "malformed"),
    (b'{"event": "a"} x', 400, "malformed"),
    (b"\xff\xfe", 400, "malformed"),
    (b'{"event": "\\ud800"}', 400, "malformed"),
    (b'{"event": "flip", "data": ' + b"[" * 100_000, 400, "malformed"),
    (b"null", 422, "invalid"),
    (b"[]", 422, "invalid"),
    (b"{}", 422, "invalid"),
    (b'{"event": 1}', 422, "invalid"),
    (b'{"event": true}', 422, "invalid"),
    (b'{"event": null}', 422, "invalid"),
    (b'{"event": "flip", "unknown": 1}', 422, "invalid"),
    (b'{"event": "flip", "reason": 5}', 422, "invalid"),
    (b'{"event": "flip", "reason": "\\u0000"}', 422, "invalid"),
    (b'{"event": "flip", "data": 1e999}', 422, "invalid"),
    (b'{"event": ""}', 422, "invalid"),
    (b'{"event": "\\u0000"}', 422, "invalid"),
    (b'{"event": "work.done"}', 409, "reserved"),
]


async def begun(service: Service) -> httpx.AsyncClient:
    """A client of a service with one instance."""
    answer = await service.client.post("/v1/instances", json={"chart": "Counter", "id": "e1"})
    assert answer.status_code == 201
    return service.client


def check(answer: httpx.Response, status: int, code: str) -> dict[str, object]:
    """The answer is a whole problem document of this code."""
    problem: dict[str, object] = answer.json()
    assert (answer.status_code, problem["code"], problem["status"]) == (status, code, status), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["type"] == f"/problems/{code}"
    assert problem["title"] == KINDS[code].title
    assert problem["detail"]
    return problem


async def test_a_body_that_is_not_what_it_should_be_is_told_where(service: Service) -> None:
    """Malformed JSON, wrong types, unknown fields: nothing is coerced, and nothing changes."""
    client = await begun(service)
    for body, status, code in BODIES:
        check(await client.post(EVENTS, content=body, headers=JSON), status, code)
    problem = check(await client.post(EVENTS, json={"event": 1}), 422, "invalid")
    assert problem["errors"] == [{"place": "body.event", "message": "Expected `str`, got `int`"}]
    assert (await client.get("/v1/instances/e1")).headers["etag"] == '"1"'


@pytest.mark.parametrize(
    "body",
    [
        {"chart": 1},
        {"chart": "Counter", "id": 1},
        {"chart": "Counter", "id": ""},
        {"chart": "Counter", "id": ".."},
        {"chart": "Counter", "id": "a\x00"},
        {"chart": "Counter", "context": []},
        {"chart": "Counter", "tenant": "other"},
        {"chart": "Counter", "id": "a:1:2"},
    ],
)
async def test_a_creation_that_is_not_what_it_should_be(service: Service, body: dict[str, object]) -> None:
    """A creation is as strict, and nobody chooses a tenant."""
    check(await service.client.post("/v1/instances", json=body), 422, "invalid")
    assert (await service.client.get("/v1/instances")).json()["items"] == []


ACTOR = {"id": "bot"}
BULK, FILTER = "/v1/operations/bulk", {"chart": "Counter"}
FIELDS = "there is no such field; there are: "


@pytest.mark.parametrize(
    ("path", "body", "place", "message"),
    [
        (EVENTS, {"event": "flip", "x": 1}, "body.x", f"{FIELDS}event, data, reason"),
        ("/v1/instances", {"chart": "Counter", "x": 1}, "body.x", f"{FIELDS}chart, id, context"),
        ("/v1/asks/a/answer", {"x": 1}, "body.x", f"{FIELDS}answer, data, reason"),
        ("/v1/asks/a/claim", {"x": 1}, "body.x", f"{FIELDS}lasts"),
        ("/v1/asks/a/delegate", {}, "body.to", "it is required"),
        (
            "/v1/keys",
            {"actor": {**ACTOR, "x": 1}, "scopes": ["read"]},
            "body.actor.x",
            f"{FIELDS}id, kind, roles",
        ),
        (
            BULK,
            {"action": "retry", "filter": {**FILTER, "x": 1}},
            "body.filter.x",
            f"{FIELDS}chart, status, owner, parent, ended",
        ),
        (
            BULK,
            {"action": "retry", "filter": FILTER, "event": "flip"},
            "body.event",
            f"{FIELDS}action, filter, dry_run, limit, cursor",
        ),
        (BULK, {"action": "stop", "filter": FILTER}, "body.action", "it is one of: cancel, send, retry"),
        (BULK, {"filter": FILTER}, "body.action", "it is required"),
        (
            BULK,
            {"action": "retry", "filter": {**FILTER, "status": "of"}},
            "body.filter.status",
            "Counter has no such status; there are: on, off",
        ),
    ],
)
async def test_what_is_wrong_is_told_with_what_would_be_right(
    service: Service, *, path: str, body: dict[str, object], place: str, message: str
) -> None:
    """An unknown field is told with the fields there are, an unknown choice with the choices."""
    problem = check(await service.client.post(path, json=body), 422, "invalid")
    assert problem["errors"] == [{"place": place, "message": message}]


async def test_a_chart_that_there_is_not_is_404_wherever_it_is_named(service: Service) -> None:
    """A list and a change of many do not take a typing error for a chart without instances."""
    check(await service.client.get("/v1/instances?chart=Leaf"), 404, "unknown_chart")
    bulk = {"action": "retry", "filter": {"chart": "Leaf"}}
    check(await service.client.post(BULK, json=bulk), 404, "unknown_chart")


@pytest.mark.parametrize("path", ["/v1/instances", EVENTS, "/v1/instances/e1/cancel"])
async def test_a_body_that_is_too_large_is_refused(service: Service, path: str) -> None:
    """More than a megabyte is 413, with and without its length told, and far more ends the connection."""
    client = await begun(service)
    body = json.dumps({"event": "flip", "data": "x" * 1_000_000}).encode()

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    check(await client.post(path, content=body, headers=JSON), 413, "too_large")
    check(await client.post(path, content=parts(), headers=JSON), 413, "too_large")
    answer = await raw(service, f"POST {path} HTTP/1.1", length=10**12)
    assert answer.startswith(b"HTTP/1.1 413")
    assert (await client.get("/v1/instances/e1")).status_code == 200


@pytest.mark.parametrize("path", [EVENTS, "/v1/instances/e1/cancel"])
async def test_a_body_that_is_not_json_is_refused(service: Service, path: str) -> None:
    """Forms, texts and other encodings are 415; a charset that says UTF-8 is fine."""
    client = await begun(service)
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin-1",
        "json",
    ):
        check(await client.post(path, content=b"{}", headers={"Content-Type": kind}), 415, "media_type")
    fine = {"Content-Type": 'Application/JSON; charset="UTF-8"'}
    assert (await client.post(path, content=b'{"event": "flip"}', headers=fine)).status_code != 415


async def test_a_method_that_a_path_does_not_take_is_told_with_those_it_takes(service: Service) -> None:
    """405 names all methods of the path in Allow."""
    for method, path, allow in [
        ("DELETE", "/v1/instances", "GET, POST"),
        ("GET", EVENTS, "POST"),
        ("POST", "/v1/charts", "GET"),
        ("TRACE", "/health", "GET"),
    ]:
        answer = await service.client.request(method, path)
        check(answer, 405, "method")
        assert answer.headers["allow"] == allow


@pytest.mark.parametrize(
    ("path", "body"),
    [(EVENTS, {"event": "flip"}), ("/v1/instances", {"chart": "Counter"}), ("/v1/instances/e1/cancel", {})],
    ids=["hot", "hot creation", "other"],
)
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Idempotency-Key", ("a", "b")),
        ("Idempotency-Key", ("a", "a")),
        ("If-Match", ('"9"', "*")),
        ("Authorization", ("Bearer nobody",)),
        ("Content-Type", ("text/plain",)),
    ],
    ids=str,
)
async def test_a_doubled_header_is_refused(
    service: Service, path: str, body: dict[str, str], *, name: str, values: tuple[str, ...]
) -> None:
    """Which of the two was meant nobody knows, so nothing is done, by whichever way the request comes."""
    client = await begun(service)
    headers = [(name, value) for value in values]
    for content in (json.dumps(body).encode(), _in_parts(json.dumps(body).encode())):
        own = [("Authorization", client.headers["Authorization"]), *JSON.items()]
        async with httpx.AsyncClient(base_url=service.url) as bare:
            answer = await bare.post(path, content=content, headers=[*own, *headers])
        assert name in str(check(answer, 400, "doubled_header")["detail"])
    assert (await client.get("/v1/instances/e1")).headers["etag"] == '"1"'
    assert len((await client.get("/v1/instances")).json()["items"]) == 1


async def _in_parts(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 5):
        yield body[start : start + 5]


@pytest.mark.parametrize("cursor", ["x", "", "WyJoaXN0b3J5IiwxXQ", "W10", "\x00", "ä", "A" * 999])
async def test_a_cursor_that_is_none_is_refused(service: Service, cursor: str) -> None:
    """A forged cursor, or one of another route, is 422."""
    check(await service.client.get("/v1/instances", params={"cursor": cursor}), 422, "cursor")


async def test_a_cursor_of_another_tenant_tells_nothing(service: Service) -> None:
    """The cursor of another tenant's page is as wrong as a forged one."""
    for name in ("a", "b"):
        await service.client.post("/v1/instances", json={"chart": "Counter", "id": name})
    following = (await service.client.get("/v1/instances?limit=1")).json()["next"]
    async with service.as_("read", tenant="other") as other:
        check(await other.get("/v1/instances", params={"cursor": following}), 422, "cursor")


@pytest.mark.mission("ENG-14")
async def test_a_cursor_of_a_history_does_not_count_the_steps_of_others(service: Service) -> None:
    """It holds no place among all lines, and another tenant's is as wrong as a forged one."""
    history = "/v1/instances/e1/history"
    async with service.as_("admin", tenant="other") as other:
        for client in (await begun(service), other):
            await client.post("/v1/instances", json={"chart": "Counter", "id": "e1"})
            await client.post(EVENTS, json={"event": "flip"})
        theirs = (await other.get(f"{history}?limit=1")).json()["next"]
    first = (await service.client.get(f"{history}?limit=1")).json()
    rest = (await service.client.get(history, params={"cursor": first["next"]})).json()
    assert [line["seq"] for line in (*first["items"], *rest["items"])] == [1, 2]
    named, place = json.loads(urlsafe_b64decode(first["next"] + "=="))
    assert (named, len(place)) == ("history", 59)
    for cursor in (
        theirs,
        cursor_text("history", 1),
        cursor_text("history", "1"),
        cursor_text("letters", place),
    ):
        problem = check(await service.client.get(history, params={"cursor": cursor}), 422, "cursor")
        assert problem["detail"] == "this is not a cursor of this route"


@pytest.mark.parametrize(
    "query",
    [
        *(
            "limit=0",
            "limit=501",
            "limit=x",
            "limit=1.0",
            "limit=%2B1",
            "limit=1_0",
            "limit=%201",
            "limit=01",
        ),
        *(
            "limit=",
            "limit=" + "9" * 5_000,
            "limit=1&limit=2",
            "ended=1",
            "ended=yes",
            "unknown=1",
            "stauts=a",
        ),
    ],
)
async def test_a_query_is_as_strict_as_a_body(service: Service, query: str) -> None:
    """Numbers out of bounds, other words for true, unknown and doubled parameters are 422."""
    check(await service.client.get(f"/v1/instances?{query}"), 422, "invalid")


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/v1/instances/",
            "/v1/instances//events",
            "/v1//instances",
            "/v1/instances/%00",
            "/v1/instances/%FF",
        ),
        *("/v1/instances/../keys", "/v1/instances/%2e%2e", "/../etc/passwd", "/v1/instances/e1/../../charts"),
        *("/v1/instances/e1%2Fevents", "/v1/charts/..%2f..%2fsecret", "/problems/..%2Fhealth", "//v1/charts"),
        "/v1/instances/" + "a" * 60_000,
    ],
)
async def test_a_path_that_plays_tricks_leads_nowhere(service: Service, path: str) -> None:
    """Slashes, dots, NULs and overlong names are 404 or 422, never another route."""
    await begun(service)
    for method in ("GET", "POST"):
        answer = await raw(service, f"{method} {path} HTTP/1.1")
        assert answer.split(b" ", 2)[1] in {b"400", b"404", b"405", b"422"}, answer
        assert b'"items"' not in answer


async def raw(
    service: Service, line: str, *headers: str, body: bytes = b"{}", length: int | None = None
) -> bytes:
    """What comes back for the bytes of a request as they stand."""
    host, port = service.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    key = service.client.headers["authorization"]
    head = [line, f"Host: {host}", f"Authorization: {key}", "Content-Type: application/json", *headers]
    told = [f"Content-Length: {length or len(body)}", "Connection: close", "", ""]
    writer.write("\r\n".join([*head, *told]).encode("latin-1") + body)
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return answer


@pytest.mark.parametrize(
    "header",
    [
        *("Idempotency-Key: ", "Idempotency-Key: \xe4", "Idempotency-Key: " + "k" * 256, 'If-Match: "x"'),
        *("If-Match: 1", 'If-Match: W/"1"', 'If-Match: "1", "2"', 'If-Match: "01"'),
    ],
)
async def test_a_header_that_is_not_what_it_should_be_is_refused(service: Service, header: str) -> None:
    """A key or a version that cannot be is 422, and the event does not count."""
    await begun(service)
    answer = await raw(service, f"POST {EVENTS} HTTP/1.1", header, body=b'{"event": "flip"}')
    assert answer.startswith(b"HTTP/1.1 422"), answer


async def test_what_comes_in_does_not_come_out_in_headers(service: Service) -> None:
    """A line break in an id, percent-encoded or in JSON, makes no header of an answer."""
    name = "a\r\nSet-Cookie: x=1"
    created = await service.client.post("/v1/instances", json={"chart": "Counter", "id": name})
    assert "set-cookie" not in created.headers
    seen = await service.client.get(created.headers["location"])
    assert "set-cookie" not in seen.headers
    answer = await raw(service, "GET /v1/instances/a%0d%0aSet-Cookie:%20x=1/why HTTP/1.1")
    assert b"\r\nSet-Cookie" not in answer
    smuggled = await raw(service, f"POST {EVENTS} HTTP/1.1", "X: a\nb", "Transfer-Encoding: chunked")
    assert smuggled.startswith(b"HTTP/1.1 400")


async def test_without_a_credential_nothing_is_told(service: Service) -> None:
    """Every route under /v1 but the links is 401 without a key and with a forged one, before all else."""
    async with httpx.AsyncClient(base_url=service.url, timeout=30) as nobody:
        document = (await nobody.get("/openapi.json")).json()
        for path, methods in document["paths"].items():
            if not path.startswith("/v1/") or path.startswith("/v1/links"):
                continue
            for method in methods:
                where = path.replace("{", "").replace("}", "")
                for headers in ({}, {"Authorization": "Bearer hw_x_y"}):
                    answer = await nobody.request(method, where, headers=headers)
                    check(answer, 401, "unauthenticated")


async def test_a_credential_without_the_scope_is_refused(service: Service) -> None:
    """Reading needs `read`, and moving needs `send`."""
    await begun(service)
    async with service.as_("read") as reader, service.as_("send") as sender:
        assert check(await reader.post(EVENTS, json={"event": "flip"}), 403, "forbidden")["scope"] == "send"
        assert check(await sender.get("/v1/instances/e1"), 403, "forbidden")["scope"] == "read"
        assert (await sender.post(EVENTS, json={"event": "flip"})).status_code == 200
