"""Every action in every state, over HTTP: what is taken, what is refused, and why; and whose action it is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway import Actor
from tests.api.serving import client_of
from tests.lifecycles.supervision.serving import Service, begun

ENDED = {"COMPLETED", "FAILED", "TERMINATED", "CANCELED"}
BODIES: dict[str, dict[str, Any]] = {
    "fail": {"code": "E1", "message": "out of ideas"},
    "succeed": {"result": 1},
    "allocate": {"workers": ["w_1"]},
}
SUPERVISED = {"pause", "resume", "terminate", "keep-alive"}

WORKER_ACTIONS = ("start", "complete", "fail", "pause", "resume", "terminate", "keep-alive")
WORKER_PATHS: dict[str, tuple[str, ...]] = {
    "IDLE": (),
    "RUNNING": ("start",),
    "PAUSED": ("start", "pause"),
    "COMPLETED": ("start", "complete"),
    "FAILED": ("start", "fail"),
    "TERMINATED": ("terminate",),
}
WORKER_TAKES = {
    "IDLE": {"start", "terminate", "keep-alive"},
    "RUNNING": {"complete", "fail", "pause", "terminate", "keep-alive"},
    "PAUSED": {"resume", "terminate", "keep-alive"},
}
WORKER_ALREADY = {
    *(("RUNNING", "start"), ("RUNNING", "resume"), ("PAUSED", "pause")),
    *(("COMPLETED", "complete"), ("FAILED", "fail"), ("TERMINATED", "terminate")),
}
WORKER_ALLOWS = {
    "IDLE": {"start_task", "terminate", "keep_alive"},
    "RUNNING": {
        *("complete_tasks", "error_unrecoverable", "pause", "terminate", "keep_alive"),
    },
    "PAUSED": {"resume", "terminate", "keep_alive"},
}

JOB_ACTIONS = ("validate", "allocate", "succeed", "fail", "cancel")
JOB_STATES = ("SUBMITTED", "PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELED")
JOB_TAKES = {
    "SUBMITTED": {"validate", "cancel"},
    "PENDING": {"allocate", "cancel"},
    "RUNNING": {"succeed", "fail", "cancel"},
}
JOB_ALREADY = {
    *(("PENDING", "validate"), ("RUNNING", "allocate"), ("COMPLETED", "succeed")),
    *(("FAILED", "fail"), ("FAILED", "validate"), ("CANCELED", "cancel")),
}
JOB_ALLOWS = {
    "SUBMITTED": {"cancel"},
    "PENDING": {"cancel"},
    "RUNNING": {"success", "error", "cancel", "worker_crash", "delegate"},
}


@asynccontextmanager
async def acting(service: Service, *roles: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client with these roles."""
    who = Actor("somebody", "person", frozenset(roles))
    key = (await service.access.keyring.make("default", who, ["send", "read"])).text
    async with client_of(service.url, key) as client:
        yield client


async def act(client: httpx.AsyncClient, name: str, action: str) -> httpx.Response:
    """An action by its route, with what it needs."""
    kind = "workers" if name.startswith("w_") else "jobs"
    by = "supervisor/" if action in SUPERVISED else ""
    return await client.post(f"/api/{by}{kind}/{name}/{action}", json=BODIES.get(action, {}))


async def worker_in(client: httpx.AsyncClient, service: Service, state: str) -> str:
    """A worker in a state."""
    worker = await service.worker(start=False)
    for action in WORKER_PATHS[state]:
        (await act(client, worker, action)).raise_for_status()
    return worker


async def job_in(client: httpx.AsyncClient, service: Service, state: str, notes: Path) -> str:
    """A job in a state."""
    if state == "SUBMITTED":
        assert service.node.worker is not None
        await service.node.worker.drain()
        return await service.job("echo")
    if state in {"PENDING", "CANCELED"}:
        job = await service.job("echo")
        await service.until(job, "PENDING")
    else:
        await service.worker()
        job = await service.job(f"wait {notes / 'never'}")
        await begun(notes / "never")
    how = {"COMPLETED": "succeed", "FAILED": "fail", "CANCELED": "cancel"}.get(state)
    if how is not None:
        (await act(client, job, how)).raise_for_status()
    assert (await service.get(job))["status"] == state
    return job


def code_of(state: str, action: str, already: set[tuple[str, str]]) -> str:
    """Of which kind a conflict is."""
    if (state, action) in already:
        return "already"
    return "terminal" if state in ENDED else "illegal"


@pytest.mark.mission("SUP-WX", "SUP-API")
@pytest.mark.parametrize("state", WORKER_PATHS)
async def test_what_a_worker_does_not_take_is_409(service: Service, state: str) -> None:
    """Whatever is forbidden in a state is a conflict of a kind, says what is allowed, and changes nothing."""
    async with acting(service, "supervisor", "worker") as client:
        worker = await worker_in(client, service, state)
        if state == "RUNNING":
            await service.heard(worker, "done.work.RUNNING")  # its process is there, and nothing else happens
        before = await service.get(worker)
        for action in sorted({*WORKER_ACTIONS} - WORKER_TAKES.get(state, set())):
            refused = await act(client, worker, action)
            problem, code = refused.json(), code_of(state, action, WORKER_ALREADY)
            assert (refused.status_code, problem["code"], problem["states"]) == (409, code, [state]), action
            assert {each["event"] for each in problem["allowed"]} == WORKER_ALLOWS.get(state, set())
        assert await service.get(worker) == before


