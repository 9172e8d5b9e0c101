"""Workflow runs: nodes in the order of their graph, failures, stop and resume, restarts."""

from __future__ import annotations

import pytest

from headway.lifecycles.task_runs.chart import TaskProcess, TaskRun, WorkflowRun
from headway.statechart.effects import Deliver, SpawnChild
from headway.statechart.snapshot import child_changed, person
from headway.statechart.step.step import Step, step
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


@pytest.mark.mission("TSK-ERR", "TSK-F5")
def test_a_run_that_starts_over_takes_its_errors_back_all_the_way_up() -> None:
    """Those of other runs stay."""
    world = workflow({"a": [], "b": []})
    for node in ("a", "b"):
        fail(world, node)
    run = runs(world)["a"]
    assert [world.of[name].counters["errors"] for name in (run, "it")] == [1, 2]
    world.send(TaskRun.restart(by=ANN), to=run)
    assert [world.of[name].counters["errors"] for name in (run, "it")] == [0, 1]


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


@pytest.mark.mission("TSK-WF", "TSK-F4")
def test_stop_of_a_workflow_reaches_a_run_with_a_failed_process() -> None:
    """Another branch runs, and a process would be tried again beside one that failed: both are stopped."""
    world = workflow({"a": [], "b": []})
    a, b = runs(world)["a"], runs(world)["b"]
    world.done(a, processes=[{"name": "bad"}, {"name": "flickering"}])
    world.done(b, processes=[{"name": "other"}])
    bad, flickering = world.children(a)
    go(world, "network_error", to=flickering)
    go(world, "refused", to=bad)
    assert (world.status(a), world.status()) == ("Running", "Running")
    world.send(WorkflowRun.stop(by=ANN))
    assert [world.status(each) for each in (flickering, a, b)] == ["Stopped", "Failed", "Stopped"]
    assert world.status() == "Failed"
    world.send(WorkflowRun.resume(by=ANN))
    world.pass_time(1)
    assert [world.status(each) for each in (flickering, a, b, "it")] == ["Running"] * 4


@pytest.mark.mission("TSK-WF", "TSK-F4")
@pytest.mark.parametrize("fate", ["refused", "stop"])
def test_a_workflow_that_is_failed_or_stopped_by_one_run_is_stopped_as_a_whole(fate: str) -> None:
    """A node that is being prepared does not begin after the stop, until the workflow is resumed."""
    world = workflow({"ended": [], "slow": []})
    ended, slow = runs(world)["ended"], runs(world)["slow"]
    world.done(ended, processes=[{"name": "p"}])
    go(world, fate, to=world.children(ended)[0])
    assert (world.status(), world.of[slow].states) == ("Running", ("preparing",))
    world.send(WorkflowRun.stop(by=ANN))
    ended_as = {"refused": "Failed", "stop": "Stopped"}[fate]
    assert (world.status(), world.status(slow)) == (ended_as, "Stopped")
    assert world.refused(WorkflowRun.stop(by=ANN)).code == "guard"
    world.send(WorkflowRun.resume(by=ANN))
    assert world.of[slow].states == ("preparing",)


@pytest.mark.mission("TSK-WF", "TSK-M")
def test_a_workflow_in_which_nothing_was_stopped_is_not_resumed() -> None:
    """One that has failed has nothing to go on with, and says so."""
    world = workflow({"bad": []})
    fail(world, "bad")
    refusal = world.refused(WorkflowRun.resume(by=ANN))
    assert (refusal.code, refusal.objections[0].reason) == ("guard", "nothing of it was stopped")


@pytest.mark.mission("TSK-WF", "TSK-F4")
def test_a_resumed_workflow_is_not_stopped_again_by_runs_that_have_not_heard_of_it() -> None:
    """While its runs hear of it one by one it stays Running, also when the first is only being prepared."""
    world = workflow({"a": [], "b": []})
    world.send(WorkflowRun.stop(by=ANN))
    assert world.of["it"].children == {"Stopped": 2}
    snapshot, seen = world.of["it"], []
    news = [child_changed(run, "Stopped", "Pending") for run in runs(world).values()]
    for event in (WorkflowRun.resume(by=ANN), *news):
        after = step(WorkflowRun, snapshot, event, world.now)
        assert isinstance(after, Step)
        snapshot = after.snapshot
        seen.append((snapshot.states, snapshot.context["stopped_at"], snapshot.context["resuming"]))
    running = ("Running",)
    assert seen == [(running, None, True), (running, None, False), (running, None, False)]


@pytest.mark.mission("TSK-WF", "TSK-F4")
def test_a_node_begins_although_the_workflow_is_stopped_by_another_run() -> None:
    """Only one run was stopped: what comes after a node that is done, or skipped, need not wait for it."""
    world = workflow({"a": [], "b": [], "c": ["b"]})
    a, b = runs(world)["a"], runs(world)["b"]
    world.send(TaskRun.stop(by=ANN), a)
    assert world.status() == "Running"
    world.done(b, processes=[])
    assert (world.status(b), "c" in runs(world)) == ("Skipped", True)
    finish(world, "c")
    assert world.status() == "Stopped"
    world.send(TaskRun.resume(by=ANN), a)
    finish(world, "a")
    assert world.status() == "Completed"


@pytest.mark.mission("TSK-WF", "TSK-F5", "TSK-ERR")
def test_the_rest_follows_when_a_failed_run_is_restarted_and_completes() -> None:
    """What waited for it begins with what it brings out, and the workflow is done."""
    world = workflow({"bad": [], "good": [], "after": ["bad", "good"]})
    finish(world, "good", "from good")
    fail(world, "bad")
    assert (world.status(), set(runs(world))) == ("Failed", {"bad", "good"})
    bad = runs(world)["bad"]
    world.send(TaskRun.restart(by=ANN), bad)
    world.done(bad, processes=[{"name": "again"}])
    assert world.status() == "Running"
    go(world, "done", to=world.children(bad)[-1])
    world.done(bad, artifacts=["mended"])
    assert world.of[runs(world)["after"]].context["input_artifacts"] == ["mended", "from good"]
    finish(world, "after")
    assert (world.status(), world.of["it"].context["failed_at"]) == ("Completed", None)


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
