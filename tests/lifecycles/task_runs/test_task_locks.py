"""The eight locked methods as guarantees: of callers that come at once, exactly as many succeed as may."""

import asyncio
from collections import Counter

import pytest

from headway.engine.orders import Receipt
from headway.lifecycles.task_runs.chart import TaskProcess, TaskRun
from headway.lifecycles.task_runs.lifecycle import task_runs
from headway.node import Node
from headway.statechart.snapshot import SYSTEM, Event
from tests.lifecycles.task_runs.place import ANN, LONGEST, Office
from tests.lifecycles.task_runs.team import calls, runners
from tests.refusals import answer_to

pytestmark = pytest.mark.mission("TSK-LOCK")
CALLERS = 20


async def begin(office: Office, *, size: int = 5, does: str = "hang", dispatch: bool = True) -> str:
    """The path of a run whose processes are all there."""
    config = {"processes": [{"name": f"p{n}", "does": does} for n in range(size)]}
    made = await office.post("/task-runs", runner="listed", config=config, dispatch=dispatch)
    path = f"/task-runs/{made['id']}"
    await office.when(path, lambda it: it["task_processes_count"] == size)
    return path


async def all_at_once(office: Office, path: str, action: str) -> Counter[int]:
    """How many of many callers got which answer."""
    answers = await asyncio.gather(*(office.apply(path, action) for _ in range(CALLERS)))
    return Counter(answer.status_code for answer in answers)


async def test_continue_happens_once(office: Office) -> None:
    """One caller continues the run, the others are told that it runs; no process begins twice."""
    path = await begin(office, does="", dispatch=False)
    assert await all_at_once(office, path, "continue") == {200: 1, 409: CALLERS - 1}
    await office.until(path, "Completed")
    assert calls == {**{f"p{n}": 1 for n in range(5)}, "hook": 1}


async def test_stop_and_resume_hold_whoever_else_calls(office: Office) -> None:
    """After many stops all processes are stopped, each once; of many who resume, one does."""
    path = await begin(office)
    answers = await all_at_once(office, path, "stop")
    assert answers[200] >= 1
    assert answers.keys() <= {200, 409}
    run = await office.until(path, "Stopped")
    assert run["task_processes_by_status"] == {"Stopped": 5}
    for process in (await office.processes(run["id"])).values():
        lines = await office.node.tenant().history(process["id"])
        assert [line.after for line in lines].count("Stopped") == 1
    assert await all_at_once(office, path, "resume") == {200: 1, 409: CALLERS - 1}
    await office.when(path, lambda it: it["task_processes_by_status"] == {"Running": 5})


async def test_restarts_at_once_leave_one_set_of_processes(office: Office) -> None:
    """However many restart a run, in the end it has its processes once, and all earlier ones are gone."""
    path = await begin(office, does="")
    await office.until(path, "Completed")
    assert await all_at_once(office, path, "restart") == {200: CALLERS}
    run = await office.until(path, "Completed")
    assert run["task_processes_by_status"] == {"Completed": 5}
    assert len(await office.processes(run["id"])) == 5


async def test_stop_against_completion_never_loses_a_process(office: Office) -> None:
    """Stop while processes complete: every process is completed or stopped, and the run follows from them."""
    made = await office.post(
        "/task-runs", runner="listed", config={"processes": [{"name": f"p{n}"} for n in range(50)]}
    )
    path = f"/task-runs/{made['id']}"
    await office.when(path, lambda it: it["status"] != "Pending")
    stopped = await office.apply(path, "stop")
    assert stopped.status_code in {200, 409}
    run = await office.until(path, "Completed", "Stopped")
    counts = run["task_processes_by_status"]
    assert sum(counts.values()) == 50
    assert counts.keys() <= {"Completed", "Stopped"}
    assert run["status"] == ("Stopped" if "Stopped" in counts else "Completed")


@pytest.mark.mission("TSK-UP", "ENG-12")
async def test_counts_are_right_when_all_processes_end_at_once_on_two_nodes(
    office: Office, database: str
) -> None:
    """checkProcesses: two nodes complete 100 processes at once; none is lost, one hook is called."""
    if database.startswith("sqlite"):
        pytest.skip("a file belongs to one node")
    lifecycle = task_runs(runners)
    async with Node(database, lifecycle.charts, handlers=lifecycle.handlers):
        made = await office.post(
            "/task-runs", runner="listed", config={"processes": [{"name": f"p{n}"} for n in range(100)]}
        )
        # Another node's commits are not seen by the office's own way of waiting.
        async with asyncio.timeout(LONGEST):
            await office.node.tenant().until(made["id"], "Completed")
    run = await office.get(f"/task-runs/{made['id']}")
    assert run["task_processes_by_status"] == {"Completed": 100}
    assert (calls["hook"], len(run["output_artifacts"])) == (1, 100)


@pytest.mark.parametrize(
    ("method", "dispatch"), [("run", False), ("complete", True), ("stop", True), ("stop", False)]
)
async def test_a_method_of_a_process_happens_once(office: Office, method: str, dispatch: bool) -> None:  # noqa: FBT001 - a case
    """Of many who run, complete or stop a process at once, one does, and the run counts it once."""
    path = await begin(office, size=1, dispatch=dispatch)
    (process,) = (await office.processes(path.rpartition("/")[2])).values()
    tenant, by = office.node.tenant(), ANN if method == "stop" else SYSTEM
    answers = await asyncio.gather(
        *(answer_to(tenant.send(process["id"], Event(method, by=by))) for _ in range(CALLERS))
    )
    assert sum(isinstance(answer, Receipt) for answer in answers) == 1
    after = {"run": "Running", "complete": "Completed", "stop": "Stopped"}[method]
    assert (await office.desk.get(TaskProcess, process["id"])).status == after
    run = await office.desk.get(TaskRun, path.rpartition("/")[2])
    assert run.existing == {after: 1}


async def test_of_different_methods_at_once_one_wins(office: Office) -> None:
    """Complete and stop at once: the process ends in the one way that all answers agree with."""
    path = await begin(office, size=1)
    (process,) = (await office.processes(path.rpartition("/")[2])).values()
    tenant = office.node.tenant()
    events = [Event("complete"), Event("stop_unfinished", by=ANN)] * CALLERS
    answers = await asyncio.gather(*(answer_to(tenant.send(process["id"], event)) for event in events))
    taken = [event.name for event, answer in zip(events, answers, strict=True) if isinstance(answer, Receipt)]
    assert len(taken) == 1
    status = (await office.desk.get(TaskProcess, process["id"])).status
    assert status == {"complete": "Completed", "stop_unfinished": "Stopped"}[taken[0]]
