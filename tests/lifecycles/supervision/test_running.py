"""Workers really work: in processes of their own, which pause, go on, die and are replaced."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from headway import Actor
from headway.lifecycles.supervision.chart import Job
from tests.lifecycles.supervision.serving import (
    Service,
    begun,
    gone,
    noted,
    noted_times,
    processes_of,
    standstill,
)


@pytest.mark.mission("SUP-RUN", "SUP-J", "SUP-API")
async def test_jobs_run_in_the_processes_of_their_workers(everywhere: Service) -> None:
    """Two workers do a job of two parts, each in a process of its own, and its result is theirs."""
    workers = [await everywhere.worker(workspace_id="ws_test") for _ in range(2)]
    job = await everywhere.job("echo", worker_count=2, workspace_id="ws_test")
    done = await everywhere.until(job, "COMPLETED")
    assert (done["status"], sorted(done["workers"])) == ("COMPLETED", sorted(workers))
    assert [(part["part"], part["of"]) for part in done["result"]] == [(0, 2), (1, 2)]
    assert {part["by"] for part in done["result"]} == {
        process for worker in workers for process in processes_of(worker)
    }
    assert os.getpid() not in {part["by"] for part in done["result"]}


@pytest.mark.mission("SUP-RUN", "SUP-R")
async def test_a_job_waits_for_a_worker_and_begins_when_there_is_one(
    service: Service, tmp_path: Path
) -> None:
    """Without room a job stays PENDING; a task that ends, and a worker that starts, each make room."""
    let_go = tmp_path / "go"
    await service.worker()
    first = await service.job(f"wait {let_go}")
    await service.until(first, "RUNNING")
    waiting = [await service.job("echo") for _ in range(2)]
    for job in waiting:
        await service.until(job, "PENDING")
    await service.worker()
    for job in waiting:
        await service.until(job, "COMPLETED")
    late = await service.job(f"wait {let_go}", worker_count=2)
    await service.until(late, "PENDING")
    let_go.touch()
    assert (await service.until(first, "COMPLETED"))["status"] == "COMPLETED"
    ended = await service.until(late, "COMPLETED")
    assert ended["status"] == "COMPLETED", str(ended)


@pytest.mark.mission("SUP-RUN")
async def test_workspaces_do_not_share_workers(service: Service) -> None:
    """A job gets workers of its own workspace only."""
    await service.worker(workspace_id="one")
    job = await service.job("echo", workspace_id="other")
    await service.until(job, "PENDING")
    own = await service.job("echo", workspace_id="one")
    assert (await service.until(own, "COMPLETED"))["status"] == "COMPLETED"
    assert (await service.get(job))["status"] == "PENDING"


@pytest.mark.mission("SUP-RUN", "SUP-API")
@pytest.mark.parametrize("how", ["event", "cancel"])
async def test_a_workspace_goes_on_with_its_supervisor_after_a_dismissal(service: Service, how: str) -> None:
    """Workers and jobs end; what comes later is not swallowed, and has the same supervisor every time."""
    bosses = set()
    for _ in range(3):
        worker = await service.worker()
        waiting = await service.job("echo", worker_count=2)
        await service.until(waiting, "PENDING")
        boss = (await service.node.engine.get("default", worker)).context["supervisor"]
        bosses.add(boss)
        path = f"/v1/instances/{boss}/" + ("events" if how == "event" else "cancel")
        body = {"event": "dismiss"} if how == "event" else {}
        (await service.client.post(path, json=body)).raise_for_status()
        assert (await service.until(worker, "TERMINATED"))["status"] == "TERMINATED"
        assert (await service.until(waiting, "CANCELED"))["status"] == "CANCELED"
    await service.worker()
    assert (await service.until(await service.job("echo"), "COMPLETED"))["status"] == "COMPLETED"
    assert len(bosses) == 1


@pytest.mark.mission("SUP-RUN")
async def test_a_paused_worker_stands_still_at_a_safe_point_and_goes_on_from_there(
    service: Service, tmp_path: Path
) -> None:
    """Pausing lets the step under way end and begins no other; resumed, the same process goes on after it."""
    notes, count = tmp_path / "notes", 2_000
    worker = await service.worker()
    job = await service.job(f"steps {notes} {count}")
    await noted(notes, 5)
    paused = await service.supervise(worker, "pause", reason="lunch")
    assert (paused.status_code, paused.json()["status"]) == (200, "PAUSED")
    (process,) = processes_of(worker)
    done = await standstill(notes)
    assert 5 <= len(done) < count
    assert (await service.get(job))["status"] == "RUNNING"
    resumed = await service.supervise(worker, "resume")
    assert resumed.json()["status"] == "RUNNING"
    assert (await service.until(job, "COMPLETED"))["result"] == count
    assert await noted(notes, count) == [f"{process} {number}" for number in range(count)]


@pytest.mark.mission("SUP-RUN", "SUP-W")
async def test_terminate_ends_the_process(service: Service, tmp_path: Path) -> None:
    """A terminated worker's process is killed in the middle of its task, which another worker takes over."""
    let_go = tmp_path / "go"
    worker = await service.worker()
    job = await service.job(f"wait {let_go}")
    process = await begun(let_go)
    assert processes_of(worker) == [process]
    assert (await service.supervise(worker, "terminate")).json()["status"] == "TERMINATED"
    await gone(process)
    other = await service.worker()
    let_go.touch()
    done = await service.until(job, "COMPLETED")
    assert (done["status"], done["workers"]) == ("COMPLETED", [other])


