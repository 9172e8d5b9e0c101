"""Task runs: the roll-up, the hook, the five flows and the edge cases."""

from __future__ import annotations

from itertools import product

import pytest

from headway.codec import replace
from headway.lifecycles.task_runs.chart import TaskProcess, TaskRun, WorkflowRun
from headway.statechart.authoring.statechart import Statechart
from headway.statechart.check.check import check
from headway.statechart.effects import CancelWork, StartWork
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Event, Snapshot, child_changed, person
from headway.statechart.step.step import Step, step
from tests.lifecycles.processes import go
from tests.lifecycles.world import World

ANN = person("ann", "user")
ENDS = ("completed_at", "failed_at", "stopped_at", "skipped_at")
STATUSES = ("Pending", "Running", "Completed", "Failed", "Stopped", "Timeout", "Incomplete")


def run_with(*names: str, continued: bool = True) -> World:
    """A run whose processes are prepared and, unless told otherwise, running."""
    world = World(TaskRun, TaskProcess)
    world.create(TaskRun)
    world.done(processes=[{"name": name} for name in names])
    if continued:
        world.send(TaskRun.continue_(by=ANN))
    return world


def rolled_up(counts: dict[str, int], status: str) -> str:
    """The document's checkProcesses() once more; what may still end by itself keeps a run open."""
    if {"Pending", "Timeout", "Incomplete"} & {*counts}:
        return "Running"
    for child, lands in (("Running", "Running"), ("Failed", "Failed"), ("Stopped", "Stopped")):
        if counts.get(child):
            return lands
    return "Skipped" if not counts else status


@pytest.mark.mission("TSK-UP", "ENG-12")
@pytest.mark.parametrize(
    "present", list(product([0, 1], repeat=len(STATUSES))), ids=lambda bits: "".join(map(str, bits))
)
def test_the_order_of_the_roll_up(present: tuple[int, ...]) -> None:
    """For every mix of processes the first rule that holds gives the run's status."""
    counts = {status: 2 for status, there in zip(STATUSES, present, strict=True) if there}
    world = run_with("a")
    leaving = next(iter(counts), "Pending")
    crowd = {**counts, leaving: counts.get(leaving, 0) + 1}
    before = replace(world.of["it"], children=crowd)
    after = step(TaskRun, before, child_changed("c", leaving, None), world.now)
    assert isinstance(after, Step)
    world.of["it"] = after.snapshot
    assert world.status() == rolled_up(counts, "Running")
    only_completed = set(counts) == {"Completed"}
    assert (after.snapshot.states == ("completing",)) == only_completed
    ends = {end for end in ENDS if after.snapshot.context[end] is not None}
    assert ends == {f"{status.lower()}_at" for status in {world.status()} & {"Failed", "Stopped", "Skipped"}}


@pytest.mark.mission("TSK-UP")
def test_a_time_once_set_by_the_roll_up_stays() -> None:
    """A second failed process does not move the time the run failed at."""
    world = run_with("a", "b")
    first, second = world.children()
    go(world, "refused", to=first)
    go(world, "done", to=second)
    failed_at = world.of["it"].context["failed_at"]
    world.pass_time(10)
    go(world, "stop", to=second)
    assert world.status() == "Failed"
    assert world.of["it"].context["failed_at"] == failed_at


@pytest.mark.mission("TSK-F1", "TSK-HOOK", "ENG-12")
def test_the_last_process_starts_the_hook_which_completes_the_run() -> None:
    """The run waits for all processes, then for the hook, and is completed only when that adds none."""
    world = run_with("a", "b")
    first, second = world.children()
    go(world, "done", to=first)
    assert world.of["it"].states == ("processing",)
    go(world, "done", to=second)
    assert (world.status(), world.of["it"].states) == ("Running", ("completing",))
    assert world.of["it"].context["completed_at"] is None
    assert world.found(StartWork)[-1].handler == "after_all_processes_completed"
    world.done(artifacts=["report"])
    assert world.status() == "Completed"
    assert world.of["it"].context["output_artifacts"] == ["report"]


@pytest.mark.mission("TSK-HOOK", "TSK-EDGE")
def test_a_hook_that_adds_processes_keeps_the_run_open() -> None:
    """Processes of a next phase run by themselves, and the hook is called again when they are done."""
    world = run_with("a")
    go(world, "done", to=world.children()[0])
    world.done(processes=[{"name": "b"}, {"name": "c"}])
    assert (world.status(), world.of["it"].states) == ("Running", ("processing",))
    world.pass_time(1)
    added = world.children()[1:]
    assert [world.status(each) for each in added] == ["Running", "Running"]
    for each in added:
        go(world, "done", to=each)
    assert world.of["it"].states == ("completing",)
    world.done()
    assert world.status() == "Completed"


