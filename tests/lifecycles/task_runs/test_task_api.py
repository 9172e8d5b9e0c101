"""The routes of task runs: bad input, repeats, tenants, pages, and what a UI follows."""

import json
from typing import Any

import httpx
import pytest

from headway import Actor
from headway.engine.tail import cursor_text
from headway.lifecycles.task_runs.artifacts import LARGEST_ARTIFACT
from headway.lifecycles.task_runs.chart import TaskRun
from headway.store.rows import Cursor
from tests.api.serving import client_of
from tests.lifecycles.task_runs.place import ANN, Office
from tests.lifecycles.task_runs.team import calls

pytestmark = pytest.mark.mission("TSK-API")
HANGING = {"processes": [{"name": "p", "does": "hang"}]}


async def begin(office: Office, config: dict[str, Any] | None = None) -> str:
    """The path of a new run."""
    made = await office.post("/task-runs", runner="listed", config=config or HANGING)
    return f"/task-runs/{made['id']}"


@pytest.mark.parametrize("by", ["header", "body"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/task-runs", {"runner": "nothing"}),
        ("/task-runs", {"runner": "nothing", "id": "a/b c"}),
        ("/workflow-runs", {"nodes": {"a": {"runner": "nothing"}}}),
    ],
)
async def test_what_is_created_says_where_it_is(
    office: Office, path: str, body: dict[str, Any], by: str
) -> None:
    """201 names the place of the new run or workflow run, and so does a repeat."""
    named: dict[str, Any] = {"headers": {"Idempotency-Key": "k"}} if by == "header" else {}
    asked = {**body, **({"request_id": "k"} if by == "body" else {})}
    for _ in range(2):
        made = await office.client.post(path, json=asked, **named)
        assert (made.status_code, made.headers["location"][: len(path) + 1]) == (201, f"{path}/")
        assert (await office.get(made.headers["location"]))["id"] == made.json()["id"]


@pytest.mark.mission("TSK-M")
async def test_a_forbidden_action_is_409_with_the_reason_and_what_is_allowed(office: Office) -> None:
    """The problem names the state and the events; nothing has changed."""
    path = await begin(office)
    run = await office.when(path, lambda it: it["task_processes_by_status"] == {"Running": 1})
    for action, code in (("resume", "already"), ("continue", "already")):
        problem = await office.apply(path, action)
        assert (problem.status_code, problem.json()["code"]) == (409, code)
        assert problem.json()["detail"]
        assert {"stop", "restart"} <= {each["event"] for each in problem.json()["allowed"]}
    assert (await office.get(path))["seq"] == run["seq"]


@pytest.mark.parametrize("path", ["/task-runs/x", "/task-processes/x", "/workflow-runs/x"])
async def test_an_unknown_action_is_422(office: Office, path: str) -> None:
    """The actions that there are are named; an unknown field is refused too."""
    answer = await office.apply(path, "explode")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert "stop" in answer.json()["detail"]
    assert (await office.apply(path, "stop", extra=1)).status_code == 422
    assert (await office.apply(path, "stop")).status_code == 404


def task(*after: str, **more: Any) -> dict[str, Any]:
    """A node."""
    return {"runner": "listed", "after": [*after], **more}


@pytest.mark.mission("TSK-WF")
@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ({"a": task("b"), "b": task("c"), "c": task("a")}, "goes in a circle: "),
        ({"a": task("a")}, "goes in a circle: a → a"),
        ({"a": task("b")}, "a waits for b, which is no node"),
        ({"a": task(), "b": task("a", "a")}, "b waits twice"),
        ({"a": {"runner": "nobody"}}, "there is no runner 'nobody'; there are: bulky, listed"),
        ({}, "nodes"),
    ],
)
async def test_a_graph_that_cannot_be_done_is_refused_and_not_stored(
    office: Office, nodes: dict[str, Any], says: str
) -> None:
    """A cycle, an unknown parent, an unknown runner, no nodes: 422 in words, and there is no workflow run."""
    answer = await office.client.post("/workflow-runs", json={"id": "w1", "nodes": nodes})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert says in answer.json()["detail"]
    assert (await office.get("/workflow-runs"))["items"] == []


