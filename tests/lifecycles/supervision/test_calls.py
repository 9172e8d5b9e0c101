"""The routes of workers and jobs: what they take, what they refuse, and what they answer twice."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from headway import Actor
from headway.api.access import Caller
from headway.api.cursors import CursorCipher
from headway.engine.requests import Request
from headway.lifecycles.supervision.api.calls import Calls
from headway.lifecycles.supervision.api.jobs import JOBS, submit_job
from headway.lifecycles.supervision.api.shapes import NewJob
from tests.api.serving import client_of
from tests.clocks import Ahead
from tests.lifecycles.supervision.serving import BOSS, LONGEST, Service, serving

START, COMPLETE = "workers/{}/start", "workers/{}/complete"
PAUSE, RESUME, TERMINATE = (f"supervisor/workers/{{}}/{each}" for each in ("pause", "resume", "terminate"))


@pytest.mark.mission("SUP-API")
async def test_a_worker_is_shown_with_what_its_owner_knows_of_it(service: Service) -> None:
    """Metadata is kept as it was given; a worker without a workspace is in the one without a name."""
    told = {"rack": 7, "labels": ["fast"], "note": None}
    made = await service.client.post("/api/workers", json={"metadata": told})
    assert (made.json()["metadata"], made.json()["workspace_id"]) == (told, "")
    assert (await service.get(made.json()["id"]))["metadata"] == told


@pytest.mark.mission("SUP-API", "SUP-W")
async def test_the_life_of_a_worker_over_http(everywhere: Service) -> None:
    """A worker is created, started, paused, resumed and completed by the document's routes."""
    client = everywhere.client
    assert (await client.post("/api/workers")).status_code == 201
    made = await client.post("/api/workers", json={"workspace_id": "ws_test"})
    worker = made.json()["id"]
    assert (made.status_code, made.json()["status"], worker[:2]) == (201, "IDLE", "w_")
    assert made.headers["location"] == f"/api/workers/{worker}"
    for path, state in ((START, "RUNNING"), (PAUSE, "PAUSED"), (RESUME, "RUNNING"), (COMPLETE, "COMPLETED")):
        moved = await client.post(f"/api/{path.format(worker)}", json={"reason": f"to be {state}"})
        assert (moved.status_code, moved.json()["status"]) == (200, state)
    changes = (await client.get(f"/api/workers/{worker}/transitions")).json()["items"]
    states = ["IDLE", "RUNNING", "PAUSED", "RUNNING", "COMPLETED"]
    assert [change["to_state"] for change in changes] == states
    assert [change["from_state"] for change in changes] == [None, *states[:-1]]
    assert [change["reason"] for change in changes[1:]] == [f"to be {state}" for state in states[1:]]
    assert (await everywhere.get(worker))["completed_at"] == changes[-1]["timestamp"]


BAD_WORKERS: list[dict[str, Any]] = [
    {"capacity": 0},
    {"capacity": 101},
    {"capacity": "1"},
    {"capacity": True},
    {"workspace_id": 7},
    {"workspace_id": "x" * 37},
    {"workspace_id": None},
    {"metadata": []},
    {"metadata": {"note": "x" * 10_000}},
    {"supervisor_timeout_seconds": 0},
    {"supervisor_timeout_seconds": 2.999},
    {"request_id": ""},
    {"color": "red"},
]
BAD_JOBS: list[dict[str, Any]] = [
    {},
    {"task_description": ""},
    {"task_description": " \n"},
    {"task_description": 7},
    {"task_description": "\U0001f40c" * 22_500},
    {"task_description": "\x01" * 15_000},
    {"task_description": "echo", "depth": 6},
    {"task_description": "echo", "depth": -1},
    {"task_description": "echo", "depth": 1},
    {"task_description": "echo", "depth": 1.5},
    {"task_description": "echo", "worker_count": 0},
    {"task_description": "echo", "worker_count": 11},
    {"task_description": "echo", "timeout_seconds": -1},
    {"task_description": "echo", "depth": 0, "color": "red"},
]


