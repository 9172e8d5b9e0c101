"""Workers step through the rules, refusals and recoveries of their tables."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.lifecycles.supervision.chart import Job, Supervisor, Worker
from headway.statechart.authoring.statechart import Statechart
from headway.statechart.check.check import check
from headway.statechart.effects import CancelWork, Deliver, StartWork, WriteLog
from headway.statechart.snapshot import Event, person, timer_fired, work_done
from tests.lifecycles.world import World

BOSS = person("boss", "supervisor")
HAND = person("hand", "worker")
USER = person("ann", "user")

START = Worker.start_task({"tasks": ["t1", "t2"]}, by=BOSS)
PAUSE, RESUME, TERMINATE = Worker.pause(by=BOSS), Worker.resume(by=BOSS), Worker.terminate(by=BOSS)
COMPLETE = Worker.complete_tasks(by=HAND)
BREAK = Worker.error_unrecoverable({"code": "unrecoverable", "message": "out of ideas"}, by=HAND)
ON_DUTY = Worker.start_task({}, by=BOSS)

WORKER_PATHS: dict[str, list[Event]] = {
    "IDLE": [],
    "RUNNING": [START],
    "PAUSED": [START, PAUSE],
    "COMPLETED": [ON_DUTY, COMPLETE],
    "FAILED": [START, BREAK],
    "TERMINATED": [TERMINATE],
}


def worker_in(state: str) -> World:
    """A worker that has come to a state by its events."""
    world = World(Worker)
    world.create(Worker, capacity=2)
    for event in WORKER_PATHS[state]:
        world.send(event)
    assert world.status() == state
    return world


@pytest.mark.mission("SUP-W")
@pytest.mark.parametrize("state", WORKER_PATHS)
def test_a_worker_reaches_each_state(state: str) -> None:
    """Each of the six states is reached by the document's events, and exactly three of them are final."""
    ended = worker_in(state).of["it"].ended
    assert ended == (state in {"COMPLETED", "FAILED", "TERMINATED"})
    assert set(Worker.chart.nodes) == set(WORKER_PATHS)


@pytest.mark.mission("SUP-W")
@pytest.mark.parametrize("state", ["IDLE", "RUNNING", "PAUSED"])
def test_terminate_from_every_live_state(state: str) -> None:
    """A supervisor ends a worker wherever it stands, and its work with it."""
    world = worker_in(state)
    world.send(TERMINATE)
    assert world.status() == "TERMINATED"
    assert len(world.found(CancelWork)) == len(world.found(StartWork))


@pytest.mark.mission("SUP-W")
def test_pause_stops_the_work_and_resume_starts_it_again() -> None:
    """A paused worker has no work open; resumed, it gets a new one and the old can finish nothing."""
    world = worker_in("RUNNING")
    (old,) = world.of["it"].work.values()
    world.send(PAUSE)
    assert not world.of["it"].work
    world.send(RESUME)
    (new,) = world.of["it"].work.values()
    assert new.id != old.id
    assert world.refused(work_done(old.id, 1)).code == "stale"


FORBIDDEN = [
    ("IDLE", PAUSE, "illegal"),
    ("IDLE", COMPLETE, "illegal"),
    ("IDLE", RESUME, "illegal"),
    ("COMPLETED", START, "terminal"),
    ("COMPLETED", RESUME, "terminal"),
    ("COMPLETED", PAUSE, "terminal"),
    ("COMPLETED", TERMINATE, "terminal"),
    ("FAILED", START, "terminal"),
    ("FAILED", RESUME, "terminal"),
    ("FAILED", TERMINATE, "terminal"),
    ("TERMINATED", START, "terminal"),
    ("TERMINATED", PAUSE, "terminal"),
    ("TERMINATED", RESUME, "terminal"),
    ("TERMINATED", COMPLETE, "terminal"),
    ("TERMINATED", BREAK, "terminal"),
    ("RUNNING", START, "already"),
    ("RUNNING", RESUME, "already"),
    ("PAUSED", PAUSE, "already"),
    ("PAUSED", COMPLETE, "illegal"),
    ("COMPLETED", COMPLETE, "already"),
    ("FAILED", BREAK, "already"),
    ("TERMINATED", TERMINATE, "already"),
]


@pytest.mark.mission("SUP-WX")
@pytest.mark.parametrize(
    ("state", "event", "code"), FORBIDDEN, ids=lambda value: getattr(value, "name", str(value))
)
def test_forbidden_pairs_of_a_worker(state: str, event: Event, code: str) -> None:
    """A forbidden pair changes nothing, says if it is illegal, repeated or too late, and what is allowed."""
    world = worker_in(state)
    before = world.of["it"]
    refusal = world.refused(event)
    assert (refusal.code, refusal.states) == (code, (state,))
    assert {allowed.event for allowed in refusal.allowed} == ALLOWED.get(state, set())
    assert world.of["it"] == before


