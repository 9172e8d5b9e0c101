"""Jobs step through the rules, refusals and recoveries of their tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headway.lifecycles.supervision.chart import Job, Worker
from headway.statechart.effects import Deliver, SpawnChild, StoreRecord
from headway.statechart.snapshot import Event, person
from tests.lifecycles.world import World

HAND = person("hand", "worker")
USER = person("ann", "user")


def job_in(state: str, free_workers: int = 10, **context: Any) -> World:
    """A job that has come to a state by its events."""
    world = World(Job, Worker, free_workers=free_workers)
    world.create(Job, **{"task_description": "count to ten", **context})
    for event in JOB_PATHS[state]:
        world.send(event)
    assert world.status() == state
    return world


JOB_PATHS: dict[str, list[Event]] = {
    "SUBMITTED": [],
    "PENDING": [Job.validate()],
    "RUNNING": [Job.validate(), Job.allocate_resources()],
    "COMPLETED": [Job.validate(), Job.allocate_resources(), Job.success({"result": 10}, by=HAND)],
    "FAILED": [Job.validate(), Job.allocate_resources(), Job.error({"code": "E1"}, by=HAND)],
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
        ("SUBMITTED", Job.allocate_resources(), "illegal"),
        ("SUBMITTED", Job.success({}), "illegal"),
        ("PENDING", Job.validate(), "already"),
        ("PENDING", Job.success({}), "illegal"),
        ("COMPLETED", Job.allocate_resources(), "terminal"),
        ("COMPLETED", Job.cancel(), "terminal"),
        ("FAILED", Job.allocate_resources(), "terminal"),
        ("CANCELED", Job.allocate_resources(), "terminal"),
        ("CANCELED", Job.cancel(), "already"),
    ],
)
def test_forbidden_pairs_of_a_job(state: str, event: Event, code: str) -> None:
    """A job cannot skip PENDING, and an ended job takes nothing any more."""
    assert job_in(state).refused(event).code == code


@pytest.mark.mission("SUP-J")
@pytest.mark.parametrize(
    ("state", "allowed"),
    [
        ("SUBMITTED", {"validate", "cancel"}),
        ("PENDING", {"allocate_resources", "cancel"}),
        ("RUNNING", {"success", "error", "cancel", "worker_crash", "worker_done", "delegate"}),
        ("FAILED", set()),
    ],
)
def test_a_refusal_names_what_a_job_allows(state: str, allowed: set[str]) -> None:
    """Whoever asks for what is not possible learns what is."""
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
        world.facts = {"free_workers": 0}
        world.pass_time(59)
        assert world.status() == state
        world.pass_time(2)
    assert world.status() == "CANCELED"


@pytest.mark.mission("SUP-J")
def test_a_valid_job_is_stored_and_its_workers_are_started() -> None:
    """Validation stores the job; allocation creates as many workers as wanted and gives each its task."""
    world = job_in("RUNNING", worker_count=3)
    (stored,) = world.found(StoreRecord)
    assert (stored.kind, stored.key) == ("job", "it")
    assert [world.status(worker) for worker in world.children()] == ["RUNNING"] * 3
    assert world.of["it"].children == {"RUNNING": 3}


@pytest.mark.mission("SUP-J")
def test_a_job_succeeds_when_all_its_workers_have() -> None:
    """The last worker to complete completes the job."""
    world = job_in("RUNNING", worker_count=2)
    first, second = world.children()
    world.done(first)
    assert world.status() == "RUNNING"
    world.done(second)
    assert world.status() == "COMPLETED"


@pytest.mark.mission("SUP-J")
@pytest.mark.parametrize("end", [Job.success({"result": 1}, by=HAND), Job.error({"code": "E1"}, by=HAND)])
def test_the_end_of_a_job_releases_its_workers(end: Event) -> None:
    """Whatever ends a running job, its workers are terminated."""
    world = job_in("RUNNING", worker_count=2)
    world.send(end)
    assert [world.status(worker) for worker in world.children()] == ["TERMINATED"] * 2


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
    "context", [{"depth": 5, "parent_job_id": "j"}, {"worker_count": 10}, {"worker_count": 1}]
)
def test_the_limits_themselves_are_valid(context: dict[str, Any]) -> None:
    """Depth 5 and ten workers are allowed."""
    job_in("RUNNING", **context)


@pytest.mark.mission("SUP-JX", "ENG-12")
def test_canceling_a_job_cancels_its_children_all_the_way_down() -> None:
    """Sub-jobs are canceled, theirs too, and every worker is terminated."""
    world = job_in("RUNNING")
    delegate = Job.delegate({"task_description": "a part"}, by=HAND)
    chain = ["it"]
    for _ in range(2):
        world.send(delegate, chain[-1])
        chain.append(world.children(chain[-1])[-1])
        world.send(Job.validate(), chain[-1])
        world.send(Job.allocate_resources(), chain[-1])
    world.send(Job.cancel(by=USER))
    assert {world.status(job) for job in chain} == {"CANCELED"}
    workers = [name for name, each in world.of.items() if each.chart == Worker.chart.name]
    assert {world.status(worker) for worker in workers} == {"TERMINATED"}
    assert [world.of[job].depth for job in chain] == [0, 1, 2]


@pytest.mark.mission("SUP-JX", "ENG-12")
def test_the_deepest_job_has_no_sub_jobs() -> None:
    """A job at depth 5 runs, but hands nothing down."""
    world = job_in("RUNNING", depth=5, parent_job_id="j_above")
    refusal = world.refused(Job.delegate({"task_description": "too deep"}, by=HAND))
    assert (refusal.code, "depth 5" in refusal.message) == ("guard", True)


@pytest.mark.mission("SUP-R")
def test_a_crashed_worker_is_replaced_while_the_job_runs_on() -> None:
    """Each crash brings a new, started worker; after the last replacement a further crash fails the job."""
    world = job_in("RUNNING")
    for crash in range(3):
        world.failed("lost", world.children()[-1])
        assert world.status() == "RUNNING"
        assert len(world.found(SpawnChild)) == crash + 2
        assert world.status(world.children()[-1]) == "RUNNING"
    world.failed("lost", world.children()[-1])
    assert world.status() == "FAILED"
    assert "worker_crash" in world.of["it"].context["error"]


@pytest.mark.mission("SUP-R")
def test_a_job_without_resources_waits_and_tries_again() -> None:
    """Without free workers the job stays PENDING and says why; it runs at the first try that finds some."""
    world = job_in("PENDING", free_workers=1, worker_count=2)
    assert "2 workers are needed, 1 are free" in world.refused(Job.allocate_resources()).message
    world.pass_time(60)
    assert world.status() == "PENDING"
    world.facts = {"free_workers": 2}
    world.pass_time(5)
    assert world.status() == "RUNNING"


@pytest.mark.mission("SUP-J")
@pytest.mark.parametrize("event", [Job.cancel, Job.success, Job.error])
def test_a_job_knows_its_actors(event: Callable[..., Event]) -> None:
    """Who has no part in a job can neither end nor cancel it."""
    data = {"code": "E1"} if event is Job.error else {}
    assert job_in("RUNNING").refused(event(data, by=person("eve", "visitor"))).code == "actor"


@pytest.mark.mission("SUP-R")
def test_a_workers_failure_reaches_its_job_as_a_message() -> None:
    """A worker tells its job what became of it, so that a sub-job's end is never taken for a crash."""
    world = job_in("RUNNING")
    (worker,) = world.children()
    world.failed("lost", worker)
    told = [effect for effect in world.found(Deliver) if effect.to == "it"]
    assert [(each.event, each.data) for each in told] == [("worker_crash", {"error": "lost"})]
