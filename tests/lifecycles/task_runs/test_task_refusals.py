"""Actions that are not possible: for every status of a run and of a workflow run, over the real server."""

from typing import Any

import pytest

from tests.lifecycles.task_runs.place import Office

pytestmark = pytest.mark.mission("TSK-M", "TSK-API", "ENG-2")

RUN_ACTIONS = ("continue", "stop", "restart", "resume", "retry")
WORKFLOW_ACTIONS = ("start", "stop", "resume", "retry")


def listed(does: str = "", **more: Any) -> dict[str, Any]:
    """A run of one process."""
    return {"runner": "listed", "config": {"processes": [{"name": "p", "does": does}]}, **more}


RUNS: dict[str, tuple[dict[str, Any], tuple[str, ...], dict[str, str]]] = {
    "Pending": (listed(dispatch=False), (), {"resume": "already", "retry": "already"}),
    "Running": (listed("hang"), (), {"continue": "already", "resume": "already", "retry": "already"}),
    "Completed": (listed(), (), dict.fromkeys(("continue", "stop", "resume", "retry"), "illegal")),
    "Failed": (listed("fail"), (), {"continue": "illegal", "stop": "illegal", "resume": "guard"}),
    "Stopped": (listed("hang"), ("stop",), {"continue": "illegal", "stop": "already", "retry": "illegal"}),
    "Skipped": (
        {"runner": "nothing"},
        (),
        dict.fromkeys(("continue", "stop", "resume", "retry"), "illegal"),
    ),
}
"""How a run comes to a status, and with which code it refuses what there."""

WORKFLOWS: dict[str, tuple[str, bool, tuple[str, ...], dict[str, str]]] = {
    "Pending": ("", False, (), {"resume": "already", "retry": "illegal"}),
    "Running": ("hang", True, (), dict.fromkeys(("start", "resume", "retry"), "already")),
    "Completed": ("", True, (), dict.fromkeys(WORKFLOW_ACTIONS, "illegal")),
    "Failed": ("fail", True, (), {"start": "illegal", "resume": "guard"}),
    "Stopped": ("hang", True, ("stop",), {"start": "illegal", "stop": "guard", "retry": "illegal"}),
}
"""What its one process does, whether it starts, what is done with it, and what it refuses then."""


async def require_refusals(
    office: Office, path: str, refused: dict[str, str], actions: tuple[str, ...]
) -> None:
    """Each of these actions is 409 with its code, the state and what is allowed, and changes nothing."""
    before = await office.get(path)
    assert before["allowed_actions"] == [action for action in actions if action not in refused]
    for action, code in refused.items():
        answer = await office.apply(path, action)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (409, code), (action, problem)
        assert problem["detail"]
        assert problem["states"]
        assert {each["event"] for each in problem["allowed"]} >= {*before["allowed_actions"]}
    assert await office.get(path) == before


@pytest.mark.parametrize("status", RUNS)
async def test_what_a_run_refuses_in_each_status(office: Office, status: str) -> None:
    """All that is not named as allowed is refused with the reason, and nothing has changed."""
    body, steps, refused = RUNS[status]
    path = f"/task-runs/{(await office.post('/task-runs', **body))['id']}"
    if steps or status == "Pending":
        await office.when(path, lambda it: it["task_processes_by_status"] in ({"Running": 1}, {"Pending": 1}))
    for step in steps:
        assert (await office.apply(path, step)).status_code == 200
    settled = {"Running": {"Running": 1}, "Stopped": {"Stopped": 1}}.get(status)
    await office.when(
        path,
        lambda it: it["status"] == status and (settled is None or it["task_processes_by_status"] == settled),
    )
    await require_refusals(office, path, refused, RUN_ACTIONS)


@pytest.mark.parametrize("status", WORKFLOWS)
async def test_what_a_workflow_run_refuses_in_each_status(office: Office, status: str) -> None:
    """All that is not named as allowed is refused with the reason, and nothing has changed."""
    does, start, steps, refused = WORKFLOWS[status]
    made = await office.post("/workflow-runs", nodes={"a": listed(does)}, start=start)
    path = f"/workflow-runs/{made['id']}"
    if does == "hang":
        await office.when(path, lambda it: it["task_runs_by_status"] == {"Running": 1})
    for step in steps:
        assert (await office.apply(path, step)).status_code == 200
    await office.until(path, status)
    await require_refusals(office, path, refused, WORKFLOW_ACTIONS)


async def test_a_failed_workflow_that_was_stopped_is_not_stopped_twice(office: Office) -> None:
    """The first stop keeps it from beginning further nodes; resume undoes it."""
    made = await office.post("/workflow-runs", nodes={"a": listed("fail")})
    path = f"/workflow-runs/{made['id']}"
    await office.until(path, "Failed")
    assert (await office.apply(path, "stop")).json()["status"] == "Failed"
    await require_refusals(office, path, {"start": "illegal", "stop": "guard"}, WORKFLOW_ACTIONS)
    assert (await office.apply(path, "resume")).json()["status"] == "Failed"
    assert (await office.get(path))["allowed_actions"] == ["stop", "retry"]


async def test_a_run_is_continued_before_it_is_prepared(office: Office) -> None:
    """Who continues it at once need not wait; who continues it twice is told that it does so by itself."""
    worker = office.node.worker
    assert worker is not None
    await worker.stop()
    made = await office.post("/task-runs", **listed(dispatch=False))
    path = f"/task-runs/{made['id']}"
    assert (await office.get(path))["allowed_actions"] == ["continue", "stop", "restart"]
    assert (await office.apply(path, "continue")).json()["status"] == "Pending"
    twice = await office.apply(path, "continue")
    assert (twice.status_code, "it continues by itself" in twice.json()["detail"]) == (409, True)
    await worker.start()
    await office.until(path, "Completed")
