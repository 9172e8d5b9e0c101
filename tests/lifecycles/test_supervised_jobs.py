"""Jobs step through the rules, refusals and recoveries of their tables."""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from typing import Any

import pytest

from headway.lifecycles.supervision.chart import Job, Supervisor, Worker
from headway.statechart.effects import SpawnChild, StoreRecord, WriteLog
from headway.statechart.snapshot import Event, person, work_lost
from tests.lifecycles.world import World

HAND = person("hand", "worker")
USER = person("ann", "user")


def world_with(workers: int = 10, capacity: int = 1) -> World:
    """A supervisor, and workers on duty."""
    world = World(Job, Worker, Supervisor)
    world.create(Supervisor, "boss")
    for number in range(workers):
        world.create(Worker, f"w{number}", supervisor="boss", capacity=capacity)
        world.send(Worker.start_task({}), f"w{number}")
    return world


def submit(world: World, name: str = "it", **context: Any) -> None:
    """A new job, which has been validated."""
    world.create(Job, name, **{"task_description": "count to ten", "supervisor": "boss", **context})
    world.send(Job.validate(), name)


def job_in(state: str, **context: Any) -> World:
    """A job that has come to a state by its events."""
    waits = state in {"SUBMITTED", "PENDING", "CANCELED"}
    world = world_with(0 if waits else 10)
    world.create(Job, **{"task_description": "count to ten", "supervisor": "boss", **context})
    for event in JOB_PATHS[state]:
        world.send(event)
    assert world.status() == state
    return world


def workers_of(world: World, job: str = "it") -> list[str]:
    """Who works for a job."""
    return list(world.of[job].context["workers"].values())


ALLOCATE = Job.allocate_resources({"workers": ["w0"]})
JOB_PATHS: dict[str, list[Event]] = {
    "SUBMITTED": [],
    "PENDING": [Job.validate()],
    "RUNNING": [Job.validate()],
    "COMPLETED": [Job.validate(), Job.success({"result": 10}, by=HAND)],
    "FAILED": [Job.validate(), Job.error({"code": "E1"}, by=HAND)],
    "CANCELED": [Job.cancel(by=USER)],
}


@pytest.mark.mission("SUP-J")
@pytest.mark.parametrize("state", JOB_PATHS)
def test_a_job_reaches_each_state(state: str) -> None:
    """Each of the six states is reached by the document's events; the ends are final and carry their time."""
    job = job_in(state).of["it"]
    assert job.ended == (state in {"COMPLETED", "FAILED", "CANCELED"})
    assert (job.context["completed_at"] is not None) == job.ended
    assert set(Job.chart.nodes) == set(JOB_PATHS)


@pytest.mark.mission("SUP-J")
@pytest.mark.parametrize(
    ("state", "event", "code"),
    [
        ("SUBMITTED", ALLOCATE, "illegal"),
        ("SUBMITTED", Job.success({}), "illegal"),
        ("PENDING", Job.validate(), "already"),
        ("PENDING", Job.success({}), "illegal"),
        ("COMPLETED", ALLOCATE, "terminal"),
        ("COMPLETED", Job.cancel(), "terminal"),
        ("FAILED", ALLOCATE, "terminal"),
        ("CANCELED", ALLOCATE, "terminal"),
        ("CANCELED", Job.cancel(), "already"),
    ],
)
def test_forbidden_pairs_of_a_job(state: str, event: Event, code: str) -> None:
    """A job cannot skip PENDING, and an ended job takes nothing any more."""
    assert job_in(state).refused(event).code == code


RUNNING_TAKES = {"success", "error", "cancel", "worker_crash", "delegate"}


@pytest.mark.mission("SUP-J")
@pytest.mark.parametrize(
    ("state", "allowed"),
    [
        ("SUBMITTED", {"cancel"}),
        ("PENDING", {"cancel"}),
        ("RUNNING", RUNNING_TAKES),
        ("FAILED", set()),
    ],
)
def test_a_refusal_names_what_a_job_allows(state: str, allowed: set[str]) -> None:
    """Whoever asks for what is not possible learns what is; what only the engine sends is not named."""
    refusal = job_in(state).refused(Event("pause"))
    assert (refusal.code, {each.event for each in refusal.allowed}) == ("unknown_event", allowed)


