"""The statuses that workflow runs and task runs go through on the real engine: none comes back and forth."""

from itertools import groupby
from typing import Any

import pytest

from headway.lifecycles.task_runs.chart import TaskRun, WorkflowRun
from headway.statechart.authoring.statechart import Statechart
from headway.statechart.step.step import status_of
from tests.lifecycles.task_runs.place import CHARTS, Office
from tests.lifecycles.task_runs.team import calls
from tests.lifecycles.task_runs.test_task_graphs import begin, node, runs

pytestmark = pytest.mark.mission("TSK-WF", "TSK-UP")


async def statuses(office: Office, path: str) -> list[str]:
    """All statuses of a run or workflow run that were committed, from its history, each change once."""
    kind, name = path.strip("/").split("/")
    chart: type[Statechart] = CHARTS[kind]
    lines = await office.node.tenant().history(name, limit=10_000)
    after = {line.seq: line.after for line in lines}
    return [
        status
        for status, _ in groupby(status_of(chart, tuple(each.split("+"))) or "" for each in after.values())
    ]


def branches(**bad: Any) -> dict[str, Any]:
    """One branch that fails and has a node after it, and a healthy one of three nodes."""
    return {
        "bad": node("bad", does="fail", **bad),
        "after bad": node("after bad", "bad"),
        "one": node("one"),
        "two": node("two", "one"),
        "three": node("three", "two"),
    }


async def test_a_workflow_is_running_until_its_healthy_branch_is_done(office: Office) -> None:
    """One branch fails at once, the other has three nodes: Running all the time, then Failed, once."""
    path = await begin(office, branches())
    flow = await office.until(path, "Failed")
    assert sorted(flow["artifacts"]) == ["one", "three", "two"]
    assert await statuses(office, path) == ["Running", "Failed"]
    bad = (await runs(office, path))["bad"]
    assert flow["error"] == bad["error"] == "ValueError: no good"


@pytest.mark.mission("TSK-F2")
async def test_a_workflow_stays_running_while_a_process_is_tried_again(office: Office) -> None:
    """A branch has failed, and a process of another is tried again twice: neither run nor workflow fails."""
    nodes = {"bad": node("bad", does="fail"), "slow": node("slow", does="flicker", times=2)}
    path = await begin(office, nodes)
    await office.until(path, "Failed")
    slow = (await runs(office, path))["slow"]
    assert await statuses(office, path) == ["Running", "Failed"]
    assert await statuses(office, f"/task-runs/{slow['id']}") == ["Pending", "Running", "Completed"]


@pytest.mark.mission("TSK-F2")
async def test_a_run_stays_running_while_a_process_is_tried_again(office: Office) -> None:
    """One process has failed for good; the run is Failed when the other, which is tried again, is done."""
    processes = [{"name": "bad", "does": "fail"}, {"name": "slow", "does": "flicker", "times": 1}]
    made = await office.post("/task-runs", runner="listed", config={"processes": processes})
    path = f"/task-runs/{made['id']}"
    run = await office.until(path, "Failed")
    assert run["task_processes_by_status"] == {"Failed": 1, "Completed": 1}
    assert await statuses(office, path) == ["Pending", "Running", "Failed"]


@pytest.mark.mission("TSK-F4", "TSK-M")
async def test_a_workflow_is_stopped_and_resumed_beside_a_failed_branch(office: Office) -> None:
    """It is Failed when the last run is stopped, Running while that goes on, and Failed once more."""
    nodes = {
        "bad": node("bad", does="fail"),
        "slow": node("slow", does="hang", times=1),
        "end": node("end", "slow"),
    }
    nodes["slow"]["config"]["processes"][0]["timeout_seconds"] = 600
    path = await begin(office, nodes)
    await office.when(path, lambda it: it["task_runs_by_status"] == {"Failed": 1, "Running": 1})
    await office.node.tenant().until((await runs(office, path))["slow"]["id"], "processing")
    assert (await office.apply(path, "stop")).json()["status"] == "Failed"
    assert (await office.apply(path, "resume")).status_code == 200
    await office.when(path, lambda it: it["task_runs_by_status"] == {"Failed": 1, "Running": 1})
    assert await statuses(office, path) == ["Running", "Failed", "Running"]


@pytest.mark.mission("TSK-F5")
async def test_a_workflow_goes_on_when_a_failed_run_is_restarted(office: Office) -> None:
    """From the restart on it is Running, until all of it is done."""
    path = await begin(office, branches(times=1))
    await office.until(path, "Failed")
    bad = (await runs(office, path))["bad"]
    assert (await office.apply(f"/task-runs/{bad['id']}", "restart")).json()["status"] == "Pending"
    flow = await office.until(path, "Completed")
    assert await statuses(office, path) == ["Running", "Failed", "Running", "Completed"]
    assert flow["error"] is None