@pytest.mark.mission("TSK-WF")
async def test_an_artifact_that_is_too_large_is_refused_and_not_stored(office: Office) -> None:
    """Given to a run or to a node it is 413 before anything is stored; the limit itself is fine."""
    large, fits = "x" * LARGEST_ARTIFACT, "x" * (LARGEST_ARTIFACT - 2)
    for path, body in (
        ("/task-runs", {"runner": "listed", "input_artifacts": ["small", large]}),
        ("/workflow-runs", {"nodes": {"a": task(input_artifacts=[large])}}),
        ("/task-runs", {"runner": "listed", "input_artifacts": [fits] * 6}),
    ):
        answer = await office.client.post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert "bytes" in answer.json()["detail"]
        assert (await office.get(path))["items"] == []
    await office.post("/task-runs", runner="nothing", input_artifacts=[fits])


@pytest.mark.mission("TSK-WF", "TSK-F2")
async def test_a_process_that_brings_out_too_much_fails_for_good(office: Office) -> None:
    """Nothing of it is stored, and it is not tried again."""
    path = await begin(office, {"processes": [{"name": "p", "does": "large"}]})
    run = await office.until(path, "Failed")
    process = (await office.processes(run["id"]))["p"]
    assert (process["status"], process["output_artifacts"], calls["p"]) == ("Failed", [], 1)


@pytest.mark.mission("ENG-6")
@pytest.mark.parametrize("by", ["header", "body"])
async def test_a_repeated_request_gets_the_first_answer(office: Office, by: str) -> None:
    """By header or by request_id in the body: one run, one restart; another body with the same id is 422."""

    async def post(path: str, key: str, **body: Any) -> httpx.Response:
        headers = {"Idempotency-Key": key} if by == "header" else {}
        named = {"request_id": key} if by == "body" else {}
        return await office.client.post(path, json={**body, **named}, headers=headers)

    made = [await post("/task-runs", "r1", runner="listed", config=HANGING) for _ in range(3)]
    assert {(each.status_code, each.content) for each in made} == {(201, made[0].content)}
    assert len((await office.get("/task-runs"))["items"]) == 1
    path = f"/task-runs/{made[0].json()['id']}"
    await office.when(path, lambda it: it["task_processes_by_status"] == {"Running": 1})
    stops = [await post(f"{path}/apply-action", "s1", action="stop") for _ in range(3)]
    assert {(each.status_code, each.content) for each in stops} == {(200, stops[0].content)}
    refused = [await post(f"{path}/apply-action", "s2", action="stop") for _ in range(3)]
    assert {(each.status_code, each.content) for each in refused} == {(409, refused[0].content)}
    for answers in (made, stops, refused):
        replayed = [each.headers.get("Idempotency-Replayed") for each in answers]
        assert replayed == [None, "true", "true"], answers[0].text
    other = await post(f"{path}/apply-action", "s1", action="restart")
    assert (other.status_code, other.json()["code"]) == (422, "key_reused")


@pytest.mark.mission("ENG-6")
@pytest.mark.parametrize("first", ["body", "header"])
async def test_a_request_id_in_the_body_is_a_key_of_the_whole_tenant(office: Office, first: str) -> None:
    """What made a run by `request_id` makes nothing else by `Idempotency-Key`, nor the other way round."""

    async def run() -> httpx.Response:
        return await office.client.post("/task-runs", json={"runner": "nothing", "request_id": "k1"})

    async def instance() -> httpx.Response:
        body = {"chart": TaskRun.chart.name, "id": "other", "context": {"runner": "nothing"}}
        return await office.client.post("/v1/instances", json=body, headers={"Idempotency-Key": "k1"})

    order = [run, instance] if first == "body" else [instance, run]
    assert [(await call()).status_code for call in order] == [201, 422]
    assert len((await office.get("/task-runs"))["items"]) == 1


async def test_two_different_request_ids_in_one_request_are_422(office: Office) -> None:
    """Nobody could tell which of them counts."""
    body = {"runner": "nothing", "request_id": "a"}
    answer = await office.client.post("/task-runs", json=body, headers={"Idempotency-Key": "b"})
    assert (answer.status_code, (await office.get("/task-runs"))["items"]) == (422, [])