@pytest.mark.mission("SUP-R", "SUP-RUN")
async def test_a_killed_worker_is_replaced_and_its_job_runs_on(everywhere: Service, tmp_path: Path) -> None:
    """`kill -9` of its process fails a worker; a new one does the task, and the job stays RUNNING."""
    let_go = tmp_path / "go"
    worker = await everywhere.worker()
    job = await everywhere.job(f"wait {let_go}")
    process = await begun(let_go)
    assert processes_of(worker) == [process]
    os.kill(process, signal.SIGKILL)
    dead = await everywhere.until(worker, "FAILED")
    assert (dead["status"], dead["error"]) == (
        "FAILED",
        "crashed: the process of the worker has ended with -9",
    )
    let_go.touch()
    done = await everywhere.until(job, "COMPLETED")
    (other,) = done["workers"]
    assert (done["status"], done["crashes"], other != worker) == ("COMPLETED", 1, True)
    assert other.startswith("w_")
    assert (await everywhere.get(other))["stands_in_for"] == worker
    changes = (await everywhere.client.get(f"/api/jobs/{job}/transitions")).json()["items"]
    assert [change["to_state"] for change in changes] == ["SUBMITTED", "PENDING", "RUNNING", "COMPLETED"]


@pytest.mark.mission("SUP-R", "SUP-RUN")
@pytest.mark.parametrize("how", ["dies", "lacks"])
async def test_who_goes_on_begins_at_the_last_safe_point(service: Service, tmp_path: Path, how: str) -> None:
    """After a crash, and after exhaustion, another process goes on where the first one was."""
    notes = tmp_path / "notes"
    worker = await service.worker()
    job = await service.job(f"stumble {notes} 10 {how}")
    if how == "lacks":
        await service.until(worker, "PAUSED")
        await service.supervise(worker, "resume")
    assert (await service.until(job, "COMPLETED"))["result"] == 10
    processes, steps = zip(*(line.split() for line in await noted(notes, 10)), strict=True)
    assert [*steps] == [str(number) for number in range(10)]
    assert (len({*processes[:5]}), len({*processes[5:]}), len({*processes})) == (1, 1, 2)


@pytest.mark.mission("SUP-R")
async def test_a_task_that_kills_every_worker_fails_its_job(service: Service) -> None:
    """Three workers are replaced; the fourth crash fails the job, and the crew is as large as before."""
    await service.worker()
    job = await service.job("die")
    done = await service.until(job, "FAILED")
    assert (done["status"], done["crashes"]) == ("FAILED", 3)
    assert done["error"].startswith("worker_crash: crashed")
    after = await service.job("echo")
    assert (await service.until(after, "COMPLETED"))["status"] == "COMPLETED"
    workers = (await service.client.get("/api/workers")).json()["items"]
    assert [worker["status"] for worker in workers] == ["FAILED"] * 4 + ["RUNNING"]