@pytest.mark.mission("TSK-HOOK", "TSK-EDGE")
def test_the_count_is_read_again_after_the_hook() -> None:
    """Processes added by other means while the hook runs keep the run open too."""
    world = run_with("a")
    go(world, "done", to=world.children()[0])
    world.send(TaskRun.add_processes({"processes": [{"name": "b"}]}))
    world.done()
    assert (world.status(), world.of["it"].states) == ("Running", ("processing",))


@pytest.mark.mission("TSK-F4", "TSK-HOOK")
def test_a_stop_reaches_what_was_added_while_the_hook_is_called() -> None:
    """It is stopped with the run, and goes on with it."""
    world = run_with("a")
    go(world, "done", to=world.children()[0])
    world.send(TaskRun.add_processes({"processes": [{"name": "b"}]}))
    world.send(TaskRun.stop(by=ANN))
    assert [world.status(name) for name in (world.children()[1], "it")] == ["Stopped", "Stopped"]
    world.send(TaskRun.resume(by=ANN))
    world.pass_time(1)
    go(world, "done", to=world.children()[1])
    assert world.of["it"].states == ("completing",)
    world.done()
    assert world.status() == "Completed"


@pytest.mark.mission("TSK-WF")
def test_processes_that_are_added_cannot_copy_without_limit() -> None:
    """What a run was given goes to each of them, but only so much in all."""
    world = World(TaskRun, TaskProcess)
    world.create(TaskRun, input_artifacts=["x" * 90_000], dispatched=True)
    world.done(processes=[{"name": "a"}])
    many = [{"name": str(number), "inherits": [(0, 0, 1)]} for number in range(200)]
    refused = world.refused(TaskRun.add_processes({"processes": many}))
    assert "10,000,000 bytes" in str(refused)
    world.send(TaskRun.add_processes({"processes": many[:3]}))
    assert len(world.children()) == 4


@pytest.mark.mission("TSK-F2")
def test_a_failed_process_fails_its_run_without_the_hook() -> None:
    """The run fails when nothing runs any more, and the hook is never called."""
    world = run_with("a", "b")
    first, second = world.children()
    go(world, "refused", to=first)
    assert world.status() == "Running"
    go(world, "done", to=second)
    assert world.status() == "Failed"
    assert "after_all_processes_completed" not in {work.handler for work in world.found(StartWork)}


@pytest.mark.mission("TSK-F3")
def test_a_process_out_of_retries_fails_its_run() -> None:
    """While it has retries the run stays open; after the last timeout the run fails."""
    world = run_with("a")
    (one,) = world.children()
    for _ in range(3):
        go(world, "timeout", to=one)
        assert (world.status(), world.status(world.children()[0])) == ("Running", "Timeout")
        world.pass_time(2)
    go(world, "timeout", to=one)
    assert (world.status(), world.status(world.children()[0])) == ("Failed", "Failed")


@pytest.mark.mission("TSK-F4", "TSK-M")
def test_stop_ends_every_unfinished_process_and_then_the_run() -> None:
    """Pending, running and retryable processes stop; finished ones stay what they are."""
    world = run_with("a", "b", "c", "d")
    done, running, incomplete, failed = world.children()
    go(world, "done", to=done)
    go(world, "network_error", to=incomplete)
    go(world, "refused", to=failed)
    world.send(TaskRun.stop(by=ANN))
    assert [world.status(each) for each in (done, running, incomplete, failed)] == [
        "Completed",
        "Stopped",
        "Stopped",
        "Failed",
    ]
    assert world.status() == "Failed"


@pytest.mark.mission("TSK-F4", "TSK-M")
def test_stop_and_resume_a_run() -> None:
    """A stopped run is running again after resume, and so are its processes."""
    world = run_with("a", "b")
    world.send(TaskRun.stop(by=ANN))
    assert world.status() == "Stopped"
    world.send(TaskRun.resume(by=ANN))
    assert (world.status(), world.of["it"].children) == ("Running", {"Pending": 2})
    world.pass_time(1)
    assert world.of["it"].children == {"Running": 2}


