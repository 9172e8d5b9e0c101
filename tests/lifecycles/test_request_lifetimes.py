"""Request ids on the routes of lifecycles are remembered by what the request does, however it says its id."""

import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway import Actor
from headway.api.access import Access
from headway.api.app import application
from headway.api.server import serving
from headway.lifecycles.task_runs.lifecycle import task_runs
from headway.node import Node
from tests.clocks import Ahead
from tests.lifecycles.task_runs.team import runners

ANN = Actor("ann", "person", frozenset({"user"}))
SECOND = timedelta(seconds=1)
HANGING = {"processes": [{"name": "p", "does": "hang"}]}


def named(way: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
    """A request that says which one it is."""
    if way == "body":
        return {"json": {**body, "request_id": key}}
    return {"json": body, "headers": {"Idempotency-Key": key}}


@pytest.mark.mission("ENG-6", "TSK-API")
@pytest.mark.parametrize("way", ["body", "header"])
async def test_an_action_on_a_task_run_is_remembered_for_an_hour(tmp_path: Path, way: str) -> None:
    """Within the hour a repeat is answered again; after it, the same id stops what runs by then."""
    lifecycle, clock = task_runs(runners), Ahead()
    async with (
        Node(
            f"sqlite:///{tmp_path}/it.db", lifecycle.charts, handlers=lifecycle.handlers, clock=clock
        ) as node,
        Access(node.engine.store) as access,
    ):
        assert node.worker is not None
        node.worker.grace = 0.1
        key = (await access.keyring.make("default", ANN, ["send", "read"])).text
        listening = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        headers = {"Authorization": f"Bearer {key}"}
        front = application(node, access, routers=lifecycle.routers)
        async with (
            serving(front, listening, patience=2),
            httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as client,
        ):
            made = named(way, "make", {"runner": "listed", "config": HANGING})
            first = await client.post("/task-runs", **made)
            path, stop = (
                f"/task-runs/{first.json()['id']}/apply-action",
                named(way, "stop", {"action": "stop"}),
            )
            await node.tenant().until(first.json()["id"], "Running")
            stopped = await client.post(path, **stop)
            assert stopped.status_code == 200, stopped.text
            for seconds, same in ((3_590, True), (20, False)):
                clock.ahead += seconds * SECOND
                again = await client.post(path, **stop)
                assert (again.content == stopped.content) == same
            assert again.status_code == 409
            clock.ahead += 80_000 * SECOND
            assert (await client.post("/task-runs", **made)).content == first.content