@pytest.mark.mission("SUP-R")
@pytest.mark.parametrize("kind", ["network", "reset"])
async def test_a_transient_error_is_tried_again_while_running(
    service: Service, tmp_path: Path, kind: str
) -> None:
    """A task that meets a fault of the network is tried again; worker and job stay RUNNING."""
    tried = tmp_path / "tried"
    worker = await service.worker()
    job = await service.job(f"fail {tried} 1 {kind}")
    assert (await service.until(job, "COMPLETED"))["result"] == 1
    changes = (await service.client.get(f"/api/workers/{worker}/transitions")).json()["items"]
    assert [change["to_state"] for change in changes] == ["IDLE", "RUNNING"]


@pytest.mark.mission("SUP-R")
@pytest.mark.parametrize("kind", ["resources", "memory"])
async def test_exhaustion_pauses_the_worker_and_ends_its_process(
    service: Service, tmp_path: Path, kind: str
) -> None:
    """Without resources the worker is PAUSED and lets go of its process; resumed, it does the task again."""
    tried = tmp_path / "tried"
    worker = await service.worker()
    job = await service.job(f"fail {tried} 1 {kind}")
    paused = await service.until(worker, "PAUSED")
    assert paused["error"].startswith("resources_exhausted: ")
    assert processes_of(worker) == []
    assert (await service.get(job))["status"] == "RUNNING"
    await service.supervise(worker, "resume")
    assert (await service.until(job, "COMPLETED"))["result"] == 1


@pytest.mark.mission("SUP-R")
async def test_an_unrecoverable_error_fails_worker_and_job(service: Service, tmp_path: Path) -> None:
    """What no retry can mend ends both, and says what it was."""
    worker = await service.worker()
    job = await service.job(f"fail {tmp_path / 'tried'} 1 other")
    said = "unrecoverable: ValueError: as it was told"
    for name in (job, worker):
        ended = await service.until(name, "FAILED")
        assert (ended["status"], ended["error"]) == ("FAILED", said)


@pytest.mark.mission("SUP-R")
@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("say result 1000001", "too_large: a result or safe point has at most 900,000 bytes, not 1,000,003"),
        ("say point 1000001", "too_large: a result or safe point has at most 900,000 bytes, not 1,000,003"),
        ("raise E_1", "E_1: ValueError: as it was told"),
        ("raise no word", "unrecoverable: ValueError: as it was told"),
        ("raise crashed", "unrecoverable: ValueError: as it was told"),
    ],
)
async def test_a_task_that_fails_says_so_in_words(service: Service, task: str, said: str) -> None:
    """What is too large, and codes that are none or mean something else, fail worker and job at once."""
    worker = await service.worker()
    job = await service.job(task)
    for name in (job, worker):
        ended = await service.until(name, "FAILED")
        assert (ended["status"], ended["error"]) == ("FAILED", said)
    assert (await service.get(job))["crashes"] == 0


@pytest.mark.mission("SUP-R", "SUP-JX")
async def test_the_largest_task_travels_with_the_largest_safe_point(service: Service) -> None:
    """What a job may describe and what a safe point may say fit into the one message to the next worker."""
    await service.worker()
    task = "burden 899998 " + "\U0001f40c" * 22_490
    job = await service.job(task + "x" * (89_998 - len(task.encode())))
    assert (await service.until(job, "COMPLETED"))["result"] == 899_998


@pytest.mark.mission("SUP-R", "SUP-J")
async def test_a_job_that_is_not_valid_fails_at_once(service: Service) -> None:
    """What comes in by another door than the routes is validated too, and fails without a worker."""
    made = await service.client.post(
        "/v1/instances", json={"chart": Job.chart.name, "id": "j_bad", "context": {"worker_count": 11}}
    )
    assert made.status_code == 201
    ended = await service.until("j_bad", "FAILED")
    assert (ended["status"], ended["workers"]) == ("FAILED", [])
    assert ended["error"] == "invalid: a job needs a task description; worker_count is 1 to 10"