@pytest.mark.mission("SUP-JX", "SUP-API")
@pytest.mark.parametrize(("kind", "bodies"), [("workers", BAD_WORKERS), ("jobs", BAD_JOBS)])
async def test_what_is_wrong_is_refused_before_anything_is_stored(
    service: Service, kind: str, bodies: list[dict[str, Any]]
) -> None:
    """A body outside the limits is a 422 that names the place, and leaves nothing behind."""
    for body in bodies:
        refused = await service.client.post(f"/api/{kind}", json=body)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid"), body
        assert refused.json()["errors"][0]["place"].startswith("body")
    assert (await service.client.get("/v1/instances")).json()["items"] == []


@pytest.mark.mission("SUP-JX")
@pytest.mark.parametrize("limits", [{"worker_count": 10}, {"worker_count": 1}, {"depth": 0}])
async def test_the_limits_themselves_are_taken(service: Service, limits: dict[str, int]) -> None:
    """Ten workers, one worker and depth 0 are fine."""
    assert (await service.until(await service.job("echo", **limits), "PENDING"))["status"] == "PENDING"


@pytest.mark.mission("SUP-JX")
async def test_sub_jobs_go_five_levels_down(service: Service, tmp_path: Path) -> None:
    """Each sub-job is one level deeper; below depth 5, and at a depth that is not its own, there is none."""
    await service.worker(capacity=100)
    chain = [await service.job(f"wait {tmp_path / 'never'}")]
    for depth in range(1, 6):
        await service.until(chain[-1], "RUNNING")
        wrong = {"task_description": "echo", "parent_job_id": chain[-1], "depth": (depth + 1) % 6}
        assert (await service.client.post("/api/jobs", json=wrong)).status_code == 422
        chain.append(await service.job("echo", parent_job_id=chain[-1], depth=depth))
        assert (await service.get(chain[-1]))["depth"] == depth
    await service.until(chain[-1], "RUNNING")
    refused = await service.client.post(
        "/api/jobs", json={"task_description": "echo", "parent_job_id": chain[-1]}
    )
    assert (refused.status_code, "depth 5" in refused.json()["detail"]) == (422, True)


@pytest.mark.mission("SUP-API")
@pytest.mark.parametrize("path", ["workers/{}/dance", "supervisor/workers/{}/start", "workers/{}/pause"])
async def test_unknown_actions_are_no_actions(service: Service, path: str) -> None:
    """An action that there is not is a 422 that names those there are."""
    worker = await service.worker(start=False)
    refused = await service.client.post(f"/api/{path.format(worker)}")
    assert (refused.status_code, refused.json()["errors"][0]["place"]) == (422, "path.action")


@pytest.mark.mission("SUP-W", "SUP-API")
@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        (START, {"tasks": []}, 409, "guard"),
        (START, {"tasks": ["a", "b"]}, 409, "guard"),
        (START, {"tasks": [" "]}, 422, "invalid"),
        (START, {"code": "E1"}, 422, "invalid"),
        (TERMINATE, {"tasks": ["a"]}, 422, "invalid"),
        ("workers/{}/fail", {}, 409, "illegal"),
    ],
)
async def test_an_action_takes_what_it_needs_and_nothing_else(
    service: Service, path: str, body: dict[str, Any], *, status: int, code: str
) -> None:
    """No task, more tasks than places, and fields of other actions are refused."""
    worker = await service.worker(start=False)
    refused = await service.client.post(f"/api/{path.format(worker)}", json=body)
    assert (refused.status_code, refused.json()["code"]) == (status, code)
    assert (await service.get(worker))["status"] == "IDLE"


def repeated(way: str, key: str) -> dict[str, Any]:
    """How a request says which one it is."""
    return (
        {"json": {"request_id": key}} if way == "body" else {"headers": {"Idempotency-Key": key}, "json": {}}
    )


@pytest.mark.mission("SUP-API")
@pytest.mark.parametrize("way", ["body", "header"])
async def test_a_repeated_request_gets_the_first_answer(everywhere: Service, way: str) -> None:
    """Creating and pausing again by the same id changes nothing and answers byte for byte the same."""
    client = everywhere.client
    made = [await client.post("/api/workers", **repeated(way, "make")) for _ in range(2)]
    assert (made[0].status_code, made[0].content) == (201, made[1].content)
    assert everywhere.node.engine.tally["replayed"] == 1
    assert len((await client.get("/api/workers")).json()["items"]) == 1
    worker = made[0].json()["id"]
    await client.post(f"/api/workers/{worker}/start")
    path = f"/api/supervisor/workers/{worker}/pause"
    first = await client.post(path, **repeated(way, "pause"))
    await client.post(f"/api/supervisor/workers/{worker}/resume")
    second = await client.post(path, **repeated(way, "pause"))
    assert (first.status_code, first.json()["status"]) == (200, "PAUSED")
    assert (second.status_code, second.content) == (200, first.content)
    assert (await everywhere.get(worker))["status"] == "RUNNING"
    reused = await client.post(f"/api/supervisor/workers/{worker}/terminate", **repeated(way, "pause"))
    assert (reused.status_code, reused.json()["code"]) == (422, "key_reused")


