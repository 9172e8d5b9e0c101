"""What a UI hears live of processes, task runs and workflow runs, over server-sent events and WebSocket."""

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.api.live.place import KINDS, Place, Told, events, reading
from tests.lifecycles.task_runs.place import Office

pytestmark = pytest.mark.mission("TSK-API", "ENG-15")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


async def told(reader: Any, last: Callable[[Told], bool]) -> AsyncIterator[Told]:
    """What a reader hears, up to the last that is asked for."""
    while True:
        (event,) = await events(reader, 1)
        yield event
        if last(event):
            return


def place_of(office: Office) -> Place:
    """The office, for those who follow its events."""
    return Place(office.url, office.front, office.node, office.access)


def ends_in(state: str) -> Callable[[Told], bool]:
    """An event that leads to a state."""
    return lambda event: event.get("to") == state


@KINDS
async def test_a_ui_hears_of_the_progress_of_a_process(office: Office, kind: str) -> None:
    """How far a process is comes while it runs, with its words; who reads it later finds it too."""
    async with reading(place_of(office), kind, tenant="default", chart="task_runs.process") as reader:
        config = {"processes": [{"name": "p", "does": "tell"}]}
        run = await office.post("/task-runs", runner="listed", config=config)
        heard = [event async for event in told(reader, lambda event: event["type"] == "message")]
    assert [event["type"] for event in heard] == ["transition", "message"]
    said = heard[-1]["data"]
    assert (heard[-1]["name"], said["pct"], said["message"]) == ("progress", 50, "half of it")
    (process,) = (await office.processes(run["id"])).values()
    assert (process["status"], process["progress"], heard[-1]["instance"]) == ("Running", 50, process["id"])


@KINDS
async def test_a_ui_hears_of_a_process_that_is_tried_again(office: Office, kind: str) -> None:
    """Each change of its status comes, and why: first it is incomplete, then it is completed."""
    async with reading(place_of(office), kind, tenant="default", chart="task_runs.process") as reader:
        config = {"processes": [{"name": "p", "does": "flicker", "times": 1}]}
        await office.post("/task-runs", runner="listed", config=config)
        heard = [event async for event in told(reader, ends_in("Completed"))]
    steps = ["start", "incomplete", "retry_incomplete", "queue", "picked_up", "complete"]
    assert [event["transition"] for event in heard] == steps
    assert heard[1]["data"]["code"] == "network_error"


@KINDS
async def test_a_ui_follows_a_workflow_run(office: Office, kind: str) -> None:
    """One stream tells of its nodes as they are done, of each change of its task runs, and of its end."""
    nodes = {
        "a": {"runner": "listed", "config": {"processes": [{"name": "a"}]}},
        "b": {"runner": "nothing", "after": ["a"]},
    }
    await office.post("/workflow-runs", nodes=nodes, id="flow", start=False)
    async with reading(place_of(office), kind, tenant="default", instance="flow") as reader:
        assert (await office.apply("/workflow-runs/flow", "start")).status_code == 200
        heard = [event async for event in told(reader, ends_in("Completed"))]
    assert {event["instance"] for event in heard} == {"flow"}
    done = [event["data"]["node"] for event in heard if event["transition"] == "node_complete"]
    assert done == ["a", "b"]
    news = [event["data"] for event in heard if event["transition"] == "check_task_runs"]
    assert ("Running", "Completed") in {(each["from"], each["to"]) for each in news}
    assert all("errors" not in each for each in news)
    assert news[-1]["children"] == {"Completed": 1, "Skipped": 1}
    assert heard[-1]["transition"] == "complete"


@KINDS
async def test_a_ui_hears_the_status_and_the_counts_of_a_run(office: Office, kind: str) -> None:
    """No event names an inner state or a difference: each has the public status, and counts as they are."""
    config = {"processes": [{"name": name} for name in "abc"]}
    await office.post("/task-runs", runner="listed", id="run", dispatch=False, config=config)
    await office.when("/task-runs/run", lambda it: it["task_processes_count"] == 3)
    async with reading(place_of(office), kind, tenant="default", instance="run") as reader:
        assert (await office.apply("/task-runs/run", "continue")).status_code == 200
        heard = [event async for event in told(reader, ends_in("Completed"))]
    public = {"Pending", "Running", "Completed"}
    assert {each[field] for each in heard for field in ("from", "to", "status")} <= public
    assert all(each["status"] == each["to"] for each in heard)
    news = [each["data"] for each in heard if each["event"] == "child.changed"]
    assert all({*each} <= {"from", "to", "children", "error_count"} for each in news)
    assert {sum(each["children"].values()) for each in news} == {3}
    assert news[-1] == {"children": {"Completed": 3}, "error_count": 0}


async def test_times_have_one_format_everywhere(office: Office) -> None:
    """What is read, history and live events: RFC 3339 in UTC with microseconds; one time is one text."""
    await office.post("/task-runs", runner="nothing", id="run")
    run = await office.until("/task-runs/run", "Skipped")
    async with reading(place_of(office), "stream", tenant="default", after="0-0", instance="run") as reader:
        heard = [event async for event in told(reader, ends_in("Skipped"))]
    instance = await office.get("/v1/instances/run")
    lines = (await office.get("/v1/instances/run/history"))["items"]
    summary = (await office.get("/v1/instances"))["items"][0]
    last = {lines[-1]["at"], heard[-1]["at"], instance["updated_at"], summary["updated_at"]}
    assert last == {run["skipped_at"]}
    times = [run["skipped_at"], instance["created_at"], summary["created_at"], lines[0]["at"], heard[0]["at"]]
    assert all(TIME.fullmatch(each) for each in times)
