"""Workflow runs over the real server: fan-out, fan-in, skips, a branch that fails, stop and resume."""

from typing import Any

import pytest

from tests.lifecycles.task_runs.place import Office
from tests.lifecycles.task_runs.team import calls

pytestmark = pytest.mark.mission("TSK-WF", "ENG-12")


def node(name: str, *after: str, does: str = "", **more: Any) -> dict[str, Any]:
    """A node with one process of the same name."""
    process = {"name": name, "does": does, **more}
    return {"runner": "listed", "after": [*after], "config": {"processes": [process]}}


async def begin(office: Office, nodes: dict[str, Any], *, start: bool = True) -> str:
    """The path of a new workflow run."""
    made = await office.post("/workflow-runs", nodes=nodes, start=start)
    return f"/workflow-runs/{made['id']}"


async def runs(office: Office, path: str) -> dict[str, dict[str, Any]]:
    """The task runs of a workflow run by their nodes."""
    page = await office.get(f"/task-runs?workflow_run_id={path.rpartition('/')[2]}")
    return {each["node"]: each for each in page["items"]}


@pytest.mark.mission("TSK-F1", "TSK-HOOK")
async def test_a_node_begins_when_its_parents_are_done_and_gets_their_artifacts(office: Office) -> None:
    """Fan-out to two, one of which has several processes, and fan-in: the last gets what both brought out."""
    wide = {
        "runner": "listed",
        "after": ["in"],
        "config": {"processes": [{"name": f"w{n}"} for n in range(5)]},
    }
    nodes = {"in": node("in"), "left": node("left", "in"), "wide": wide, "out": node("out", "left", "wide")}
    path = await begin(office, nodes)
    flow = await office.until(path, "Completed")
    assert flow["artifacts"]["wide"] == [f"w{n} of 1" for n in range(5)]
    assert flow["artifacts"]["out"] == ["out of 6"]
    made = await runs(office, path)
    assert made["out"]["input_artifacts"] == ["left of 1", *flow["artifacts"]["wide"]]
    assert max(made["left"]["completed_at"], made["wide"]["completed_at"]) <= made["out"]["started_at"]
    assert (flow["task_runs_by_status"], flow["error_count"]) == ({"Completed": 4}, 0)


@pytest.mark.parametrize(("kind", "processes"), [("bulky", 1), ("one-each", 16)])
async def test_a_node_gets_all_that_many_nodes_before_it_have_brought_out(
    office: Office, kind: str, processes: int
) -> None:
    """Four times what fits beside it into one event, as a whole or artifact by artifact."""
    before = {f"n{n}": {"runner": "bulky", "config": {"bytes": 360_000}} for n in range(4)}
    path = await begin(office, {**before, "join": {"runner": kind, "after": [*before]}})
    flow = await office.until(path, "Completed", "Failed")
    assert (flow["status"], flow["error_count"]) == ("Completed", 0)
    join = (await runs(office, path))["join"]
    made = (await office.processes(join["id"])).values()
    got = [item for each in made for item in each["input_artifacts"]]
    assert (len(made), got) == (processes, join["input_artifacts"])
    assert sum(each["output_artifacts"][0] for each in made) == sum(map(len, got)) == 4 * (360_000 - 8)


async def test_a_node_with_nothing_to_do_is_skipped_and_counts_as_done(office: Office) -> None:
    """What comes after it begins, with what the others brought out."""
    nodes = {"a": node("a"), "none": {"runner": "nothing", "after": ["a"]}, "end": node("end", "a", "none")}
    path = await begin(office, nodes)
    flow = await office.until(path, "Completed")
    assert flow["artifacts"] == {"a": ["a of 0"], "none": [], "end": ["end of 1"]}
    assert {name: run["status"] for name, run in (await runs(office, path)).items()} == {
        "a": "Completed",
        "none": "Skipped",
        "end": "Completed",
    }