@pytest.mark.mission("SUP-API", "ENG-6")
@pytest.mark.parametrize("way", ["body", "header"])
async def test_a_move_is_remembered_for_an_hour_and_a_creation_for_a_day(service: Service, way: str) -> None:
    """Within its time a repeat is answered again; after it, the same id is another request."""
    client, made = service.client, repeated(way, "make")
    first = await client.post("/api/workers", **made)
    worker = first.json()["id"]
    await client.post(f"/api/workers/{worker}/start")
    path, asked = f"/api/supervisor/workers/{worker}/pause", repeated(way, "pause")
    paused = await client.post(path, **asked)
    service.let_pass(3_590)
    assert (await client.post(path, **asked)).content == paused.content
    service.let_pass(20)
    again = await client.post(path, **asked)
    assert (again.status_code, again.json()["code"]) in {(409, "already"), (409, "terminal")}
    service.let_pass(86_400 - 3_700)
    assert (await client.post("/api/workers", **made)).content == first.content
    service.let_pass(200)
    another = await client.post("/api/workers", **made)
    assert (another.status_code, another.json()["status"]) == (201, "IDLE")
    assert another.json()["id"] != worker
    assert (await client.post("/api/workers", **made)).content == another.content


@pytest.mark.mission("SUP-API", "ENG-6")
@pytest.mark.parametrize("way", ["body", "header"])
async def test_a_sub_job_that_was_refused_can_be_asked_for_again_after_an_hour(
    service: Service, tmp_path: Path, way: str
) -> None:
    """Nothing was made, so nothing has to be remembered for a day: by then the parent may run."""
    parent = await service.job(f"wait {tmp_path / 'never'}", timeout_seconds=200_000)
    await service.until(parent, "PENDING")
    asked = repeated(way, "below")
    asked["json"] |= {"task_description": "echo", "parent_job_id": parent}
    refused = await service.client.post("/api/jobs", **asked)
    assert (refused.status_code, refused.json()["code"]) == (409, "illegal")
    service.let_pass(3_590)
    assert (await service.client.post("/api/jobs", **asked)).content == refused.content
    service.let_pass(20)
    await service.worker()
    await service.until(parent, "RUNNING")
    assert (await service.client.post("/api/jobs", **asked)).status_code == 201


@pytest.mark.mission("SUP-API", "SUP-JX", "ENG-6")
async def test_a_sub_job_whose_answer_was_lost_is_made_once_in_a_day(
    service: Service, tmp_path: Path
) -> None:
    """The service may die before its answer is kept: the same request finds the job that it has made."""
    await service.worker()
    parent = await service.job(f"wait {tmp_path / 'never'}", timeout_seconds=200_000)
    await service.until(parent, "RUNNING")
    caller = Caller("default", BOSS, frozenset({"send"}), "a key")
    asked = NewJob(task_description="echo", parent_job_id=parent, request_id="below")
    keyed = Request(("default", "below"), "the same request")
    places = set()
    for seconds in (0, 7_200, 79_000):
        service.let_pass(seconds)
        # The route without what is around it, which keeps answers.
        calls = Calls(JOBS, caller, service.node, cipher=CursorCipher(b"", b""), keyed=keyed)
        places.add((await submit_job(asked, calls)).headers["location"])
    assert len(places) == 1


@pytest.mark.mission("SUP-API")
async def test_two_different_ids_in_one_request_are_422(service: Service) -> None:
    """Nobody could tell which of them counts; the same twice is one."""
    for key, status in (("a", 201), ("b", 422)):
        answer = await service.client.post(
            "/api/workers", json={"request_id": "a"}, headers={"Idempotency-Key": key}
        )
        assert answer.status_code == status
    assert answer.json()["errors"][0]["place"] == "body.request_id"
    assert len((await service.client.get("/api/workers")).json()["items"]) == 1