ALLOWED = {
    "IDLE": {"start_task", "terminate", "keep_alive"},
    "RUNNING": {
        *("pause", "complete_tasks", "error_unrecoverable", "terminate", "keep_alive"),
    },
    "PAUSED": {"resume", "terminate", "keep_alive"},
}


@pytest.mark.mission("SUP-W")
@pytest.mark.parametrize(
    ("state", "event", "code", "reason"),
    [
        ("IDLE", Worker.start_task({"tasks": []}, by=BOSS), "guard", "no task is assigned"),
        ("IDLE", Worker.start_task({"tasks": ["a", "b", "c"]}, by=BOSS), "guard", "capacity of 2"),
        ("IDLE", Worker.start_task({"tasks": ["a", "a"]}, by=BOSS), "guard", "assigned twice"),
        ("IDLE", Worker.start_task({"tasks": "a"}, by=BOSS), "payload", "tasks"),
        ("RUNNING", COMPLETE, "guard", "t1, t2"),
        ("RUNNING", Worker.error_unrecoverable({"code": "network_error"}, by=HAND), "guard", "tried again"),
        ("RUNNING", Worker.pause(by=USER), "actor", "supervisor"),
        ("IDLE", Worker.terminate(by=HAND), "actor", "supervisor"),
    ],
)
def test_a_worker_says_why_not(state: str, event: Event, code: str, reason: str) -> None:
    """Capacity, pending tasks, a retryable error and the wrong actor refuse with their reason."""
    refusal = worker_in(state).refused(event)
    assert refusal.code == code
    assert reason in refusal.message


@pytest.mark.mission("SUP-R")
def test_a_transient_error_is_tried_three_times_and_then_pauses() -> None:
    """Three retries happen inside RUNNING, each later than the one before; the fourth failure pauses."""
    world = worker_in("RUNNING")
    waits = []
    for attempt in (2, 3, 4):
        (again,) = [each for each in world.failed("network_error").effects if isinstance(each, StartWork)]
        assert (world.status(), again.attempt) == ("RUNNING", attempt)
        waits.append(again.due or world.now)
    assert waits == sorted(waits)
    world.failed("network_error", message="no route")
    assert world.status() == "PAUSED"
    assert world.of["it"].context["error"] == "network_error: no route"


@pytest.mark.mission("SUP-R")
@pytest.mark.parametrize(
    ("code", "lands"),
    [
        ("resources_exhausted", "PAUSED"),
        ("unrecoverable", "FAILED"),
        ("crashed", "FAILED"),
        ("host_lost", "FAILED"),
        ("anything", "FAILED"),
    ],
)
def test_recovery_by_the_kind_of_error(code: str, lands: str) -> None:
    """Exhausted resources pause the worker and release its work; any other error fails it and is logged."""
    world = worker_in("RUNNING")
    world.failed(code)
    assert world.status() == lands
    assert not world.of["it"].work
    assert world.found(WriteLog)[-1].data == code


@pytest.mark.mission("SUP-R")
@pytest.mark.parametrize("state", ["IDLE", "RUNNING", "PAUSED"])
def test_a_silent_supervisor_terminates(state: str) -> None:
    """A worker whose supervisor says nothing for its patience is terminated, and not before."""
    world = worker_in(state)
    world.pass_time(3599)
    assert world.status() == state
    world.pass_time(2)
    assert world.status() == "TERMINATED"
    error = "supervisor_timeout: the supervisor was silent for 3600 s"
    assert world.of["it"].context["error"] == error


@pytest.mark.mission("SUP-R")
@pytest.mark.parametrize("state", ["IDLE", "RUNNING", "PAUSED"])
@pytest.mark.parametrize("seconds", [1, 1199, 1200, 3599])
def test_a_word_renews_the_patience_of_a_worker(state: str, seconds: int) -> None:
    """After a word of its supervisor, whenever it comes, a worker waits for its whole patience again."""
    world = worker_in(state)
    world.pass_time(seconds)
    world.send(Worker.keep_alive(by=BOSS))
    world.pass_time(3599)
    assert world.status() == state
    world.pass_time(1201)
    assert world.status() == "TERMINATED"


@pytest.mark.mission("SUP-R")
def test_who_is_no_supervisor_keeps_nobody_alive() -> None:
    """A worker cannot give itself the word, and one that has ended takes none."""
    assert worker_in("RUNNING").refused(Worker.keep_alive(by=HAND)).code == "actor"
    assert worker_in("FAILED").refused(Worker.keep_alive(by=BOSS)).code == "terminal"


@pytest.mark.mission("SUP-R")
def test_a_time_in_which_nothing_ran_is_not_the_silence_of_a_supervisor() -> None:
    """After a standstill of the whole service a worker listens for two more thirds of its patience."""
    world = worker_in("PAUSED")
    world.now += timedelta(hours=10)
    (timer,) = world.of["it"].timers
    world.send(timer_fired(timer))
    world.pass_time(2399)
    assert world.status() == "PAUSED"
    world.pass_time(2)
    assert world.status() == "TERMINATED"


