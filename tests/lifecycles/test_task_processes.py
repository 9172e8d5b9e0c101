"""Processes: the status computed from timestamps, methods, errors and retries."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from headway.clock import time_text
from headway.codec import replace
from headway.lifecycles.task_runs.chart import TaskProcess, TaskRun, WorkflowRun
from headway.lifecycles.task_runs.rules import PERMANENT, RETRYABLE
from headway.statechart.effects import SetTimer, StartWork
from headway.statechart.snapshot import Event, child_changed, work_lost
from headway.statechart.step.step import Step, start, status_of, step
from tests.lifecycles.processes import go
from tests.lifecycles.world import BEGIN, World

AT = time_text(BEGIN)
TIMES = ("started_at", "completed_at", "failed_at", "stopped_at", "incomplete_at", "timeout_at")
STATUSES = ("Pending", "Running", "Completed", "Failed", "Stopped", "Timeout", "Incomplete")


def status_of_process(facts: dict[str, bool], restarts: int, limit: int) -> str:
    """The document's computeStatus(), written down once more."""
    if facts["stopped_at"]:
        return "Stopped"
    if facts["failed_at"]:
        return "Failed"
    if facts["incomplete_at"] or facts["timeout_at"]:
        if restarts >= limit:
            return "Failed"
        return "Incomplete" if facts["incomplete_at"] else "Timeout"
    if not facts["started_at"]:
        return "Pending"
    return "Completed" if facts["completed_at"] else "Running"


@pytest.mark.mission("TSK-S", "ENG-13")
@pytest.mark.parametrize("restarts", [0, 2, 3, 4])
@pytest.mark.parametrize(
    "facts",
    list(product([False, True], repeat=len(TIMES))),
    ids=lambda bits: "".join(map(str, map(int, bits))),
)
def test_a_process_status_is_computed_from_timestamps(facts: tuple[bool, ...], restarts: int) -> None:
    """For every combination of timestamps and retries the status is the one the document's order gives."""
    known = dict(zip(TIMES, facts, strict=True))
    begun = start(TaskProcess, now=BEGIN, context={"max_retries": 3})
    assert isinstance(begun, Step)
    stored = {**begun.snapshot.context, **{name: AT if is_set else None for name, is_set in known.items()}}
    before = replace(begun.snapshot, context=stored, counters={"restart_count": restarts})
    # A report that changes nothing makes the status be computed anew.
    after = step(
        TaskProcess, replace(before, children={"Running": 1}), child_changed("c", "Running", "Running"), BEGIN
    )
    assert isinstance(after, Step)
    assert status_of(TaskProcess, after.snapshot.states) == status_of_process(known, restarts, 3)


@pytest.mark.mission("TSK-S")
def test_the_statuses_are_those_of_the_document() -> None:
    """A process has seven statuses and a mark for being deleted, a run has six, eight names in all."""
    process = {node.id for node in TaskProcess.chart.root.children} - {"Deleted"}
    run = {node.id for node in TaskRun.chart.root.children}
    assert process == set(STATUSES)
    assert run == {"Pending", "Running", "Completed", "Failed", "Stopped", "Skipped"}
    assert len(process | run) == 8


@pytest.mark.mission("ENG-13")
@pytest.mark.parametrize("chart", [TaskProcess, WorkflowRun])
def test_no_event_assigns_a_status(chart: type[Any]) -> None:
    """Events set and clear facts; none of them names the status to go to."""
    statuses = {node.id for node in chart.chart.root.children}
    assert not [row.name for row in chart.chart.model.transitions if statuses & {*row.targets}]


def process(**context: Any) -> World:
    """One process on its own."""
    world = World(TaskProcess)
    world.create(TaskProcess, **context)
    return world


PROCESS_PATHS: dict[str, list[str]] = {
    "Pending": [],
    "Running": ["run"],
    "Completed": ["run", "done"],
    "Failed": ["run", "refused"],
    "Stopped": ["run", "stop"],
    "Timeout": ["run", "timeout"],
    "Incomplete": ["run", "network_error"],
}


def process_in(status: str) -> World:
    """A process that has come to a status."""
    world = process()
    go(world, *PROCESS_PATHS[status])
    assert world.status() == status
    return world