@pytest.mark.mission("SUP-J", "SUP-R")
@pytest.mark.parametrize("state", ["SUBMITTED", "PENDING", "RUNNING"])
@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_every_live_job_is_canceled_by_hand_or_by_time(state: str, how: str) -> None:
    """Cancel works from SUBMITTED too, and the job's time runs on through waiting and running."""
    world = job_in(state, timeout_seconds=60)
    if how == "cancel":
        world.send(Job.cancel(by=USER))
    else:
        world.pass_time(59)
        assert world.status() == state
        world.pass_time(2)
    assert world.status() == "CANCELED"
    error = {"cancel": None, "timeout": "timeout: the job took longer than 60 s"}[how]
    assert world.of["it"].context["error"] == error


@pytest.mark.mission("SUP-J")
def test_a_valid_job_is_stored_and_given_to_workers() -> None:
    """Validation stores the job; as many workers as it wants get their part of it, each another one."""
    world = job_in("RUNNING", worker_count=3)
    (stored,) = world.found(StoreRecord)
    assert (stored.kind, stored.key) == ("job", "it")
    assert len(set(workers_of(world))) == 3
    parts = [world.of[worker].context["tasks"] for worker in workers_of(world)]
    assert [(part["number"], part["of"], part["job"]) for (part,) in parts] == [
        (number, 3, "it") for number in range(3)
    ]


@pytest.mark.mission("SUP-J")
def test_a_job_succeeds_when_all_its_parts_are_done() -> None:
    """The last worker to finish completes the job, whose result is that of all parts in their order."""
    world = job_in("RUNNING", worker_count=2)
    first, second = workers_of(world)
    world.done(second, result="b")
    assert world.status() == "RUNNING"
    world.done(first, result="a")
    assert (world.status(), world.of["it"].context["result"]) == ("COMPLETED", ["a", "b"])
    assert world.of["boss"].context["hands"][first]["tasks"] == []


@pytest.mark.mission("SUP-J")
@pytest.mark.parametrize(
    "end", [Job.success({"result": 1}, by=HAND), Job.error({"code": "E1"}, by=HAND), Job.cancel(by=USER)]
)
def test_the_end_of_a_job_releases_its_workers(end: Event) -> None:
    """Whatever ends a running job: its workers drop it and have room for others."""
    world = job_in("RUNNING", worker_count=2)
    workers = workers_of(world)
    world.send(end)
    assert [world.of[worker].context["tasks"] for worker in workers] == [[], []]
    assert all(not hand["tasks"] for hand in world.of["boss"].context["hands"].values())


@pytest.mark.mission("SUP-JX", "SUP-R")
@pytest.mark.parametrize(
    ("context", "problem"),
    [
        ({"depth": -1, "parent_job_id": "j"}, "depth is 0 to 5"),
        ({"depth": 6, "parent_job_id": "j"}, "depth is 0 to 5"),
        ({"depth": 1}, "parent job"),
        ({"worker_count": 0}, "worker_count is 1 to 10"),
        ({"worker_count": 11}, "worker_count is 1 to 10"),
        ({"task_description": " "}, "task description"),
        ({"task_description": "x" * 89_999}, "at most 90,000 bytes"),
    ],
)
def test_an_invalid_job_fails_at_once(context: dict[str, Any], problem: str) -> None:
    """A validation error takes a submitted job to FAILED and says what is wrong."""
    world = job_in("SUBMITTED", **context)
    world.send(Job.validate())
    assert world.status() == "FAILED"
    assert problem in world.of["it"].context["error"]


@pytest.mark.mission("SUP-JX")
@pytest.mark.parametrize(
    "context",
    [
        {"depth": 5, "parent_job_id": "j"},
        {"worker_count": 10},
        {"worker_count": 1},
        {"task_description": "x" * 89_998},
    ],
)
def test_the_limits_themselves_are_valid(context: dict[str, Any]) -> None:
    """Depth 5 and ten workers are allowed."""
    job_in("RUNNING", **context)


