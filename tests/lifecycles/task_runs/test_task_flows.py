"""The five flows, the hook and the edge cases, with real workers over the real server."""

from typing import Any

import pytest

from headway.statechart.snapshot import Event
from tests.lifecycles.task_runs.place import Office
from tests.lifecycles.task_runs.team import calls
from tests.worker.world import until

ENDS = ("completed_at", "failed_at", "stopped_at", "skipped_at")


async def begin(office: Office, *processes: dict[str, Any], dispatch: bool = True, **config: Any) -> str:
    """The path of a new run with these processes."""
    config = {"processes": [*processes], **config}
    made = await office.post("/task-runs", runner="listed", config=config, dispatch=dispatch)
    return f"/task-runs/{made['id']}"


def ends(it: dict[str, Any]) -> set[str]:
    """Which ends have a time."""
    return {end for end in ENDS if it[end] is not None}


@pytest.mark.mission("TSK-F1", "TSK-HOOK", "TSK-M", "TSK-WF")
async def test_a_run_completes_when_its_hook_adds_no_process(office: Office) -> None:
    """Its processes run, the hook is called once when none is active, and brings out what they made."""
    path = await begin(office, {"name": "a"}, {"name": "b"})
    run = await office.until(path, "Completed")
    assert run["output_artifacts"] == ["a of 0", "b of 0"]
    assert (run["task_processes_by_status"], run["active_task_processes_count"]) == ({"Completed": 2}, 0)
    assert (ends(run), run["started_at"] is not None) == ({"completed_at"}, True)
    assert calls == {"a": 1, "b": 1, "hook": 1}


@pytest.mark.mission("TSK-HOOK", "TSK-EDGE", "TSK-WF")
async def test_a_hook_that_adds_processes_is_called_again_after_them(office: Office) -> None:
    """Three phases: the run stays open while the hook names processes, and each phase is counted."""
    path = await begin(office, {"name": "a"}, more=[["b1", "b2"], ["c"]])
    run = await office.until(path, "Completed")
    made = await office.processes(run["id"])
    assert {name: each["phase"] for name, each in made.items()} == {"a": 1, "b1": 2, "b2": 2, "c": 3}
    assert (run["phase"], calls["hook"]) == (3, 3)
    assert run["output_artifacts"] == ["a of 0", "b1 of 0", "b2 of 0", "c of 0"]


@pytest.mark.mission("TSK-F2", "TSK-EDGE", "TSK-ERR", "TSK-UP")
async def test_a_permanent_error_fails_the_run_and_the_hook_is_not_called(office: Office) -> None:
    """The other process finishes, the run fails, the error is counted on both."""
    path = await begin(office, {"name": "bad", "does": "fail"}, {"name": "good"})
    run = await office.when(path, lambda it: it["active_task_processes_count"] == 0 and it["failed_at"])
    made = await office.processes(run["id"])
    assert {name: each["status"] for name, each in made.items()} == {"bad": "Failed", "good": "Completed"}
    assert (run["status"], run["task_process_error_count"], made["bad"]["error_count"]) == ("Failed", 1, 1)
    assert (calls["bad"], calls["hook"]) == (1, 0)


@pytest.mark.mission("TSK-F2", "TSK-ERR")
@pytest.mark.parametrize(
    ("does", "error"),
    [
        ("fail", "ValueError: no good"),
        ("hang", "timeout: it took longer than 0.05 s"),
        ("flicker", "network_error: not yet"),
    ],
)
async def test_a_failed_process_says_why(office: Office, does: str, error: str) -> None:
    """Its last error is kept with its code, and the run that failed by it says the same."""
    bad = {"name": "bad", "does": does, "times": 9, "timeout_seconds": 0.05, "max_retries": 0}
    path = await begin(office, bad, {"name": "good"})
    run = await office.when(
        path, lambda it: it["status"] == "Failed" and not it["active_task_processes_count"]
    )
    made = await office.processes(run["id"])
    assert (made["bad"]["error"], made["good"]["error"], run["error"]) == (error, None, error)


@pytest.mark.mission("TSK-F2", "TSK-HOOK")
@pytest.mark.parametrize("method", ["prepare", "hook"])
async def test_a_run_whose_runner_fails_says_why(office: Office, method: str) -> None:
    """An error of prepare, or of the hook, is the run's own; a restart forgets it."""
    path = await begin(office, {"name": "a"}, breaks=method)
    run = await office.until(path, "Failed")
    assert (run["error"], run["task_process_error_count"]) == (f"invalid_input: {method} is broken", 1)
    assert office.node.worker is not None
    await office.node.worker.stop()
    assert (await office.apply(path, "restart")).status_code == 200
    assert (await office.get(path))["error"] is None