METHODS = {
    "run": ({"Pending"}, "Running", "started_at"),
    "complete": ({"Running"}, "Completed", "completed_at"),
    "stop": (set(STATUSES) - {"Stopped"}, "Stopped", "stopped_at"),
    "restart": ({"Timeout", "Incomplete"}, "Pending", None),
    "resume": ({"Stopped"}, "Pending", None),
}


@pytest.mark.mission("TSK-M")
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("method", METHODS)
def test_each_method_of_a_process_has_its_precondition_and_result(method: str, status: str) -> None:
    """A method works from the statuses of its row alone, lands where it says and sets its timestamp."""
    sources, lands, stamp = METHODS[method]
    world = process_in(status)
    if status not in sources:
        before = world.of["it"]
        assert world.refused(Event(method)).code in {"illegal", "already"}
        assert world.of["it"] == before
        return
    world.send(Event(method))
    assert world.status() == lands
    set_now = {name for name in TIMES if world.of["it"].context[name] is not None}
    assert set_now >= {stamp} if stamp else not set_now


@pytest.mark.mission("TSK-F2", "TSK-EDGE", "TSK-ERR")
@pytest.mark.parametrize(
    ("code", "lands"),
    [
        *((code, "Incomplete") for code in RETRYABLE),
        *((code, "Failed") for code in PERMANENT),
        ("other", "Failed"),
    ],
)
def test_a_retryable_error_is_told_from_a_permanent_one(code: str, lands: str) -> None:
    """A retryable error leaves the process incomplete, any other fails it; both are counted."""
    world = process_in("Running")
    world.failed(code)
    assert (world.status(), world.of["it"].counters["errors"]) == (lands, 1)


@pytest.mark.mission("TSK-F2", "TSK-ERR")
def test_a_lost_host_uses_up_no_retries() -> None:
    """A process without retries goes on after 20 lost hosts, without an error; the 21st fails it."""
    world = process(max_retries=0)
    go(world, "run")
    for _ in range(20):
        lose_host(world)
    lost = world.of["it"]
    assert (world.status(), lost.counters.get("errors", 0)) == ("Running", 0)
    assert lost.counters.get("restart_count", 0) == 0
    lose_host(world)
    error = "host_lost: its host was lost 21 times, at most 20 are allowed"
    assert (world.status(), world.of["it"].context["error"]) == ("Failed", error)


def lose_host(world: World) -> None:
    """Kill the host of the process."""
    (work,) = world.of["it"].work.values()
    world.send(work_lost(work.id, work.attempt))


@pytest.mark.mission("TSK-F3", "TSK-S")
@pytest.mark.parametrize("trouble", ["timeout", "network_error"])
def test_a_process_starts_over_until_its_retries_are_used_up(trouble: str) -> None:
    """It is pending again and picked up by itself; the last time it computes to Failed."""
    world = process(max_retries=2)
    go(world, "run")
    for retry in (1, 2):
        go(world, trouble)
        assert world.status() in {"Timeout", "Incomplete"}
        world.pass_time(1)
        assert world.status() == "Pending"
        assert world.of["it"].counters["restart_count"] == retry
        world.pass_time(1)
        assert world.status() == "Running"
    go(world, trouble)
    assert world.status() == "Failed"
    assert world.of["it"].context["timeout_at" if trouble == "timeout" else "incomplete_at"]
    assert world.of["it"].counters["errors"] == 3


@pytest.mark.mission("TSK-M")
def test_a_resumed_process_runs_again_by_itself() -> None:
    """A process stopped while running is pending after resume, not running, until it is picked up."""
    world = process_in("Stopped")
    go(world, "resume")
    assert world.status() == "Pending"
    world.pass_time(1)
    assert world.status() == "Running"


@pytest.mark.mission("TSK-F3")
def test_a_process_that_hangs_is_halted_in_any_case() -> None:
    """Beside its own limit, which its worker keeps, the work has one that the engine keeps."""
    world = process_in("Running")
    assert [work.timeout for work in world.found(StartWork)] == [24 * 3_600_000]


@pytest.mark.mission("TSK-M")
def test_a_process_that_is_created_as_started_is_never_pending() -> None:
    """Created by a running run it runs from its first step; started over, it waits its turn as any other."""
    world = process(started_at=AT, dispatched=True)
    assert (world.status(), len(world.found(SetTimer))) == ("Running", 0)
    go(world, "network_error")
    world.pass_time(1)
    assert world.status() == "Pending"