@pytest.mark.mission("SUP-JX", "ENG-12")
def test_canceling_a_job_cancels_its_children_all_the_way_down() -> None:
    """Sub-jobs are canceled, theirs too, and no worker is left with any of them."""
    world = job_in("RUNNING")
    delegate = Job.delegate({"task_description": "a part"}, by=HAND)
    chain = ["it"]
    for _ in range(2):
        world.send(delegate, chain[-1])
        chain.append(world.children(chain[-1])[-1])
        world.send(Job.validate(), chain[-1])
    assert {world.status(job) for job in chain} == {"RUNNING"}
    world.send(Job.cancel(by=USER))
    assert {world.status(job) for job in chain} == {"CANCELED"}
    assert all(not world.of[f"w{number}"].context["tasks"] for number in range(10))
    assert [world.of[job].depth for job in chain] == [0, 1, 2]


@pytest.mark.mission("SUP-JX", "ENG-12")
def test_the_deepest_job_has_no_sub_jobs() -> None:
    """A job at depth 5 runs, but hands nothing down."""
    world = job_in("RUNNING", depth=5, parent_job_id="j_above")
    refusal = world.refused(Job.delegate({"task_description": "too deep"}, by=HAND))
    assert (refusal.code, "depth 5" in refusal.message) == ("guard", True)


@pytest.mark.mission("SUP-R")
def test_a_crashed_worker_is_replaced_while_the_job_runs_on() -> None:
    """Each crash brings a new worker that is at the job; after the last replacement a crash fails the job."""
    world = world_with(1)
    submit(world)
    for crash in range(3):
        (worker,) = workers_of(world)
        world.failed("crashed", worker)
        (other,) = workers_of(world)
        assert (world.status(worker), world.status(other), world.status()) == ("FAILED", "RUNNING", "RUNNING")
        assert len(world.found(SpawnChild)) == crash + 1
        assert world.of[other].context["stands_in_for"] == worker
        assert [task["job"] for task in world.of[other].context["tasks"]] == ["it"]
    world.failed("crashed", workers_of(world)[0])
    assert world.status() == "FAILED"
    assert "worker_crash" in world.of["it"].context["error"]
    assert world.of["boss"].context["orphans"] == []


@pytest.mark.mission("SUP-R")
def test_a_lost_host_is_no_crash_of_the_worker() -> None:
    """A worker whose host is lost 20 times goes on with its task, and its job has counted no crash."""
    world = world_with(1)
    submit(world)
    for _ in range(20):
        lose_host(world, "w0")
    assert (world.status("w0"), world.status(), workers_of(world)) == ("RUNNING", "RUNNING", ["w0"])
    assert world.of["it"].counters.get("crashes", 0) == 0
    for _ in range(3):
        world.failed("network_error", "w0")
    assert world.status("w0") == "RUNNING"


@pytest.mark.mission("SUP-R")
def test_a_task_that_loses_its_host_again_and_again_fails_its_job() -> None:
    """The 21st loss fails the job with a code that says so; the worker is replaced, but not for that task."""
    world = world_with(1)
    submit(world)
    for _ in range(21):
        lose_host(world, "w0")
    assert (world.status("w0"), world.status()) == ("FAILED", "FAILED")
    error = "host_lost: its host was lost 21 times, at most 20 are allowed"
    assert world.of["it"].context["error"] == error
    (other,) = [name for name, each in world.of.items() if each.context.get("stands_in_for") == "w0"]
    assert (world.status(other), world.of[other].context["tasks"]) == ("RUNNING", [])


@pytest.mark.mission("SUP-R")
def test_a_validation_survives_the_loss_of_its_host() -> None:
    """A job whose validation lost its host is validated by the next attempt."""
    world = job_in("SUBMITTED")
    lose_host(world)
    assert (world.status(), world.of["it"].work["SUBMITTED"].attempt) == ("SUBMITTED", 2)


def lose_host(world: World, name: str = "it") -> None:
    """Kill the host of the open work of an instance."""
    (work,) = world.of[name].work.values()
    world.send(work_lost(work.id, work.attempt), name)