@pytest.mark.mission("SUP-R")
@pytest.mark.parametrize("how", ["safe points", "tasks"])
def test_what_a_worker_does_is_no_word_of_its_supervisor(how: str) -> None:
    """Safe points and tasks that follow each other renew no patience, and keep nobody from asking."""
    tasks = [f"t{number}" for number in range(100)]
    world = World(Worker)
    world.create(Worker, "mute")  # takes no questions
    world.create(Worker, capacity=100, supervisor="mute", supervisor_timeout_seconds=600)
    world.send(Worker.start_task({"tasks": tasks}, by=BOSS))
    for _ in range(9):
        world.pass_time(60)
        if how == "tasks":
            world.done(result=1)
        else:
            world.send(Worker.safe_point({"task": "t0", "reached": 1}))
    assert (world.status(), len(world.found(Deliver))) == ("RUNNING", 2)
    world.pass_time(60)
    assert world.status() == "TERMINATED"


@pytest.mark.mission("SUP-R")
def test_a_worker_listens_once_a_second_at_most() -> None:
    """However short its patience: who listens without rest does nothing else."""
    world = World(Worker)
    world.create(Worker, supervisor_timeout_seconds=0.05)
    world.pass_time(2.9)
    assert (world.status(), world.of["it"].context["unheard"]) == ("IDLE", 2)
    world.pass_time(0.1)
    assert world.status() == "TERMINATED"


@pytest.mark.mission("SUP-W", "SUP-RUN")
def test_a_worker_with_tasks_of_its_own_is_completed_by_the_last() -> None:
    """Tasks are done one after the other, each as work of its own; the last one completes the worker."""
    world = worker_in("RUNNING")
    world.done(result=1)
    assert world.status() == "RUNNING"
    assert [task["id"] for task in world.of["it"].context["tasks"]] == ["t2"]
    world.done(result=2)
    assert (world.status(), world.of["it"].context["tasks"]) == ("COMPLETED", [])
    assert len(world.found(StartWork)) == 2


@pytest.mark.mission("SUP-W", "SUP-RUN")
@pytest.mark.parametrize(("size", "kept"), [(1, 10), (400_000, 2), (1_200_000, 1)])
def test_a_worker_keeps_the_last_results_of_its_own_tasks(size: int, kept: int) -> None:
    """Ten at most, fewer when they are large, and always the newest."""
    world = World(Worker)
    world.create(Worker, capacity=100)
    tasks = [str(number) for number in range(12)]
    world.send(Worker.start_task({"tasks": tasks}, by=BOSS))
    for _ in tasks:
        world.done(result="x" * size)
    assert [each["task"] for each in world.of["it"].context["results"]] == tasks[-kept:]


@pytest.mark.mission("SUP-W", "SUP-RUN")
def test_a_worker_on_duty_takes_tasks_as_they_come() -> None:
    """The first task begins at once, further ones wait their turn, and without any the worker stays there."""
    world = World(Worker)
    world.create(Worker, capacity=2)
    world.send(ON_DUTY)
    world.done()
    assert not world.of["it"].work
    for number in range(2):
        world.send(Worker.assign({"id": f"j#{number}", "description": "count"}))
        assert len(world.of["it"].work) == 1
    assert "j#0, j#1" in world.refused(COMPLETE).message
    world.done(result=1)
    world.done(result=2)
    assert (world.status(), world.of["it"].work) == ("RUNNING", {})
    world.send(COMPLETE)
    assert world.status() == "COMPLETED"


@pytest.mark.mission("SUP-W", "SUP-RUN")
@pytest.mark.parametrize("state", ["RUNNING", "PAUSED"])
def test_what_a_job_takes_back_is_forgotten(state: str) -> None:
    """The task in hand is stopped when its job is over, a task that waits is not begun, others stay."""
    world = World(Worker)
    world.create(Worker, capacity=3)
    world.send(ON_DUTY)
    for name, job in (("a#0", "a"), ("b#0", "b"), ("c#0", "c")):
        world.send(Worker.assign({"id": name, "description": "count", "job": job}))
    if state == "PAUSED":
        world.send(PAUSE)
    before = dict(world.of["it"].work)
    world.send(Worker.drop({"job": "b"}))
    assert world.of["it"].work == before
    world.send(Worker.drop({"job": "a"}))
    assert [task["id"] for task in world.of["it"].context["tasks"]] == ["c#0"]
    assert len(world.of["it"].work) == len(before)
    assert not before or world.of["it"].work != before


@pytest.mark.mission("SUP-W", "SUP-J")
@pytest.mark.parametrize("chart", [Job, Supervisor, Worker])
def test_the_chart_passes_its_check(chart: type[Statechart]) -> None:
    """The checker looks at every configuration and finds nothing that is not accepted with a reason."""
    report = check(chart)
    assert (report.findings, report.complete) == ((), True)