@pytest.mark.mission("SUP-W", "SUP-API")
@pytest.mark.parametrize(
    ("state", "action", "lands"),
    [
        ("IDLE", "start", "RUNNING"),
        ("IDLE", "terminate", "TERMINATED"),
        ("RUNNING", "pause", "PAUSED"),
        ("RUNNING", "complete", "COMPLETED"),
        ("RUNNING", "fail", "FAILED"),
        ("RUNNING", "terminate", "TERMINATED"),
        ("PAUSED", "resume", "RUNNING"),
        ("PAUSED", "terminate", "TERMINATED"),
    ],
)
async def test_what_a_worker_takes(service: Service, state: str, action: str, lands: str) -> None:
    """Each rule of the document leads where it says, by its route."""
    async with acting(service, "supervisor", "worker") as client:
        worker = await worker_in(client, service, state)
        moved = await act(client, worker, action)
        assert (moved.status_code, moved.json()["status"]) == (200, lands)


@pytest.mark.mission("SUP-J", "SUP-API")
@pytest.mark.parametrize("state", JOB_STATES)
async def test_what_a_job_does_not_take_is_409(service: Service, tmp_path: Path, state: str) -> None:
    """No state is skipped, what has ended takes nothing, and a conflict changes nothing."""
    async with acting(service, "user", "worker") as client:
        job = await job_in(client, service, state, tmp_path)
        before = await service.get(job)
        for action in sorted({*JOB_ACTIONS} - JOB_TAKES.get(state, set())):
            refused = await act(client, job, action)
            problem, code = refused.json(), code_of(state, action, JOB_ALREADY)
            assert (refused.status_code, problem["code"], problem["states"]) == (409, code, [state]), action
            assert {each["event"] for each in problem["allowed"]} == JOB_ALLOWS.get(state, set())
        assert await service.get(job) == before


@pytest.mark.mission("SUP-J", "SUP-API")
@pytest.mark.parametrize(
    ("action", "lands", "told"),
    [
        ("succeed", "COMPLETED", {"result": 1, "error": None}),
        ("fail", "FAILED", {"result": None, "error": "E1: out of ideas"}),
    ],
)
async def test_a_worker_ends_a_job_by_its_route(
    service: Service, tmp_path: Path, *, action: str, lands: str, told: dict[str, Any]
) -> None:
    """Who has the role of a worker says how a running job ended; a user may not."""
    async with acting(service, "worker") as worker, acting(service, "user") as user:
        job = await job_in(worker, service, "RUNNING", tmp_path)
        assert (await act(user, job, action)).status_code == 403
        ended = await act(worker, job, action)
        assert (ended.status_code, ended.json()["status"]) == (200, lands)
        assert {field: ended.json()[field] for field in told} == told


@pytest.mark.mission("SUP-J", "SUP-API")
@pytest.mark.parametrize(("state", "action"), [("SUBMITTED", "validate"), ("PENDING", "allocate")])
async def test_only_the_system_validates_and_allocates(
    service: Service, tmp_path: Path, state: str, action: str
) -> None:
    """The routes are there, and refuse every person, whatever roles it has; the job stays where it is."""
    async with acting(service, "user", "worker", "supervisor", "admin") as client:
        job = await job_in(client, service, state, tmp_path)
        refused = await act(client, job, action)
        assert (refused.status_code, refused.json()["code"]) == (403, "actor")
        assert (await service.get(job))["status"] == state


@pytest.mark.mission("SUP-W", "SUP-R", "SUP-API")
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"code": "E1", "message": "out of ideas"}, 200, None),
        ({"code": "E1"}, 200, None),
        ({}, 422, "payload"),
        ({"code": "network_error"}, 409, "guard"),
    ],
)
async def test_a_worker_says_that_it_has_failed(
    service: Service, body: dict[str, Any], status: int, code: str | None
) -> None:
    """The code of an error that no retry mends makes it FAILED; none, or another, does not."""
    worker = await service.worker()
    async with acting(service, "worker") as client:
        answer = await client.post(f"/api/workers/{worker}/fail", json=body)
    assert (answer.status_code, answer.json().get("code")) == (status, code)
    shown = await service.get(worker)
    said = ": ".join(body.values()) if status == 200 else None
    assert (shown["status"], shown["error"]) == ("FAILED" if said else "RUNNING", said)


@pytest.mark.mission("SUP-W", "SUP-API")
async def test_a_worker_with_pending_tasks_does_not_complete(service: Service, tmp_path: Path) -> None:
    """The condition of `complete` names the tasks that are left."""
    worker = await service.worker()
    job = await service.job(f"wait {tmp_path / 'never'}")
    await begun(tmp_path / "never")
    refused = await service.client.post(f"/api/workers/{worker}/complete")
    assert (refused.status_code, refused.json()["code"]) == (409, "guard")
    assert f"{job}#0" in refused.json()["detail"]
    assert (await service.get(worker))["status"] == "RUNNING"


@pytest.mark.mission("SUP-JX", "SUP-API")
@pytest.mark.parametrize(
    ("state", "code"), [("PENDING", "illegal"), ("COMPLETED", "terminal"), ("CANCELED", "terminal")]
)
async def test_only_a_running_job_has_sub_jobs(
    service: Service, tmp_path: Path, state: str, code: str
) -> None:
    """Below a job that does not run yet, or has ended, there is nothing to hand down: 409, and no sub-job."""
    async with acting(service, "user", "worker") as client:
        parent = await job_in(client, service, state, tmp_path)
    below = {"task_description": "echo", "parent_job_id": parent}
    refused = await service.client.post("/api/jobs", json=below)
    problem = refused.json()
    assert (refused.status_code, problem["code"], problem["states"]) == (409, code, [state])
    listed = (await service.client.get("/api/jobs", params={"parent_job_id": parent})).json()
    assert listed["items"] == []