@pytest.mark.mission("SUP-R")
@pytest.mark.parametrize("code", ["crashed", "unrecoverable"])
def test_who_stands_in_is_of_the_same_kind(code: str) -> None:
    """A replacement has the places of the one that failed, and its supervisor as much patience with it."""
    kind: dict[str, Any] = {"capacity": 3, "supervisor_timeout_seconds": 60.0, "metadata": {"rack": 7}}
    world = world_with(0)
    world.create(Worker, "w0", supervisor="boss", **kind)
    world.send(Worker.start_task({}), "w0")
    submit(world)
    world.failed(code, "w0")
    (other,) = [each.context for each in world.of.values() if each.context.get("stands_in_for") == "w0"]
    assert {name: other[name] for name in kind} == kind


@pytest.mark.mission("SUP-R")
def test_an_error_of_the_task_fails_the_job_and_the_worker_is_replaced() -> None:
    """An unrecoverable error ends worker and job; its other tasks are done by the one in its place."""
    world = world_with(1, capacity=2)
    submit(world, "bad")
    submit(world, "good")
    world.failed("unrecoverable", "w0", message="out of ideas")
    assert [world.status(name) for name in ("w0", "bad", "good")] == ["FAILED", "FAILED", "RUNNING"]
    assert world.of["bad"].context["error"] == "unrecoverable: out of ideas"
    (other,) = workers_of(world, "good")
    assert [task["job"] for task in world.of[other].context["tasks"]] == ["good"]
    world.done(other)
    assert world.status("good") == "COMPLETED"


@pytest.mark.mission("SUP-R", "SUP-RUN")
def test_a_job_without_resources_waits_until_there_are_some() -> None:
    """Without free workers a job stays PENDING, and runs with the worker that makes up the number."""
    world = world_with(1)
    submit(world, worker_count=2)
    few = Job.allocate_resources({"workers": ["w0"]})
    assert "2 workers are needed, 1 are free" in world.refused(few).message
    assert world.status() == "PENDING"
    world.create(Worker, "w1", supervisor="boss")
    assert world.status() == "PENDING"
    world.send(Worker.start_task({}), "w1")
    assert world.status() == "RUNNING"


@pytest.mark.mission("SUP-RUN")
def test_jobs_get_workers_in_their_order() -> None:
    """A worker has no more tasks than places; a free place goes to the job that has waited longest."""
    world = world_with(2, capacity=2)
    for number in range(6):
        submit(world, f"j{number}")
    states = [world.status(f"j{number}") for number in range(6)]
    assert states == ["RUNNING"] * 4 + ["PENDING"] * 2
    assert [len(world.of[name].context["tasks"]) for name in ("w0", "w1")] == [2, 2]
    world.done("w1")
    assert (world.status("j4"), world.status("j5")) == ("RUNNING", "PENDING")


@pytest.mark.mission("SUP-RUN")
def test_a_job_that_needs_many_does_not_keep_others_waiting() -> None:
    """A job for which there are too few workers is passed over, and keeps its place in the row."""
    world = world_with(1)
    submit(world, "large", worker_count=2)
    submit(world, "small")
    assert (world.status("large"), world.status("small")) == ("PENDING", "RUNNING")


@pytest.mark.mission("SUP-RUN")
def test_a_job_costs_no_more_calls_when_thousands_wait() -> None:
    """What the supervisor does for one more job does not go through those that wait before it."""

    def calls(waiting: int) -> int:
        world = World(Job, Worker, Supervisor)
        world.create(Supervisor, "boss", waiting={f"j{number}": 1 for number in range(waiting)})
        profile = cProfile.Profile()
        profile.runcall(world.send, Supervisor.job_waits({"job": "it", "count": 1}), "boss")
        assert [*world.of["boss"].context["waiting"]][-1] == "it"
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(2_000) < 2 * calls(20)


