"""Workflow runs: nodes in the order of their graph, failures, stop and resume, restarts."""

from __future__ import annotations

import pytest

from headway.lifecycles.task_runs.chart import TaskProcess, TaskRun, WorkflowRun
from headway.statechart.effects import Deliver, SpawnChild
from headway.statechart.snapshot import child_changed, person
from headway.statechart.step import Step, step
from tests.lifecycles.processes import go
from tests.lifecycles.world import World

ANN = person("ann", "user")


def workflow(graph: dict[str, list[str]]) -> World:
    """A workflow run that has been started."""
    world = World(WorkflowRun, TaskRun, TaskProcess)
    world.create(WorkflowRun, graph=graph)
    world.send(WorkflowRun.start(by=ANN))
    return world


def runs(world: World) -> dict[str, str]:
    """The task runs of a workflow by the node they stand for."""
    return {world.of[name].context["node"]: name for name in world.children()}


def finish(world: World, node: str, *artifacts: str) -> None:
    """Take a node's run through one process to its end."""
    run = runs(world)[node]
    world.done(run, processes=[{"name": node}])
    go(world, "done", to=world.children(run)[0])
    world.done(run, artifacts=list(artifacts))


@pytest.mark.mission("TSK-F1", "ENG-12")
def test_a_node_starts_when_its_parents_are_done() -> None:
    """Nodes run in the order of the graph, get what their parents brought out, and the last completes it."""
    world = workflow({"a": [], "b": [], "join": ["a", "b"]})
    assert set(runs(world)) == {"a", "b"}
    finish(world, "a", "from a")
    assert set(runs(world)) == {"a", "b"}
    finish(world, "b", "from b")
    assert world.of[runs(world)["join"]].context["input_artifacts"] == ["from a", "from b"]
    assert world.status() == "Running"
    finish(world, "join")
    assert (world.status(), world.of["it"].children) == ("Completed", {"Completed": 3})


@pytest.mark.mission("TSK-ERR", "ENG-12")
def test_an_error_is_counted_all_the_way_up() -> None:
    """Two failures of a process count on the process, its run and its workflow run."""
    world = workflow({"a": []})
    run = runs(world)["a"]
    world.done(run, processes=[{"name": "p"}])
    (one,) = world.children(run)
    go(world, "network_error", to=one)
    world.pass_time(2)
    go(world, "refused", to=one)
    assert [world.of[name].counters["errors"] for name in (one, run, "it")] == [2, 2, 2]
    assert [world.status(name) for name in (one, run, "it")] == ["Failed", "Failed", "Failed"]


@pytest.mark.mission("ENG-12")
def test_stopping_a_workflow_stops_everything_below_and_resuming_goes_on() -> None:
    """Stop goes down through the runs to the processes and comes back up as a status; so does resume."""
    world = workflow({"a": [], "b": ["a"]})
    run = runs(world)["a"]
    world.done(run, processes=[{"name": "p"}])
    world.send(WorkflowRun.stop(by=ANN))
    assert [world.status(name) for name in (world.children(run)[0], run, "it")] == ["Stopped"] * 3
    world.send(WorkflowRun.resume(by=ANN))
    world.pass_time(1)
    assert [world.status(name) for name in (world.children(run)[0], run, "it")] == ["Running"] * 3


def fail(world: World, node: str) -> None:
    """Let a node's run fail by its one process."""
    run = runs(world)[node]
    world.done(run, processes=[{"name": node}])
    go(world, "refused", to=world.children(run)[0])


@pytest.mark.mission("TSK-WF", "TSK-ERR")
def test_a_failed_branch_does_not_hold_up_the_others() -> None:
    """What comes after a node that is done begins, also when another branch has failed in between."""
    world = workflow({"bad": [], "after bad": ["bad"], "a": [], "b": ["a"]})
    fail(world, "bad")
    finish(world, "a")
    assert "b" in runs(world)
    finish(world, "b")
    assert (world.status(), set(runs(world))) == ("Failed", {"bad", "a", "b"})


@pytest.mark.mission("TSK-WF", "TSK-F4")
def test_a_stopped_workflow_begins_no_node_even_when_a_run_has_failed() -> None:
    """Failed counts before Stopped, but stopped it was: nothing begins until it is resumed."""
    world = workflow({"bad": [], "a": [], "b": ["a"]})
    run = runs(world)["a"]
    world.done(run, processes=[{"name": "p"}])
    fail(world, "bad")
    assert world.status() == "Running"
    go(world, "done", to=world.children(run)[0])
    world.send(WorkflowRun.stop(by=ANN))
    world.done(run)
    assert (world.status(), set(runs(world))) == ("Failed", {"bad", "a"})
    world.send(WorkflowRun.resume(by=ANN))
    assert set(runs(world)) == {"bad", "a", "b"}