@pytest.mark.mission("TSK-F2", "TSK-HOOK")
@pytest.mark.parametrize("method", ["prepare", "hook"])
async def test_a_runner_that_hangs_fails_the_run(office: Office, method: str) -> None:
    """`prepare` and the hook have a limit of their own; after three attempts the run says why it failed."""
    config = {"processes": [{"name": "a"}], "hangs": method}
    made = await office.post("/task-runs", runner="slow", config=config)
    run = await office.until(f"/task-runs/{made['id']}", "Failed")
    assert (run["error"], calls[f"{method} hangs"]) == ("timeout: it took longer than 0.05 s", 3)


@pytest.mark.mission("TSK-F4", "TSK-HOOK")
async def test_a_run_whose_hook_hangs_is_stopped(office: Office) -> None:
    """The first stop lets the hook finish, the second ends it; resume calls it again."""
    config = {"processes": [{"name": "a"}], "hangs": "hook"}
    made = await office.post("/task-runs", runner="patient", config=config)
    path = f"/task-runs/{made['id']}"
    await until(lambda: calls["hook hangs"] == 1)
    assert (await office.apply(path, "stop")).json()["status"] == "Running"
    assert (await office.apply(path, "stop")).json()["status"] == "Stopped"
    assert (await office.apply(path, "resume")).json()["status"] == "Running"
    await until(lambda: calls["hook hangs"] == 2)
    assert (calls["a"], (await office.get(path))["status"]) == (1, "Running")


@pytest.mark.mission("TSK-EDGE", "TSK-F2")
async def test_a_transient_error_is_tried_again_by_itself(office: Office) -> None:
    """Incomplete, pending and running again until it goes well; every error is counted."""
    path = await begin(office, {"name": "a", "does": "flicker", "times": 1})
    run = await office.until(path, "Completed")
    made = (await office.processes(run["id"]))["a"]
    assert (made["restart_count"], made["error_count"], calls["a"]) == (1, 1, 2)
    assert (made["incomplete_at"], run["task_process_error_count"]) == (None, 1)


@pytest.mark.mission("TSK-F3")
async def test_a_process_that_takes_too_long_is_halted_and_tried_again(office: Office) -> None:
    """A hanging process is stopped after its own limit, started over, and then completes."""
    hanging = {"name": "slow", "does": "hang", "times": 1, "timeout_seconds": 0.05}
    path = await begin(office, hanging)
    run = await office.until(path, "Completed")
    made = (await office.processes(run["id"]))["slow"]
    assert (made["restart_count"], calls["slow"]) == (1, 2)


@pytest.mark.mission("TSK-F3", "TSK-S")
async def test_a_process_without_retries_left_computes_to_failed(office: Office) -> None:
    """Its time of the timeout stays, its status is Failed, and so is the run's."""
    path = await begin(office, {"name": "a", "does": "hang", "timeout_seconds": 0.05, "max_retries": 0})
    run = await office.until(path, "Failed")
    made = (await office.processes(run["id"]))["a"]
    assert (made["status"], made["timeout_at"] is not None, made["failed_at"]) == ("Failed", True, None)


@pytest.mark.mission("TSK-F4", "TSK-M", "TSK-API")
async def test_a_run_is_stopped_and_resumed(office: Office) -> None:
    """Stop halts what runs and leaves what is done; resume goes on with the rest, and the hook waits."""
    path = await begin(office, {"name": "done"}, {"name": "stuck", "does": "hang"})
    await office.when(path, lambda it: it["task_processes_by_status"] == {"Completed": 1, "Running": 1})
    assert (await office.apply(path, "stop")).status_code == 200
    run = await office.until(path, "Stopped")
    assert (run["task_processes_by_status"], ends(run)) == ({"Completed": 1, "Stopped": 1}, {"stopped_at"})
    assert (await office.apply(path, "resume")).status_code == 200
    run = await office.when(path, lambda it: it["task_processes_by_status"].get("Running") == 1)
    assert (run["status"], ends(run), calls["hook"]) == ("Running", set(), 0)


@pytest.mark.mission("TSK-EDGE", "TSK-F4")
async def test_stop_leaves_a_run_whose_processes_are_done_to_its_hook(office: Office) -> None:
    """All is completed and the hook under way: stop changes nothing, and the run is Completed by the hook."""
    assert office.node.worker is not None
    path = await begin(office, {"name": "a", "does": "hang"})
    run = await office.when(path, lambda it: it["task_processes_by_status"] == {"Running": 1})
    (process,) = (await office.processes(run["id"])).values()
    await office.node.worker.stop()
    (await office.node.tenant().send(process["id"], Event("complete"))).unwrap()
    run = await office.when(path, lambda it: it["task_processes_by_status"] == {"Completed": 1})
    assert (run["status"], run["allowed_actions"]) == ("Running", ["stop", "restart"])
    assert (await office.apply(path, "stop")).json()["status"] == "Running"
    await office.node.worker.start()
    run = await office.until(path, "Completed", "Stopped")
    assert (run["status"], calls["hook"]) == ("Completed", 1)