@pytest.mark.mission("TSK-F4", "TSK-UP")
@pytest.mark.parametrize("fate", ["refused", "stop"])
def test_stop_reaches_what_would_be_tried_again_beside_an_ended_process(fate: str) -> None:
    """The run is Running while another process may begin again; a stop reaches that one, too, and ends it."""
    world = run_with("ended", "flickering")
    ended, flickering = world.children()
    go(world, "network_error", to=flickering)
    go(world, fate, to=ended)
    assert world.status() == "Running"
    world.send(TaskRun.stop(by=ANN))
    ended_as = {"refused": "Failed", "stop": "Stopped"}[fate]
    assert (world.status(), world.status(flickering)) == (ended_as, "Stopped")
    world.pass_time(10)
    assert world.status() == ended_as
    assert world.refused(TaskRun.stop(by=ANN)).code == {"refused": "illegal", "stop": "already"}[fate]


@pytest.mark.mission("TSK-F4", "TSK-M")
def test_a_run_that_was_stopped_beside_a_failed_process_is_resumed() -> None:
    """What was stopped goes on to its end; then the run is Failed again by the process that failed."""
    world = run_with("bad", "good")
    bad, good = world.children()
    go(world, "refused", to=bad)
    world.send(TaskRun.stop(by=ANN))
    assert (world.status(), world.status(good)) == ("Failed", "Stopped")
    world.send(TaskRun.resume(by=ANN))
    world.pass_time(1)
    assert (world.status(), world.status(good)) == ("Running", "Running")
    go(world, "done", to=good)
    assert (world.status(), world.status(bad)) == ("Failed", "Failed")
    assert world.refused(TaskRun.resume(by=ANN)).objections[0].reason == "no process is stopped"


def taken(world: World, *events: Event) -> list[Snapshot]:
    """The run after each of these events, which come one by one, as where messages take time."""
    found = [world.of["it"]]
    for event in events:
        after = step(TaskRun, found[-1], event, world.now)
        assert isinstance(after, Step), after
        found.append(after.snapshot)
    return found[1:]


@pytest.mark.mission("TSK-M", "TSK-UP")
def test_a_resumed_run_is_not_stopped_again_by_those_who_have_not_heard_of_it() -> None:
    """It stays Running while processes hear of it one by one, until the last of them is stopped once more."""
    world = run_with("a", "b", "c")
    first, second, third = world.children()
    world.send(TaskRun.stop(by=ANN))
    heard = [child_changed(each, "Stopped", "Pending") for each in (first, second, third)]
    later = [child_changed(each, "Pending", "Stopped") for each in (first, second, third)]
    after = taken(world, TaskRun.resume(by=ANN), *heard, *later)
    assert [each.states for each in after] == [("processing",)] * 6 + [("Stopped",)]
    assert [each.context["stopped_at"] is None for each in after] == [True] * 6 + [False]
    again = step(TaskRun, after[1], TaskRun.resume(by=ANN), world.now)
    assert isinstance(again, Refusal)
    assert again.code == "already"


@pytest.mark.mission("TSK-F4", "TSK-M")
def test_a_run_that_is_stopped_while_it_is_resumed_is_stopped() -> None:
    """Those who have not heard of the resume count as stopped again, and so do all others in the end."""
    world = run_with("a", "b")
    first, second = world.children()
    world.send(TaskRun.stop(by=ANN))
    moves = [(first, "Stopped", "Pending"), (second, "Stopped", "Pending")]
    back = [(first, "Pending", "Stopped"), (second, "Pending", "Stopped")]
    news = [child_changed(*each) for each in (*moves, *back)]
    after = taken(world, TaskRun.resume(by=ANN), news[0], TaskRun.stop(by=ANN), *news[1:])
    assert after[1].states == ("processing",)
    assert (after[-1].states, after[-1].children) == (("Stopped",), {"Stopped": 2})


@pytest.mark.mission("TSK-UP", "TSK-M")
def test_a_process_that_is_stopped_while_its_run_is_resumed_stops_it_in_the_end() -> None:
    """The run goes on with the others, and is Stopped when nothing else is under way."""
    world = run_with("a", "b")
    first, second = world.children()
    world.send(TaskRun.stop(by=ANN))
    after = taken(
        world,
        TaskRun.resume(by=ANN),
        child_changed(first, "Stopped", "Pending"),
        child_changed(first, "Pending", "Stopped"),
        child_changed(second, "Stopped", "Pending"),
        child_changed(second, "Pending", "Running"),
        child_changed(second, "Running", "Completed"),
    )
    assert (after[-2].states, after[-1].states) == (("processing",), ("Stopped",))