@pytest.mark.mission("TSK-WF", "TSK-F4")
@pytest.mark.parametrize("nodes_left", [True, False])
def test_a_workflow_whose_runs_end_although_it_was_stopped(nodes_left: bool) -> None:  # noqa: FBT001 - a case
    """A hook under way is not stopped: the workflow is Stopped after it and can be resumed, or is done."""
    world = workflow({"a": [], "b": ["a"]} if nodes_left else {"a": []})
    run = runs(world)["a"]
    world.done(run, processes=[{"name": "p"}])
    go(world, "done", to=world.children(run)[0])
    world.send(WorkflowRun.stop(by=ANN))
    assert world.status() == "Running"
    world.done(run)
    assert (world.status(), set(runs(world))) == ("Stopped" if nodes_left else "Completed", {"a"})
    if nodes_left:
        world.send(WorkflowRun.resume(by=ANN))
        finish(world, "b")
        assert (world.status(), world.of["it"].context["stopped_at"]) == ("Completed", None)


@pytest.mark.mission("TSK-WF", "TSK-F4")
@pytest.mark.parametrize("order", ["stop first", "told first"])
@pytest.mark.parametrize("nodes_left", [True, False])
def test_a_workflow_stopped_before_it_hears_of_a_node(nodes_left: bool, order: str) -> None:  # noqa: FBT001 - a case
    """Where messages take time, a run ends before its artifacts are there: a stop between them is no trap."""
    world = workflow({"a": [], "b": ["a"]} if nodes_left else {"a": []})
    ended = child_changed(runs(world)["a"], "Pending", "Completed")
    told = WorkflowRun.node_complete({"node": "a", "output_artifacts": []})
    stop, snapshot = WorkflowRun.stop(by=ANN), world.of["it"]
    for event in (stop, ended, told) if order == "stop first" else (ended, stop, told):
        taken = step(WorkflowRun, snapshot, event, world.now)
        assert isinstance(taken, Step)
        snapshot = taken.snapshot
    assert snapshot.states == (("Stopped",) if nodes_left else ("Completed",))
    if nodes_left:
        resumed = step(WorkflowRun, snapshot, WorkflowRun.resume(by=ANN), world.now)
        assert isinstance(resumed, Step)
        assert (resumed.snapshot.states, resumed.snapshot.context["begun"]) == (("Running",), ["a", "b"])


@pytest.mark.mission("TSK-WF", "TSK-F5")
def test_a_run_restarted_in_a_completed_workflow_opens_it_until_it_is_done() -> None:
    """The workflow runs while the run does, completes with its new artifacts, and begins nothing twice."""
    world = workflow({"a": [], "b": ["a"]})
    finish(world, "a", "old")
    finish(world, "b")
    assert world.status() == "Completed"
    run = runs(world)["a"]
    world.send(TaskRun.restart(by=ANN), run)
    world.done(run, processes=[{"name": "again"}])
    assert world.status() == "Running"
    go(world, "done", to=world.children(run)[-1])
    world.done(run, artifacts=["new"])
    assert (world.status(), world.of["it"].context["artifacts"]["a"]) == ("Completed", ["new"])
    assert (len(world.children()), world.refusals) == (2, [])


@pytest.mark.mission("TSK-WF")
@pytest.mark.parametrize("graph", [{}, {"a": ["a"]}, {"a": ["b"]}])
def test_a_workflow_that_can_never_be_done_is_not_started(graph: dict[str, list[str]]) -> None:
    """Whoever has created it past the routes is told why."""
    world = World(WorkflowRun, TaskRun, TaskProcess)
    world.create(WorkflowRun, graph=graph)
    refusal = world.refused(WorkflowRun.start(by=ANN))
    assert (refusal.code, bool(refusal.objections[0].reason)) == ("guard", True)


@pytest.mark.mission("TSK-F1")
def test_the_workflow_is_told_before_the_status_is_rolled_up() -> None:
    """The run that completes tells its workflow which node is done, once."""
    world = workflow({"a": []})
    finish(world, "a")
    told = [each for each in world.found(Deliver) if each.event == "node_complete"]
    assert [each.data["node"] for each in told] == ["a"]
    assert [each.chart for each in world.found(SpawnChild)] == ["task_runs.run", "task_runs.process"]