@pytest.mark.mission("SUP-RUN")
@pytest.mark.parametrize("event", ["pause", "terminate"])
def test_a_worker_that_is_away_gets_nothing(event: str) -> None:
    """Nobody is allocated a worker that is paused or gone, and a paused one keeps its tasks."""
    world = world_with(1, capacity=2)
    submit(world, "first")
    world.send(Event(event), "w0")
    submit(world, "second")
    assert (world.status("first"), world.status("second")) == ("RUNNING", "PENDING")
    if event == "pause":
        world.send(Worker.resume(), "w0")
        assert [task["job"] for task in world.of["w0"].context["tasks"]] == ["first", "second"]
    else:
        assert world.of["boss"].context["orphans"] == ["first#0"]


@pytest.mark.mission("SUP-R", "SUP-RUN")
@pytest.mark.parametrize("busy", [True, False])
def test_a_worker_on_duty_outlasts_its_patience(busy: bool) -> None:  # noqa: FBT001 - a case
    """A task of a day, and a day without any, end no worker: its supervisor answers when it asks."""
    world = world_with(1)
    if busy:
        submit(world, timeout_seconds=200_000)
    world.pass_time(86_400)
    assert world.status("w0") == "RUNNING"
    assert not busy or workers_of(world) == ["w0"]


@pytest.mark.mission("SUP-R")
def test_a_paused_worker_waits_for_a_person_and_its_task_goes_on_elsewhere() -> None:
    """Nobody answers for who has to resume it: after its patience it ends, and another takes over."""
    world = world_with(2)
    submit(world, timeout_seconds=200_000)
    (worker,) = workers_of(world)
    world.send(safe_point(5), worker)
    world.send(Worker.pause(), worker)
    world.pass_time(3_601)
    (other,) = workers_of(world)
    assert (world.status(worker), world.status(other), other != worker) == ("TERMINATED", "RUNNING", True)
    assert reached(world, other) == 5


def safe_point(value: int, task: str = "it#0") -> Event:
    """A task has come to a safe point."""
    return Worker.safe_point({"task": task, "reached": value})


def reached(world: World, worker: str) -> Any:
    """From where a worker goes on with its task."""
    return world.of[worker].context["tasks"][0]["reached"]


@pytest.mark.mission("SUP-R", "SUP-RUN")
@pytest.mark.parametrize("how", ["terminate", "crashed"])
def test_a_task_goes_on_from_the_safe_point_that_its_worker_has_carried(how: str) -> None:
    """However a worker ends, the next one begins where it was; and so does the one after that."""
    world = world_with(3)
    submit(world)
    for point in (5, None):
        (worker,) = workers_of(world)
        if point is not None:
            world.send(safe_point(point), worker)
        if how == "terminate":
            world.send(Worker.terminate(), worker)
        else:
            world.failed(how, worker)
        (other,) = workers_of(world)
        assert (reached(world, other), other != worker) == (5, True)


@pytest.mark.mission("SUP-R")
def test_exhaustion_forgets_no_safe_point() -> None:
    """A worker that lacks resources before its first new safe point keeps the one it began with."""
    world = world_with(1)
    submit(world)
    world.send(safe_point(5), "w0")
    world.failed("resources_exhausted", "w0")
    assert (world.status("w0"), reached(world, "w0")) == ("PAUSED", 5)


@pytest.mark.mission("SUP-RUN")
def test_the_tasks_of_a_terminated_worker_go_to_others() -> None:
    """A job whose worker is taken away stays RUNNING and goes on with the next that is free."""
    world = world_with(1)
    submit(world)
    world.send(Worker.terminate(), "w0")
    assert world.status() == "RUNNING"
    world.create(Worker, "w1", supervisor="boss")
    world.send(Worker.start_task({}), "w1")
    assert workers_of(world) == ["w1"]
    world.done("w1")
    assert world.status() == "COMPLETED"


@pytest.mark.mission("SUP-J")
def test_a_canceled_job_is_not_given_workers() -> None:
    """Who waits no longer is forgotten."""
    world = world_with(0)
    submit(world)
    world.send(Job.cancel(by=USER))
    world.create(Worker, "w1", supervisor="boss")
    world.send(Worker.start_task({}), "w1")
    assert world.of["w1"].context["tasks"] == []
    assert world.of["boss"].context["waiting"] == {}