@pytest.mark.mission("TSK-HOOK", "TSK-F4")
def test_what_a_hook_adds_after_a_stop_is_stopped() -> None:
    """The hook is let finish; its processes do not begin until the run is resumed."""
    world = run_with("a")
    go(world, "done", to=world.children()[0])
    world.send(TaskRun.stop(by=ANN))
    assert world.of["it"].states == ("completing",)
    world.done(processes=[{"name": "b"}, {"name": "c"}])
    added = world.children()[1:]
    assert [world.status(each) for each in ("it", *added)] == ["Stopped"] * 3
    world.pass_time(10)
    assert not [each for each in world.found(StartWork) if each.handler == "run_process"][1:]
    world.send(TaskRun.resume(by=ANN))
    world.pass_time(1)
    assert [world.status(each) for each in ("it", *added)] == ["Running"] * 3
    for each in added:
        go(world, "done", to=each)
    world.done(processes=[{"name": "d"}])
    assert world.status(world.children()[-1]) == "Running"


@pytest.mark.mission("TSK-HOOK", "TSK-F4")
def test_a_second_stop_ends_a_hook_which_is_called_again_after_resume() -> None:
    """A hook that hangs does not keep a run from being stopped."""
    world = run_with("a")
    go(world, "done", to=world.children()[0])
    world.send(TaskRun.stop(by=ANN))
    world.send(TaskRun.stop(by=ANN))
    assert (world.status(), len(world.found(CancelWork))) == ("Stopped", 1)
    world.send(TaskRun.resume(by=ANN))
    assert world.of["it"].states == ("completing",)
    world.done(processes=[{"name": "b"}])
    assert world.status(world.children()[-1]) == "Running"


@pytest.mark.mission("TSK-HOOK", "TSK-F2")
@pytest.mark.parametrize("work", ["prepare_task_processes", "after_all_processes_completed"])
def test_a_runner_that_takes_too_long_fails_the_run(work: str) -> None:
    """`prepare` and the hook have a limit that the engine keeps, and are called three times in all."""
    world = run_with("a", continued=False)
    if work == "prepare_task_processes":
        world = World(TaskRun, TaskProcess)
        world.create(TaskRun)
    else:
        world.send(TaskRun.continue_(by=ANN))
        go(world, "done", to=world.children()[0])
    begun = world.found(StartWork)[-1]
    assert (begun.handler, begun.timeout) == (work, 24 * 3_600_000)
    for _ in range(3):
        world.failed("timeout", message="it took longer than 1 s")
    assert (world.status(), world.of["it"].context["error"]) == ("Failed", "timeout: it took longer than 1 s")


@pytest.mark.mission("TSK-M")
@pytest.mark.parametrize("restarted", [False, True])
def test_a_run_is_continued_before_it_is_prepared(restarted: bool) -> None:  # noqa: FBT001 - a case
    """It begins as soon as it is prepared, also when it starts over; who continues it twice is refused."""
    world = run_with("old", continued=False) if restarted else World(TaskRun, TaskProcess)
    if restarted:
        world.of["it"] = taken(world, TaskRun.restart(by=ANN))[0]
        assert world.of["it"].states == ("deleting",)
    else:
        world.create(TaskRun)
    world.send(TaskRun.continue_(by=ANN))
    assert (world.status(), world.refused(TaskRun.continue_(by=ANN)).code) == ("Pending", "guard")
    if restarted:
        world.send(child_changed(world.children()[0], "Pending", "Deleted"))
    world.done(processes=[{"name": "a"}])
    assert (world.status(), world.status(world.children()[-1])) == ("Running", "Running")


@pytest.mark.mission("TSK-HOOK", "TSK-M")
def test_a_resumed_run_does_not_call_its_hook_too_early() -> None:
    """One process completed and one about to be resumed: the hook waits for both."""
    world = run_with("a", "b")
    first, second = world.children()
    go(world, "done", to=first)
    world.send(TaskRun.stop(by=ANN))
    resumed = world.send(TaskRun.resume(by=ANN))
    assert resumed.snapshot.states == ("processing",)
    world.pass_time(1)
    go(world, "done", to=second)
    assert world.of["it"].states == ("completing",)


@pytest.mark.mission("TSK-EDGE", "TSK-F4")
def test_stop_completes_a_run_whose_processes_had_all_finished() -> None:
    """A run left running with nothing active goes to its hook instead of being stopped."""
    world = run_with("a")
    world.of["it"] = replace(world.of["it"], children={"Completed": 1})
    world.send(TaskRun.stop(by=ANN))
    assert (world.status(), world.of["it"].states) == ("Running", ("completing",))


@pytest.mark.mission("TSK-EDGE", "TSK-M")
def test_a_pending_run_without_processes_is_stopped_and_resumed() -> None:
    """Stop works before there are processes and ends the preparation; resume prepares anew."""
    world = World(TaskRun, TaskProcess)
    world.create(TaskRun)
    world.send(TaskRun.stop(by=ANN))
    assert (world.status(), len(world.found(CancelWork))) == ("Stopped", 1)
    world.send(TaskRun.resume(by=ANN))
    assert world.of["it"].states == ("preparing",)


