"""The servers that are measured, each a process: `python -m bench.service.servers NAME DATABASE`.

Each prints one line, with its port and a key, when it answers.
"""

import asyncio
import json
import socket
import sys
from typing import Any

import uvicorn
import uvloop
from fastapi import FastAPI
from pydantic import BaseModel

from headway import Actor, State, Statechart
from headway.api.access import Access, Rate
from headway.api.app import application
from headway.api.server import serving
from headway.node import Node

INSTANCES = 4_096
HEADWAY, FASTAPI = "headway", "bare FastAPI"
UNLIMITED = Rate(10_000_000, 10_000_000)


class Counter(Statechart):
    """Turns as long as one likes."""

    on = State(initial=True)
    off = State()
    flip = on.to(off) | off.to(on)


class SendEvent(BaseModel):
    """What the bare endpoint parses."""

    event: str
    data: Any = None
    reason: str | None = None


class Standing(BaseModel):
    """What the bare endpoint answers."""

    id: str
    chart: str
    version: int
    seq: int
    status: str
    states: list[str]
    ended: bool


def _say(listening: socket.socket, key: str) -> None:
    print(json.dumps({"port": listening.getsockname()[1], "key": key}), flush=True)


async def _serve_headway(database: str) -> None:
    async with Node(database, [Counter]) as node, Access(node.engine.store, rate=UNLIMITED) as access:
        key = await access.keyring.make("default", Actor("bench", "service"), ["send", "read"])
        tenant = node.tenant()
        await asyncio.gather(*(tenant.create(Counter, f"i{number}") for number in range(INSTANCES)))
        listening = socket.create_server(("127.0.0.1", 0), backlog=1_024)
        async with serving(application(node, access), listening):
            _say(listening, key.text)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def _serve_fastapi(_database: str) -> None:
    app = FastAPI()

    @app.post("/v1/instances/{instance}/events")
    async def send_event(instance: str, body: SendEvent) -> Standing:
        """The same answer, without doing anything."""
        del body
        return Standing(
            id=instance, chart="Counter", version=1, seq=2, status="off", states=["off"], ended=False
        )

    listening = socket.create_server(("127.0.0.1", 0), backlog=1_024)
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None, access_log=False))
    running = asyncio.create_task(server.serve(sockets=[listening]))
    _say(listening, "none")
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.should_exit = True
    await running


SERVERS = {HEADWAY: _serve_headway, FASTAPI: _serve_fastapi}

if __name__ == "__main__":
    uvloop.run(SERVERS[sys.argv[1]](sys.argv[2]))