@pytest.mark.mission("SUP-R")
async def test_a_task_that_leaves_is_a_crash(service: Service) -> None:
    """A process that ends itself has crashed, and its exit code is known."""
    worker = await service.worker()
    job = await service.job("leave 3")
    ended = await service.until(worker, "FAILED")
    assert ended["error"] == "crashed: the process of the worker has ended with 3"
    assert (await service.until(job, "FAILED"))["crashes"] == 3


@pytest.mark.mission("SUP-R")
async def test_three_retries_that_do_not_help_pause_the_worker(service: Service, tmp_path: Path) -> None:
    """A fault of the network that stays is met four times; then the worker waits, and its job with it."""
    tried = tmp_path / "tried"
    worker = await service.worker()
    job = await service.job(f"fail {tried} 4 network")
    for attempt in range(1, 4):
        await noted_times(tried, attempt)
        assert (await service.get(worker))["status"] == "RUNNING"
        service.let_pass(10)
    paused = await service.until(worker, "PAUSED")
    assert (paused["status"], paused["error"]) == ("PAUSED", "network_error: NetworkError: as it was told")
    assert (tried.read_text(), (await service.get(job))["status"]) == ("xxxx", "RUNNING")
    await service.supervise(worker, "resume")
    assert (await service.until(job, "COMPLETED"))["result"] == 4


@pytest.mark.mission("SUP-R")
@pytest.mark.parametrize("state", ["IDLE", "PAUSED"])
async def test_a_silent_supervisor_terminates_the_worker(service: Service, state: str) -> None:
    """When nobody says a word for its patience, a worker that waits ends, and so does its process."""
    worker = await service.worker(start=state == "PAUSED", supervisor_timeout_seconds=60)
    if state == "PAUSED":
        await service.supervise(worker, "pause")
    for third in range(3):
        assert (await service.get(worker))["status"] == state
        service.let_pass(20)
        await service.heard(worker, f"after.{state}.listen", third + 1)
    assert (await service.until(worker, "TERMINATED"))["status"] == "TERMINATED"
    for process in processes_of(worker):
        await gone(process)


@pytest.mark.mission("SUP-R", "SUP-API")
async def test_a_word_over_http_keeps_a_worker_that_waits(service: Service) -> None:
    """A supervisor who says that it is there is waited for; only who supervises may say so."""
    worker = await service.worker(start=False, supervisor_timeout_seconds=60)
    for third in range(6):
        service.let_pass(20)
        await service.heard(worker, "after.IDLE.listen", third + 1)
        word = await service.supervise(worker, "keep-alive", reason="still here")
        assert (word.status_code, word.json()["status"]) == (200, "IDLE")
    hand = Actor("hand", "person", frozenset({"worker"}))
    key = (await service.access.keyring.make("default", hand, ["send"])).text
    refused = await service.client.post(
        f"/api/supervisor/workers/{worker}/keep-alive", headers={"Authorization": f"Bearer {key}"}
    )
    assert refused.status_code == 403


@pytest.mark.mission("SUP-R", "SUP-RUN")
async def test_a_task_longer_than_the_patience_ends_on_its_worker(service: Service, tmp_path: Path) -> None:
    """While it runs a worker asks, and its supervisor answers: a long task does not drain the workshop."""
    worker = await service.worker(supervisor_timeout_seconds=12)
    job = await service.job(f"wait {tmp_path / 'go'}")
    await begun(tmp_path / "go")
    for third in range(5):  # within the lease of its work
        service.let_pass(4)
        await service.heard(worker, "keep_alive", third + 1)
    (tmp_path / "go").touch()
    done = await service.until(job, "COMPLETED")
    assert (done["status"], done["workers"]) == ("COMPLETED", [worker])
    assert (await service.get(worker))["status"] == "RUNNING"