@pytest.mark.mission("SUP-J")
@pytest.mark.parametrize("event", [Job.cancel, Job.success, Job.error])
def test_a_job_knows_its_actors(event: Callable[..., Event]) -> None:
    """Who has no part in a job can neither end nor cancel it."""
    data = {"code": "E1"} if event is Job.error else {}
    assert job_in("RUNNING").refused(event(data, by=person("eve", "visitor"))).code == "actor"


@pytest.mark.mission("SUP-JX", "ENG-12")
@pytest.mark.parametrize(
    ("end", "child"),
    [
        (Job.error({"code": "E1"}, by=HAND), "CANCELED"),
        (Job.cancel(by=USER), "CANCELED"),
        (Job.success({"result": 1}, by=HAND), "RUNNING"),
    ],
)
def test_what_becomes_of_sub_jobs_when_their_parent_ends(end: Event, child: str) -> None:
    """Nobody wants the sub-jobs of a job that failed or was canceled; those of a completed one go on."""
    world = job_in("RUNNING")
    world.send(Job.delegate({"task_description": "a part"}, by=HAND))
    (below,) = world.children()
    world.send(Job.validate(), below)
    world.send(end)
    assert world.status(below) == child


@pytest.mark.mission("SUP-R")
def test_a_validation_that_does_not_end_is_logged() -> None:
    """A job whose validation fails as work is FAILED, and its error stands in the log."""
    world = job_in("SUBMITTED")
    world.failed("lost")
    assert (world.status(), world.found(WriteLog)[-1].data) == (
        "FAILED",
        "not_validated: the validation did not end",
    )


DISMISS = Supervisor.dismiss(by=person("ada", "admin"))


@pytest.mark.mission("SUP-W", "SUP-J")
def test_a_supervisor_that_dismisses_leaves_nobody_behind() -> None:
    """Its workers are terminated; jobs that run on them or wait for one are canceled; all are forgotten."""
    world = world_with(2)
    for name, wanted in (("runs", 1), ("waits", 2)):
        submit(world, name, worker_count=wanted)
    assert world.refused(Supervisor.dismiss(by=USER), "boss").code == "actor"
    world.send(DISMISS, "boss")
    assert [world.status(name) for name in ("w0", "w1")] == ["TERMINATED"] * 2
    assert [world.status(name) for name in ("runs", "waits")] == ["CANCELED"] * 2
    known = world.of["boss"].context
    assert (known["hands"], known["waiting"], known["orphans"]) == ({}, {}, [])


@pytest.mark.mission("SUP-RUN", "SUP-J")
def test_who_is_heard_of_only_after_the_dismissal_is_served() -> None:
    """A worker that was IDLE and a job that was SUBMITTED find their supervisor, and each other."""
    world = world_with(1)
    world.create(Worker, "idle", supervisor="boss")
    world.create(Job, task_description="count to ten", supervisor="boss")
    world.send(DISMISS, "boss")
    assert [world.status(name) for name in ("w0", "idle", "it")] == ["TERMINATED", "IDLE", "SUBMITTED"]
    world.send(Job.validate())
    world.send(Worker.start_task({}), "idle")
    assert (world.status(), workers_of(world)) == ("RUNNING", ["idle"])


@pytest.mark.mission("SUP-R")
def test_a_worker_with_a_task_of_its_own_outlasts_the_dismissal() -> None:
    """It takes nothing from jobs, so it goes on, and its supervisor has a word for it whenever it asks."""
    world = world_with(0)
    world.create(Worker, "own", supervisor="boss")
    world.send(Worker.start_task({"tasks": ["t"]}), "own")
    world.send(DISMISS, "boss")
    world.pass_time(86_400)
    assert world.status("own") == "RUNNING"


@pytest.mark.mission("SUP-R")
def test_nobody_stands_in_for_a_worker_that_fails_while_it_is_dismissed() -> None:
    """That a worker has failed may be heard after it was dismissed: it is not replaced."""
    world = world_with(1)
    world.send(DISMISS, "boss")
    world.send(Supervisor.worker_gone({"worker": "w0", "failed": True}), "boss")
    assert not world.found(SpawnChild)