@pytest.mark.mission("SUP-API", "SUP-WX")
async def test_a_refusal_is_repeated_too(service: Service) -> None:
    """A conflict stays the answer to its request, also when it would be none by now."""
    worker = await service.worker(start=False)
    path, body = f"/api/supervisor/workers/{worker}/pause", {"request_id": "too soon"}
    first = await service.client.post(path, json=body)
    await service.client.post(f"/api/workers/{worker}/start")
    second = await service.client.post(path, json=body)
    assert (first.status_code, second.status_code, second.content) == (409, 409, first.content)


@pytest.mark.mission("SUP-API", "ENG-2")
async def test_two_callers_at_once(everywhere: Service) -> None:
    """Of many who pause at once one does it; many with one request id make one job."""
    worker = await everywhere.worker()
    path = f"/api/supervisor/workers/{worker}/pause"
    pausing = await asyncio.gather(*(everywhere.client.post(path) for _ in range(8)))
    assert sorted(each.status_code for each in pausing) == [200] + [409] * 7
    assert {each.json()["code"] for each in pausing if each.status_code == 409} == {"already"}
    body = {"task_description": "echo", "request_id": "once"}
    submitting = await asyncio.gather(*(everywhere.client.post("/api/jobs", json=body) for _ in range(8)))
    assert {each.status_code for each in submitting} == {201}
    assert len({each.content for each in submitting}) == 1
    assert len((await everywhere.client.get("/api/jobs")).json()["items"]) == 1


@pytest.mark.mission("SUP-API")
async def test_who_may_do_what(service: Service) -> None:
    """Roles decide what moves, scopes what is reached, and another tenant sees nothing."""
    worker = await service.worker()
    path = f"/api/supervisor/workers/{worker}/pause"
    visitor = Actor("eve", "person", frozenset({"visitor"}))
    for scopes, tenant, actor, status in (
        (["send"], "default", visitor, 403),
        (["read"], "default", BOSS, 403),
        (["admin"], "other", BOSS, 404),
    ):
        key = (await service.access.keyring.make(tenant, actor, scopes)).text
        async with client_of(service.url, key) as other:
            assert (await other.post(path)).status_code == status
    async with httpx.AsyncClient(base_url=service.url, timeout=30) as nobody:
        assert (await nobody.post(path, json={"request_id": "x"})).status_code == 401
    assert (await service.get(worker))["status"] == "RUNNING"


@pytest.mark.mission("SUP-API")
@pytest.mark.parametrize("name", ["w_unknown", "j_unknown"])
async def test_what_is_not_there_is_not_found(service: Service, name: str) -> None:
    """An unknown id is a 404 for each route, and a job is no worker."""
    job = await service.job("echo")
    for path in (f"/api/workers/{name}", f"/api/jobs/{name}", f"/api/workers/{job}"):
        assert (await service.client.get(path)).status_code == 404
    assert (await service.client.post(f"/api/supervisor/workers/{job}/terminate")).status_code == 404
    below = {"task_description": "echo", "parent_job_id": name}
    assert (await service.client.post("/api/jobs", json=below)).status_code == 404


@pytest.mark.mission("SUP-API")
async def test_workers_and_jobs_are_listed_in_pages(service: Service) -> None:
    """Lists come in the order of creation, page by page, and by state."""
    workers = [await service.worker(start=number == 1) for number in range(3)]
    first = (await service.client.get("/api/workers", params={"limit": 2})).json()
    second = (await service.client.get("/api/workers", params={"cursor": first["next"]})).json()
    assert [each["id"] for each in (*first["items"], *second["items"])] == workers
    assert second["next"] is None
    running = (await service.client.get("/api/workers", params={"status": "RUNNING"})).json()["items"]
    assert [each["id"] for each in running] == [workers[1]]
    assert (await service.client.get("/api/workers", params={"cursor": "x"})).status_code == 422
    assert (await service.client.get("/api/jobs", params={"status": "IDLE"})).status_code == 422


OWN = 'tenant="default"'