@pytest.mark.mission("SUP-R", "SUP-RUN")
async def test_who_follows_a_terminated_worker_begins_at_its_safe_point(
    careful: Service, tmp_path: Path
) -> None:
    """A task whose worker was terminated is not begun anew: at most its last step is repeated."""
    notes, count = tmp_path / "notes", 200
    worker = await careful.worker()
    job = await careful.job(f"steps {notes} {count}")
    await noted(notes, 5)
    await careful.supervise(worker, "terminate")
    await careful.worker()
    assert (await careful.until(job, "COMPLETED"))["result"] == count
    processes, steps = zip(*(line.split() for line in await noted(notes, count)), strict=True)
    assert {*steps} == {str(number) for number in range(count)}
    assert (len({*processes}), len(steps) <= count + 1) == (2, True)


@pytest.mark.mission("SUP-RUN")
@pytest.mark.parametrize(("size", "times"), [(9_998, 1), (9_999, 0)])
async def test_only_a_small_safe_point_is_carried(careful: Service, size: int, times: int) -> None:
    """What is carried stays in the history of the worker: of 10,000 bytes of JSON at most."""
    worker = await careful.worker()
    job = await careful.job(f"say point {size}")
    assert (await careful.until(job, "COMPLETED"))["status"] == "COMPLETED"
    history = await careful.node.engine.history("default", worker)
    assert [row.event for row in history].count("safe_point") == times


@pytest.mark.mission("SUP-R", "SUP-J")
@pytest.mark.parametrize("how", ["cancel", "timeout"])
async def test_a_canceled_job_is_killed_and_its_worker_goes_on(
    service: Service, tmp_path: Path, how: str
) -> None:
    """Cancel and timeout kill the process at the task; the worker stays RUNNING and does the next job."""
    worker = await service.worker()
    wanted: dict[str, Any] = {"timeout_seconds": 60} if how == "timeout" else {}
    job = await service.job(f"wait {tmp_path / 'never'}", **wanted)
    process = await begun(tmp_path / "never")
    if how == "cancel":
        (await service.client.post(f"/api/jobs/{job}/cancel")).raise_for_status()
    else:
        service.let_pass(60)
    assert (await service.until(job, "CANCELED"))["status"] == "CANCELED"
    after = await service.job("echo")
    done = await service.until(after, "COMPLETED")
    assert (done["workers"], done["result"]["by"] != process) == ([worker], True)
    await gone(process)


@pytest.mark.mission("SUP-JX")
async def test_sub_jobs_are_canceled_with_their_parent(service: Service, tmp_path: Path) -> None:
    """A sub-job is one level deeper, in its parent's workspace, and ends with it."""
    await service.worker(capacity=2)
    parent = await service.job(f"wait {tmp_path / 'never'}")
    await service.until(parent, "RUNNING")
    child = await service.job("echo", parent_job_id=parent)
    shown = await service.until(child, "RUNNING")
    assert (shown["depth"], shown["parent_job_id"], child[:2]) == (1, parent, "j_")
    listed = (await service.client.get("/api/jobs", params={"parent_job_id": parent})).json()["items"]
    assert [job["id"] for job in listed] == [child]
    (await service.client.post(f"/api/supervisor/jobs/{parent}/cancel")).raise_for_status()
    for job in (parent, child):
        assert (await service.until(job, "CANCELED"))["status"] == "CANCELED"


@pytest.mark.mission("SUP-RUN", "SUP-W")
async def test_a_worker_with_tasks_of_its_own_does_them_and_completes(service: Service) -> None:
    """Started with tasks, a worker does them in turn, shows what they came to, and its process ends."""
    worker = await service.worker(start=False, capacity=2)
    begun = await service.client.post(f"/api/workers/{worker}/start", json={"tasks": ["echo", "echo 2"]})
    assert [task["id"] for task in begun.json()["tasks"]] == ["echo", "echo 2"]
    done = await service.until(worker, "COMPLETED")
    assert (done["status"], done["tasks"]) == ("COMPLETED", [])
    (by,) = {each["result"]["by"] for each in done["results"]}
    assert ([each["task"] for each in done["results"]], by != os.getpid()) == (["echo", "echo 2"], True)
    for process in processes_of(worker):
        await gone(process)