@pytest.mark.mission("TSK-ERR", "TSK-F2")
async def test_a_branch_that_fails_leaves_the_others_to_finish(office: Office) -> None:
    """What waits for it never begins, the other branch goes to its end, errors count to the top."""
    nodes = {
        "bad": node("bad", does="fail"),
        "after bad": node("after bad", "bad"),
        "one": node("one"),
        "two": node("two", "one"),
        "three": node("three", "two"),
    }
    path = await begin(office, nodes)
    flow = await office.when(path, lambda it: "three" in it["artifacts"] and it["status"] == "Failed")
    assert (sorted(flow["begun"]), flow["error_count"]) == (["bad", "one", "three", "two"], 1)
    bad = (await runs(office, path))["bad"]
    assert (bad["status"], bad["task_process_error_count"]) == ("Failed", 1)
    assert (await office.apply(f"/task-runs/{bad['id']}", "restart")).status_code == 200
    await office.when(f"/task-runs/{bad['id']}", lambda it: calls["bad"] == 2 and it["status"] == "Failed")


@pytest.mark.mission("TSK-F5", "TSK-ERR")
async def test_the_rest_follows_when_a_failed_run_is_restarted_and_completes(office: Office) -> None:
    """What waited for it begins with what it brings out now, and the workflow is done."""
    nodes = {
        "bad": node("bad", does="fail", times=1),
        "good": node("good"),
        "end": node("end", "bad", "good"),
    }
    path = await begin(office, nodes)
    flow = await office.when(path, lambda it: "good" in it["artifacts"] and it["status"] == "Failed")
    assert (flow["begun"], flow["allowed_actions"]) == (["bad", "good"], ["stop", "retry"])
    bad = (await runs(office, path))["bad"]
    assert (await office.apply(f"/task-runs/{bad['id']}", "restart")).status_code == 200
    flow = await office.until(path, "Completed")
    assert flow["artifacts"] == {"bad": ["bad of 0"], "good": ["good of 0"], "end": ["end of 2"]}
    assert (flow["failed_at"], flow["task_runs_by_status"]) == (None, {"Completed": 3})


@pytest.mark.mission("TSK-F4", "TSK-M")
async def test_a_workflow_is_stopped_and_resumed_as_a_whole(office: Office) -> None:
    """Stop halts the runs and lets no node begin; resume goes on where it was."""
    nodes = {"a": node("a"), "b": node("b", "a", does="hang"), "c": node("c", "b")}
    path = await begin(office, nodes)
    await office.when(path, lambda it: "b" in it["begun"] and it["task_runs_by_status"].get("Running") == 1)
    b = f"/task-runs/{(await runs(office, path))['b']['id']}"
    await office.when(b, lambda it: it["task_processes_by_status"] == {"Running": 1})
    assert (await office.apply(path, "stop")).status_code == 200
    flow = await office.until(path, "Stopped")
    assert (flow["begun"], flow["allowed_actions"]) == (["a", "b"], ["resume"])
    assert (await office.get(b))["status"] == "Stopped"
    assert (await office.apply(path, "resume")).status_code == 200
    await office.when(b, lambda it: it["task_processes_by_status"] == {"Running": 1})
    assert (await office.get(path))["status"] == "Running"


async def test_a_workflow_waits_until_it_is_started(office: Office) -> None:
    """Created without `start` it begins no node; a restart of a run of a finished one leaves it finished."""
    path = await begin(office, {"a": node("a"), "b": node("b", "a")}, start=False)
    assert ((await office.get(path))["status"], await runs(office, path)) == ("Pending", {})
    assert (await office.apply(path, "start")).json()["status"] == "Running"
    await office.until(path, "Completed")
    a = (await runs(office, path))["a"]
    assert (await office.apply(f"/task-runs/{a['id']}", "restart")).status_code == 200
    await office.when(f"/task-runs/{a['id']}", lambda it: calls["a"] == 2 and it["status"] == "Completed")
    await office.until(path, "Completed")
    assert (calls["b"], list(await office.node.letters.list("default"))) == (1, [])