@pytest.mark.mission("TSK-M")
async def test_a_workflow_is_retried_without_redoing_what_is_done(office: Office) -> None:
    """The failed process runs once more and what waited for it begins; no other process runs twice."""
    path = await begin(office, branches(times=1))
    flow = await office.until(path, "Failed")
    assert "retry" in flow["allowed_actions"]
    assert (await office.apply(path, "retry")).json()["status"] == "Running"
    flow = await office.until(path, "Completed")
    assert await statuses(office, path) == ["Running", "Failed", "Running", "Completed"]
    assert (flow["failed_at"], flow["error"]) == (None, None)
    done = {name: calls[name] for name in flow["graph"]}
    assert done == {"bad": 2, "after bad": 1, "one": 1, "two": 1, "three": 1}


@pytest.mark.mission("TSK-M", "TSK-F2")
async def test_a_run_is_retried_by_its_failed_processes_alone(office: Office) -> None:
    """They get all their retries anew; what is completed stays, and the hook follows."""
    processes = [
        {"name": "bad", "does": "fail", "times": 1},
        {"name": "worse", "does": "fail", "times": 1},
        {"name": "good"},
    ]
    made = await office.post("/task-runs", runner="listed", config={"processes": processes})
    path = f"/task-runs/{made['id']}"
    run = await office.until(path, "Failed")
    assert (run["error"], run["allowed_actions"]) == ("ValueError: no good", ["restart", "retry"])
    assert (await office.apply(path, "retry")).json()["status"] == "Running"
    run = await office.until(path, "Completed")
    assert (run["error"], run["task_processes_by_status"]) == (None, {"Completed": 3})
    assert await statuses(office, path) == ["Pending", "Running", "Failed", "Running", "Completed"]
    assert [calls[name] for name in ("bad", "worse", "good", "hook")] == [2, 2, 1, 1]


@pytest.mark.mission("TSK-M", "TSK-HOOK")
@pytest.mark.parametrize("method", ["prepare", "hook"])
async def test_a_method_of_the_runner_that_failed_is_retried_alone(office: Office, method: str) -> None:
    """It is called again with its three attempts; processes that are completed are not run again."""
    config = {"processes": [{"name": "p"}], "breaks": method, "times": 3}
    made = await office.post("/task-runs", runner="listed", config=config)
    path = f"/task-runs/{made['id']}"
    run = await office.until(path, "Failed")
    assert run["error"] == f"invalid_input: {method} is broken"
    answer = (await office.apply(path, "retry")).json()
    assert answer["status"] == ("Pending" if method == "prepare" else "Running")
    run = await office.until(path, "Completed")
    assert (run["error"], calls["p"], calls[f"{method} called"]) == (None, 1, 4)
    again = await office.apply(path, "retry")
    assert (again.status_code, again.json()["code"]) == (409, "illegal")


@pytest.mark.mission("TSK-M")
async def test_a_failed_process_is_retried_by_itself(office: Office) -> None:
    """Its restarts count from zero again; its run goes on with it, completes, and redoes nothing else."""
    config = {"processes": [{"name": "p", "does": "fail", "times": 1}, {"name": "good"}]}
    made = await office.post("/task-runs", runner="listed", config=config)
    path = f"/task-runs/{made['id']}"
    await office.until(path, "Failed")
    process = (await office.processes(made["id"]))["p"]
    assert (process["status"], process["allowed_actions"]) == ("Failed", ["stop", "retry"])
    answer = await office.apply(f"/task-processes/{process['id']}", "retry")
    assert answer.json()["status"] == "Pending"
    assert (await office.get(f"/task-processes/{process['id']}"))["restart_count"] == 0
    assert (await office.until(path, "Completed"))["error"] is None
    assert [calls[name] for name in ("p", "good", "hook")] == [2, 1, 1]


@pytest.mark.mission("TSK-F4", "TSK-API")
@pytest.mark.parametrize("kind", ["task-runs", "workflow-runs"])
async def test_stop_is_answered_with_what_it_has_led_to(office: Office, kind: str) -> None:
    """All processes are stopped when the answer comes; a repeat gets the same, whatever came after it."""
    hanging = {
        "runner": "listed",
        "config": {"processes": [{"name": name, "does": "hang"} for name in "abc"]},
    }
    body: dict[str, Any] = {"nodes": {"only": hanging}} if kind == "workflow-runs" else hanging
    path = f"/{kind}/{(await office.post(f'/{kind}', **body))['id']}"
    await office.until(path, "Running")
    first = await office.apply(path, "stop", request_id="stop-1")
    it = await office.get(path)
    assert (first.json()["status"], it["status"], first.json()["seq"]) == ("Stopped", "Stopped", it["seq"])
    await office.apply(path, "resume")
    again = await office.apply(path, "stop", request_id="stop-1")
    assert (again.status_code, again.json(), again.headers["ETag"]) == (
        200,
        first.json(),
        first.headers["ETag"],
    )
    assert (await office.get(path))["status"] == "Running"


def test_the_ends_that_a_stop_can_lead_to_are_statuses() -> None:
    """Each is an outermost state of its chart."""
    from headway.lifecycles.task_runs.runs import ENDS  # noqa: PLC0415 - what is tested

    for chart, ends in ENDS.items():
        assert chart in {TaskRun, WorkflowRun}
        assert all(status_of(chart, (end,)) == end for end in ends)