@pytest.mark.mission("ENG-15")
async def test_who_may_read_and_act(office: Office) -> None:
    """No key is 401, no scope 403, no role 403, another tenant 404 with nothing in its lists."""
    path = await begin(office)
    async with httpx.AsyncClient(base_url=office.url, timeout=30) as nobody:
        assert (await nobody.get(path)).status_code == 401
    keyring = office.access.keyring
    reader = (await keyring.make("default", ANN, ["read"])).text
    stranger = (await keyring.make("default", Actor("eve", "person"), ["send", "read"])).text
    other = (await keyring.make("other", ANN, ["admin"])).text
    stop = {"action": "stop"}
    async with client_of(office.url, reader) as client:
        assert (await client.get(path)).status_code == 200
        assert (await client.post(f"{path}/apply-action", json=stop)).status_code == 403
    async with client_of(office.url, stranger) as client:
        refused = await client.post(f"{path}/apply-action", json=stop)
        assert (refused.status_code, refused.json()["code"]) == (403, "actor")
    async with client_of(office.url, other) as client:
        assert (await client.get(path)).status_code == 404
        assert (await client.post(f"{path}/apply-action", json=stop)).status_code == 404
        assert (await client.get("/task-runs")).json() == {"items": [], "next": None}


@pytest.mark.mission("TSK-F5")
async def test_a_process_that_a_restart_has_deleted_is_gone(office: Office) -> None:
    """It is not found any more, to be read or to be moved; the run has others."""
    path = await begin(office)
    run = await office.when(path, lambda it: it["task_processes_by_status"] == {"Running": 1})
    (old,) = (await office.processes(run["id"])).values()
    assert (await office.apply(path, "restart")).status_code == 200
    await office.when(path, lambda it: it["task_processes_by_status"] == {"Running": 1})
    assert (await office.client.get(f"/task-processes/{old['id']}")).status_code == 404
    assert (await office.apply(f"/task-processes/{old['id']}", "stop")).status_code == 404


async def test_lists_come_in_pages_and_by_status(office: Office) -> None:
    """Processes of a run, page by page and by status; a process is no run, and a run no process."""
    config = {"processes": [{"name": f"p{n}", "does": "fail" if n == 3 else ""} for n in range(7)]}
    path = await begin(office, config)
    run = await office.until(path, "Failed")
    names: list[str] = []
    query: str | None = ""
    while query is not None:
        page = await office.get(f"{path}/processes?limit=3{query}")
        names += [each["name"] for each in page["items"]]
        query = f"&cursor={page['next']}" if page["next"] else None
    assert names == [f"p{n}" for n in range(7)]
    failed = (await office.get(f"{path}/processes?status=Failed"))["items"]
    assert [each["name"] for each in failed] == ["p3"]
    assert (await office.client.get(f"/task-runs/{failed[0]['id']}")).status_code == 404
    assert (await office.client.get(f"/task-processes/{run['id']}")).status_code == 404
    assert (await office.get("/task-runners"))["items"] == [*office.runners.names]


@pytest.mark.parametrize("path", ["/task-runs", "/task-runs/{}/processes", "/workflow-runs"])
async def test_a_status_that_there_is_not_is_422(office: Office, path: str) -> None:
    """Who asks for one by a wrong name is told the right ones, and not that there are none."""
    listed = path.format((await begin(office)).rpartition("/")[2])
    answer = await office.client.get(f"{listed}?status=running")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert "'Running'" in answer.json()["detail"]
    assert (await office.client.get(f"{listed}?status=Running")).status_code == 200


@pytest.mark.mission("ENG-14")
async def test_a_ui_follows_runs_and_processes_live(office: Office) -> None:
    """The service's stream tells each change of a run, and, by their chart, those of its processes."""
    config = {"processes": [{"name": "p", "does": "flicker", "times": 1}]}
    path = await begin(office, config)
    run = await office.until(path, "Completed")
    moves = await heard(office, f"instance={run['id']}", "Completed")
    changes = [event["to"] for event in moves if event["to"] != event["from"]]
    assert changes == ["Pending", "Running", "Completed"]
    assert [event["event"] for event in moves].count("child.changed") >= 5
    seen = await heard(office, "chart=task_runs.process", "Completed")
    steps = [event["transition"] for event in seen]
    assert steps == ["start", "incomplete", "retry_incomplete", "queue", "picked_up", "complete"]


async def heard(office: Office, wanted: str, last: str) -> list[dict[str, Any]]:
    """What a stream tells from the first event on, up to the one that leads to a state."""
    events: list[dict[str, Any]] = []
    start = cursor_text(Cursor())
    async with office.client.stream("GET", f"/v1/events?{wanted}&after={start}") as stream:
        assert stream.status_code == 200, await stream.aread()
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                events.append(json.loads(line.removeprefix("data: ")))
                if events[-1].get("to") == last:
                    break
    return events
