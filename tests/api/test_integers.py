"""The integers of requests: each has bounds, which the OpenAPI document tells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headway.api import bodies
from headway.api.app import application
from headway.api.bodies import LARGEST_WHOLE
from headway.api.problems import Problem
from headway.api.workers import FailBody, ReleaseBody, WorkClaimBody
from headway.codec import decode, encode, from_data
from headway.errors import InputError
from headway.lifecycles.supervision.lifecycle import lifecycle as supervision
from headway.lifecycles.task_runs.lifecycle import lifecycle as task_runs
from tests.api.serving import Service

ACTS: dict[str, dict[str, Any]] = {
    "checkpoint": {"checkpoint": {}},
    "complete": {},
    "fail": {"code": "LOST"},
    "heartbeat": {},
    "release": {},
}


def parsed(kind: Any, body: bytes) -> Any:
    """The value of a body, as a route decodes it."""
    try:
        return decode(kind, body)
    except InputError as error:
        return bodies.decoded_again(kind, body, error)


def integers(document: dict[str, Any], part: object, seen: frozenset[str]) -> Iterator[dict[str, Any]]:
    """All schemas of integers in a part of a document, with what it refers to."""
    if isinstance(part, list):
        for each in part:
            yield from integers(document, each, seen)
    elif isinstance(part, dict):
        if part.get("type") == "integer":
            yield part
        name = part.get("$ref")
        if isinstance(name, str) and name not in seen:
            _, kind, title = name.removeprefix("#/").split("/")
            yield from integers(document, document["components"][kind][title], seen | {name})
        for each in part.values():
            yield from integers(document, each, seen)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_every_integer_of_a_request_has_bounds_in_the_document(service: Service) -> None:
    """In bodies, paths, queries and headers of all routes, those of the lifecycles too."""
    routers = (*supervision.routers, *task_runs.routers)
    document = application(service.node, service.access, routers=routers).app.openapi()
    found = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            taken = [operation.get("requestBody"), operation.get("parameters")]
            for schema in integers(document, taken, frozenset()):
                found += 1
                assert {"minimum", "maximum"} <= {*schema}, (method, path, schema)
                assert schema["maximum"] <= LARGEST_WHOLE, (method, path, schema)
    assert found > 20


@pytest.mark.parametrize("act", ACTS)
async def test_an_attempt_beyond_its_bound_is_refused_and_the_last_one_is_looked_up(
    service: Service, act: str
) -> None:
    """The largest attempt that the document allows fits the store; the next is an invalid body."""
    body = {"worker": "w", **ACTS[act]}
    answers = []
    for attempt in (LARGEST_WHOLE, LARGEST_WHOLE + 1, 2**63, 10**30):
        answer = await service.client.post(f"/v1/work/none:1:0/{act}", json={**body, "attempt": attempt})
        answers.append(answer)
    first, *others = answers
    assert first.status_code != 422, first.text
    assert first.is_success or first.json()["code"] == "lease_lost"
    for answer in others:
        assert answer.status_code == 422
        assert [each["place"] for each in answer.json()["errors"]] == ["body.attempt"]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_versions_and_counters_have_bounds_too(service: Service) -> None:
    """A version that a worker says it knows, and what it adds to a counter."""
    claim = {"worker": "w", "handlers": ["pay"], "charts": {"Expense": [10**30]}}
    answer = await service.client.post("/v1/work/claim", json=claim)
    assert answer.status_code == 422
    told = {"worker": "w", "attempt": 1, "progress": 0.5, "counters": {"pages": 10**30}}
    answer = await service.client.post("/v1/work/none:1:0/heartbeat", json=told)
    assert answer.status_code == 422


@pytest.mark.parametrize("charts", [{"a": [1.0] * 5_000}, {"a": [], "b": [1.0]}], ids=["many", "some"])
async def test_whole_numbers_written_with_a_point_are_taken_all_at_once(
    monkeypatch: pytest.MonkeyPatch, charts: dict[str, list[float]]
) -> None:
    """JSON does not tell 1.0 from 1; the body is decoded a few times, however many there are."""
    decoded = []

    def counting(kind: Any, data: Any) -> Any:
        decoded.append(kind)
        return from_data(kind, data)

    monkeypatch.setattr(bodies, "from_data", counting)
    claim = parsed(WorkClaimBody, encode({"worker": "w", "handlers": ["h"], "charts": charts}))
    assert claim.charts == charts
    assert len(decoded) <= 3


@pytest.mark.parametrize("charts", [{"b": [1.0], "c": None}, {"b": [1.0, 1.5]}, {"b": {"x": 1.0}}])
async def test_other_numbers_beside_them_are_refused(charts: object) -> None:
    """What is wrong is named; nothing fails."""
    with pytest.raises(Problem) as refused:
        parsed(WorkClaimBody, encode({"worker": "w", "handlers": ["h"], "charts": charts}))
    assert refused.value.code == "invalid"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (FailBody, {"worker": "w", "attempt": 1, "code": "A\n"}),
        (ReleaseBody, {"worker": "w", "attempt": 1, "after": "5s\n"}),
    ],
)
async def test_a_pattern_ends_where_the_text_ends(kind: Any, body: dict[str, Any]) -> None:
    """A line break at the end does not pass."""
    with pytest.raises(Problem) as refused:
        parsed(kind, encode(body))
    assert refused.value.code == "invalid"


async def test_a_mistake_behind_them_is_the_one_that_is_named() -> None:
    """A whole number written as 1.0 is none."""
    with pytest.raises(Problem, match="handlers"):
        parsed(WorkClaimBody, encode({"worker": "w", "charts": {"a": [1.0]}}))