@pytest.mark.mission("SUP-M")
@pytest.mark.parametrize("route", ["/api/supervisor/metrics", "/metrics"])
async def test_the_four_metrics(service: Service, route: str) -> None:
    """Changes by pair, times in states, refused events and known requests are counted, by whichever door."""
    worker = await service.worker()
    for _ in range(2):
        await service.until(await service.job("echo"), "COMPLETED")
    path = f"/api/supervisor/workers/{worker}/pause"
    for _ in range(2):
        await service.client.post(path)
    for way in ("body", "header"):
        for _ in range(4):
            await service.client.post("/api/workers", **repeated(way, f"again by {way}"))
    for event in ("pause", "dance"):
        await service.client.post(f"/v1/instances/{worker}/events", json={"event": event})
    told = (await service.client.get(route)).text
    lines = [line.removeprefix("headway_supervision_") for line in told.splitlines()]
    assert f'transitions_total{{from_state="RUNNING",machine="worker",{OWN},to_state="PAUSED"}} 1.0' in lines
    assert f'state_seconds_count{{machine="worker",state="RUNNING",{OWN}}} 1.0' in lines
    assert f'state_seconds_bucket{{le="+Inf",machine="worker",state="RUNNING",{OWN}}} 1.0' in lines
    assert f'failed_transitions_total{{code="already",event="pause",machine="worker",{OWN}}} 2.0' in lines
    unknown = f'failed_transitions_total{{code="unknown_event",event="other",machine="worker",{OWN}}} 1.0'
    assert unknown in lines
    assert f'idempotency_lookups_total{{result="hit",{OWN}}} 6.0' in lines
    assert f"idempotency_hit_ratio{{{OWN}}} 0.75" in lines
    assert [*text_string_to_metric_families(told)]
    key = (await service.access.keyring.make("other", BOSS, ["operate"])).text
    other = await service.client.get(route, headers={"Authorization": f"Bearer {key}"})
    assert (other.status_code, 'machine="worker"' in other.text) == (200, False)
    plain = (await service.access.keyring.make("default", BOSS, ["read"])).text
    refused = await service.client.get(route, headers={"Authorization": f"Bearer {plain}"})
    assert refused.status_code == 403


STAYED = "headway_supervision_state_seconds_{}"


async def stays(service: Service, state: str) -> tuple[float, float]:
    """How many workers have left a state, and after how many seconds in all."""
    told = (await service.client.get("/api/supervisor/metrics")).text
    samples = [each for family in text_string_to_metric_families(told) for each in family.samples]
    of_state = {each.name: each.value for each in samples if each.labels.get("state") == state}
    return of_state.get(STAYED.format("count"), 0), of_state.get(STAYED.format("sum"), 0)


@pytest.mark.mission("SUP-M", "ENG-16")
async def test_the_time_in_a_state_is_known_after_a_restart(tmp_path: Path) -> None:
    """A state that was entered before the service ended is measured whole by the one that comes after."""
    database, clock = f"sqlite:///{tmp_path}/headway.db", Ahead()
    async with serving(database, clock) as before:
        worker = await before.worker()
        await before.until(await before.job("echo"), "COMPLETED")
    clock.ahead += timedelta(seconds=600)
    async with serving(database, clock) as after:
        await after.supervise(worker, "pause")
        number, seconds = await stays(after, "RUNNING")
        assert (number, 600 <= seconds < 600 + LONGEST) == (1, True)


@pytest.mark.mission("SUP-M", "ENG-16")
async def test_the_time_in_a_state_is_known_on_every_node(tmp_path: Path) -> None:
    """The node on which a state is left measures it, wherever it was entered; no node measures it twice."""
    database, clock = f"sqlite:///{tmp_path}/headway.db", Ahead()
    async with serving(database, clock) as one, serving(database, clock) as other:
        worker = await one.worker()
        for leaving, back in ((other, one), (one, other)):
            clock.ahead += timedelta(seconds=60)
            await leaving.supervise(worker, "pause")
            await back.supervise(worker, "resume")
        counted = [await stays(each, "RUNNING") for each in (one, other)]
        assert [(number, 60 <= seconds < 120) for number, seconds in counted] == [(1, True)] * 2


@pytest.mark.mission("SUP-API")
async def test_the_routes_describe_themselves(service: Service) -> None:
    """The service's OpenAPI document has the routes of supervision."""
    paths = (await service.client.get("/openapi.json")).json()["paths"]
    assert {"/api/workers", "/api/jobs", "/api/supervisor/workers/{worker_id}/{action}"} <= set(paths)
