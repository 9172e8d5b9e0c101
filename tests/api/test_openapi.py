"""The OpenAPI document, and a tester that knows nothing but it."""

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.api.metrics import expose
from headway.api.problem_kinds import KINDS
from headway.telemetry.metrics import Metrics
from tests import fuzzing
from tests.api.serving import Service

pytestmark = pytest.mark.mission("ENG-2")
HERE = Path(__file__).parent
PHASES = "examples,coverage,fuzzing,stateful"
STREAMS = ("/v1/events", "/metrics")
"""Answers that do not end, or are not of this service alone."""
FIXED = ("--seed", "5", "--generation-deterministic", "--max-examples", "5")
"""The same requests each time, however fast the machine is."""
LONG = ("--seed", str(fuzzing.ROUND), "--max-time", "120")
"""Others in each round of `make fuzz`, for as long as this takes."""
STATUSES = {
    400: "malformed doubled_header not_http",
    401: "unauthenticated",
    403: "forbidden link origin actor owner duty",
    404: "not_found unknown_chart unknown_instance unknown_ask unknown_key unknown_work",
    405: "method",
    408: "silent",
    409: "secret_told exists lease_lost result_refused not_possible illegal already terminal unknown_event"
    " reserved guard claimed late stale early depth children landing",
    412: "version",
    413: "too_large",
    415: "media_type",
    422: "invalid cursor key_reused payload context",
    429: "rate_limited too_many_streams too_many_handshakes slow",
    431: "head_too_large",
    500: "internal fault runaway",
    503: "unavailable unknown_version schema drawing",
    507: "full",
}
"""The codes of problems, by the status of their answers."""
SEARCH = FIXED if fuzzing.ROUND is None else LONG


@pytest.mark.fuzz
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_a_tester_that_knows_only_the_document_finds_nothing(service: Service, tmp_path: Path) -> None:
    """schemathesis, with all checks in all phases, meets no answer that the document does not promise."""
    for number in range(3):
        body = {"chart": "Expense", "id": f"e{number}", "context": {"amount": 1, "purpose": "train"}}
        await service.client.post("/v1/instances", json=body)
        await service.client.post(f"/v1/instances/e{number}/events", json={"event": "submit"})
    key = service.client.headers["authorization"].removeprefix("Bearer ")
    excluded = [option for path in STREAMS for option in ("--exclude-path", path)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli"),
        *("--config-file", str(HERE / "schemathesis.toml")),
        *("run", f"{service.url}/openapi.json", "--checks", "all", "--phases", PHASES, *excluded),
        *("--request-timeout", "60", "--no-color", *SEARCH),
        env={**os.environ, "SERVICE": service.url, "KEY": key, "HOOKS": str(HERE / "schemathesis_hooks.py")},
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await process.communicate()
    assert process.returncode == 0, told.decode()


async def document_of(service: Service) -> dict[str, Any]:
    """The document as the service tells it."""
    answer = await service.client.get("/openapi.json")
    document: dict[str, Any] = answer.json()
    return document


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_every_operation_tells_its_problems_and_its_name(service: Service) -> None:
    """Each operation has an id and a description; each under /v1 tells of 401; each POST can be repeated."""
    document = await document_of(service)
    assert document["openapi"].startswith("3.1")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["operationId"].isidentifier(), (path, method)
            assert operation.get("description"), (path, method)
            is_closed = path.startswith("/v1") and not path.startswith("/v1/links")
            assert ("401" in operation["responses"]) == is_closed
            names = [each.get("$ref", "") for each in operation.get("parameters", [])]
            repeatable = any(name.endswith("IdempotencyKey") for name in names)
            assert repeatable == (method == "post" and is_closed), (path, method)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_links_lead_to_operations_that_exist(service: Service) -> None:
    """What one operation answers leads on to others, by their ids and their parameters' names."""
    document = await document_of(service)
    operations = {
        operation["operationId"]: operation
        for each in document["paths"].values()
        for operation in each.values()
    }
    links = [
        link
        for operation in operations.values()
        for response in operation["responses"].values()
        for link in response.get("links", {}).values()
    ]
    assert len(links) > 10
    for link in links:
        known = {each.get("name") for each in operations[link["operationId"]]["parameters"]}
        assert set(link["parameters"]) <= known


def test_the_status_of_a_problem_never_changes() -> None:
    """Clients decide by it whether to send a request again."""
    expected = {code: status for status, codes in STATUSES.items() for code in codes.split()}
    assert {code: kind.status for code, kind in KINDS.items()} == expected


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_every_problem_has_its_page(service: Service) -> None:
    """The type of each problem leads to a page; the pages need nothing from elsewhere."""
    for code, kind in KINDS.items():
        page = await service.client.get(f"/problems/{code}")
        assert page.status_code == 200
        assert code in page.text
        assert str(kind.status) in page.text
    for path in ("/docs", "/problems"):
        page = await service.client.get(path)
        assert page.status_code == 200
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "<script" not in page.text
        assert not re.search(r"src=|url\(|href=\"(?!/)", page.text)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_the_page_of_routes_tells_every_field_of_every_body(service: Service) -> None:
    """Each with its type; a closed row has a summary; headers are described; no table is empty."""
    document, page = await document_of(service), (await service.client.get("/docs")).text
    rows = page.split("<details>")[1:]
    assert len(rows) == sum(len(methods) for methods in document["paths"].values())
    for row in rows:
        assert re.search(r'<span class="short">[^<]', row), row
    assert "<table></table>" not in page
    answer = next(row for row in rows if "/v1/asks/{id}/answer<" in row)
    assert "<code>answer</code></td><td>string</td>" in answer
    assert "repeated, it gets the first answer again" in answer
    create = next(row for row in rows if "POST" in row and "/v1/keys<" in row)
    assert "<code>actor.id</code></td><td>string</td><td>yes</td>" in create
    assert "Last-Event-ID" in page


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_what_is_asked_for_by_a_body_has_an_example(service: Service) -> None:
    """For all that people and those who make keys do."""
    document = await document_of(service)
    asks = [f"/v1/asks/{{id}}/{act}" for act in ("claim", "delegate", "answer", "link")]
    for path in (*asks, "/v1/keys"):
        assert document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["examples"]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_a_link_that_was_made_leads_to_its_answer(service: Service) -> None:
    """By its token, to the operations that show it and answer it; and every ask leads to a link."""
    paths = (await document_of(service))["paths"]
    made = paths["/v1/asks/{id}/link"]["post"]["responses"]["201"]["links"]
    assert {name: link["parameters"] for name, link in made.items()} == {
        "open_link": {"token": "$response.body#/token"},
        "answer_link": {"token": "$response.body#/token"},
    }
    assert "make_link" in paths["/v1/asks"]["get"]["responses"]["200"]["links"]


async def test_every_route_tells_how_it_refuses(service: Service) -> None:
    """What needs a credential says 401, 403 and 429, the metrics too; a doubled header is 400 everywhere."""
    expose(service.app, Metrics(service.node), "a token for all metrics")
    paths = (await service.client.get("/openapi.json")).json()["paths"]
    async with httpx.AsyncClient(base_url=service.url) as nobody:
        for path, operations in paths.items():
            assert all("400" in operation["responses"] for operation in operations.values()), path
            for method, operation in operations.items():
                if "{" not in path and method == "get" and (await nobody.get(path)).status_code == 401:
                    assert {"401", "403", "429"} <= {*operation["responses"]}, path
                    assert operation["security"] == [{"bearer": []}]
    assert "401" in paths["/metrics"]["get"]["responses"]