@pytest.mark.mission("TSK-M")
def test_a_run_stopped_before_it_continued_is_not_prepared_twice() -> None:
    """Resumed with its processes, the run waits to be continued."""
    world = run_with("a", continued=False)
    world.send(TaskRun.stop(by=ANN))
    assert world.status() == "Stopped"
    world.send(TaskRun.resume(by=ANN))
    assert (world.status(), world.of["it"].states) == ("Pending", ("prepared",))
    assert len(world.children()) == 1


@pytest.mark.mission("TSK-M")
def test_a_run_with_nothing_to_do_is_skipped() -> None:
    """No process prepared: Pending computes to Skipped."""
    world = World(TaskRun, TaskProcess)
    world.create(TaskRun)
    world.done(processes=[])
    assert world.status() == "Skipped"


@pytest.mark.mission("TSK-F5", "TSK-M")
@pytest.mark.parametrize("steps", [[], ["done"], ["refused"], ["stop"], ["network_error"]])
def test_restart_deletes_the_processes_and_prepares_new_ones(steps: list[str]) -> None:
    """From any status: the old processes are gone, times, artifacts and errors cleared, and it runs again."""
    world = run_with("a")
    (old,) = world.children()
    go(world, *steps, to=old)
    world.send(TaskRun.restart(by=ANN))
    run = world.of["it"]
    assert (world.status(), run.states, run.counters.get("errors", 0)) == ("Pending", ("preparing",), 0)
    assert not [name for name in ("started_at", *ENDS) if run.context[name]]
    assert world.of[old].ended
    world.done(processes=[{"name": "new"}])
    assert world.status() == "Running"
    go(world, "done", to=world.children()[-1])
    world.done()
    assert world.status() == "Completed"


@pytest.mark.mission("TSK-F5")
def test_a_restart_waits_until_the_old_processes_are_gone() -> None:
    """Where messages take time, what old processes still report cannot be taken for news of the new ones."""
    world = run_with("a", "b")
    first, second = world.children()
    restarted = step(TaskRun, world.of["it"], TaskRun.restart(by=ANN), world.now)
    assert isinstance(restarted, Step)
    late = step(TaskRun, restarted.snapshot, child_changed(first, "Running", "Completed"), world.now)
    assert isinstance(late, Step)
    assert late.snapshot.states == ("deleting",)
    gone = step(TaskRun, late.snapshot, child_changed(first, "Completed", "Deleted"), world.now)
    assert isinstance(gone, Step)
    ready = step(TaskRun, gone.snapshot, child_changed(second, "Running", "Deleted"), world.now)
    assert isinstance(ready, Step)
    assert (gone.snapshot.states, ready.snapshot.states) == (("deleting",), ("preparing",))


@pytest.mark.mission("TSK-F4", "TSK-F5")
def test_a_run_that_is_stopped_while_it_starts_over_does_not_begin_again() -> None:
    """Stop is not lost while old processes go: the run is Stopped after that, and prepared when told to."""
    world = run_with("a")
    (old,) = world.children()
    snapshot = world.of["it"]
    for event in (TaskRun.restart(by=ANN), TaskRun.stop(by=ANN), child_changed(old, "Running", "Deleted")):
        taken = step(TaskRun, snapshot, event, world.now)
        assert isinstance(taken, Step)
        snapshot = taken.snapshot
    assert (snapshot.states, snapshot.work) == (("Stopped",), {})
    for event in (TaskRun.resume(by=ANN), TaskRun.restart(by=ANN)):
        again = step(TaskRun, snapshot, event, world.now)
        assert isinstance(again, Step)
        assert again.snapshot.states == ("preparing",)


@pytest.mark.mission("TSK-M")
@pytest.mark.parametrize(
    ("event", "code"), [(TaskRun.continue_(by=ANN), "already"), (TaskRun.resume(by=ANN), "already")]
)
def test_a_running_run_refuses_what_it_has_done(event: Event, code: str) -> None:
    """Continue and resume are refused while the run is running."""
    assert run_with("a").refused(event).code == code


@pytest.mark.mission("TSK-S", "ENG-13")
@pytest.mark.parametrize("chart", [TaskProcess, TaskRun, WorkflowRun])
def test_the_chart_passes_its_check(chart: type[Statechart]) -> None:
    """The checker looks at every configuration and finds nothing that is not accepted with a reason."""
    report = check(chart)
    assert (report.findings, report.complete) == ((), True)