@pytest.mark.mission("TSK-EDGE", "TSK-M")
async def test_a_pending_run_without_processes_is_stopped(office: Office) -> None:
    """Stop works before the runner has named a process; restart prepares it."""
    tenant = office.node.tenant()
    assert office.node.worker is not None
    await office.node.worker.stop()
    path = await begin(office, {"name": "a"})
    assert (await office.get(path))["status"] == "Pending"
    assert (await office.apply(path, "stop")).json()["status"] == "Stopped"
    await office.node.worker.start()
    assert (await office.apply(path, "restart")).status_code == 200
    run = await office.until(path, "Completed")
    assert [line.after for line in await tenant.history(run["id"])].count("preparing") == 2


@pytest.mark.mission("TSK-F5", "TSK-M")
async def test_restart_begins_with_new_processes(office: Office) -> None:
    """From Failed: the old processes are gone, times and errors cleared, and all of it runs again."""
    path = await begin(office, {"name": "a"}, {"name": "bad", "does": "fail"})
    before = await office.when(
        path, lambda it: it["status"] == "Failed" and not it["active_task_processes_count"]
    )
    old = {each["id"] for each in (await office.processes(before["id"])).values()}
    assert (await office.apply(path, "restart")).json()["status"] == "Pending"
    after = await office.when(
        path,
        lambda it: (
            it["status"] == "Failed" and it["task_processes_by_status"] == {"Completed": 1, "Failed": 1}
        ),
    )
    new = {each["id"] for each in (await office.processes(after["id"])).values()}
    assert (len(new), old & new) == (2, set())
    assert (after["task_process_error_count"], calls["a"]) == (1, 2)


@pytest.mark.mission("TSK-M", "TSK-UP")
async def test_a_run_waits_to_be_continued_when_it_is_told_to(office: Office) -> None:
    """Prepared and pending until `continue`, which is refused once it runs."""
    path = await begin(office, {"name": "a"}, dispatch=False)
    run = await office.when(path, lambda it: it["task_processes_by_status"] == {"Pending": 1})
    assert (run["status"], run["allowed_actions"]) == ("Pending", ["continue", "stop", "restart"])
    assert (await office.apply(path, "continue")).json()["status"] == "Running"
    await office.until(path, "Completed")
    assert (await office.apply(path, "continue")).status_code == 409


@pytest.mark.mission("TSK-M")
async def test_a_run_with_nothing_to_do_is_skipped(office: Office) -> None:
    """A runner that names no process ends the run as Skipped."""
    made = await office.post("/task-runs", runner="nothing")
    run = await office.until(f"/task-runs/{made['id']}", "Skipped")
    assert (ends(run), run["task_processes_count"]) == ({"skipped_at"}, 0)


@pytest.mark.mission("TSK-EDGE", "TSK-M")
@pytest.mark.parametrize(("error", "time"), [("lookup", "incomplete_at"), ("value", "failed_at")])
async def test_a_runner_names_its_own_transient_errors(office: Office, error: str, time: str) -> None:
    """Methods that are not async run in a thread; the class says which errors are worth another attempt."""
    made = await office.post("/task-runs", runner="threaded", config={"error": error})
    run = await office.until(f"/task-runs/{made['id']}", "Failed")
    (process,) = (await office.processes(run["id"])).values()
    assert [name for name in ("incomplete_at", "failed_at") if process[name]] == [time]


@pytest.mark.mission("TSK-M")
async def test_one_process_is_stopped_and_resumed(office: Office) -> None:
    """A process has actions of its own; its run follows."""
    path = await begin(office, {"name": "a", "does": "hang"})
    run = await office.when(path, lambda it: it["task_processes_by_status"] == {"Running": 1})
    (process,) = (await office.processes(run["id"])).values()
    own = f"/task-processes/{process['id']}"
    assert (await office.apply(own, "stop")).json()["status"] == "Stopped"
    assert (await office.get(path))["status"] == "Stopped"
    assert (await office.apply(own, "restart")).status_code == 409
    assert (await office.apply(own, "resume")).json()["status"] == "Pending"
    await office.until(own, "Running")
    assert (await office.get(path))["status"] == "Running"
