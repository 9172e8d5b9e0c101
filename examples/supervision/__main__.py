"""The program: it opens a workshop, kills a worker in the middle of a job, and shows what became of all.

usage: python -m examples.supervision
"""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from examples.supervision.tasks import DIARY
from headway import person
from headway.http import Access, application, serving
from headway.lifecycles.supervision import supervision
from headway.node import Node

WORKERS, CAPACITY, JOBS = 3, 2, 10
LONGEST = 60
BOSS = person("boss", "supervisor", "user")
COLORS = {"COMPLETED": "green", "RUNNING": "cyan", "PENDING": "yellow", "FAILED": "red"}
Shown = dict[str, Any]


@asynccontextmanager
async def workshop(database: str) -> AsyncIterator[tuple[Node, httpx.AsyncClient]]:
    """The service with its routes on a free port, and a client for the supervisor."""
    lifecycle = supervision("examples.supervision.tasks:perform")
    async with (
        Node(database, lifecycle.charts, handlers=lifecycle.handlers) as node,
        Access(node.engine.store) as access,
    ):
        key = await access.keyring.make("default", BOSS, ["send", "read"])
        listening = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/api"
        front = application(node, access, routers=lifecycle.routers)
        headers = {"Authorization": f"Bearer {key.text}"}
        async with serving(front, listening), httpx.AsyncClient(base_url=url, headers=headers) as client:
            yield node, client


async def post(client: httpx.AsyncClient, path: str, **body: Any) -> Shown:
    """What the service answers."""
    answer: Shown = (await client.post(path, json=body)).raise_for_status().json()
    return answer


async def all_of(client: httpx.AsyncClient, kind: str) -> list[Shown]:
    """All workers, or all jobs."""
    found: list[Shown] = (await client.get(f"/{kind}")).raise_for_status().json()["items"]
    return found


def entries(diary: Path) -> list[str]:
    """What the workers have written down."""
    return diary.read_text().splitlines() if diary.exists() else []


async def begun(diary: Path, many: int) -> tuple[int, str]:
    """The process that began a job last, and the job, when so many have begun."""
    while len(lines := entries(diary)) < many:  # noqa: ASYNC110 - other processes write it
        await asyncio.sleep(0.01)
    process, job = lines[-1].split()
    return int(process), job


def table(title: str, rows: Sequence[Shown], *columns: str) -> Table:
    """Rows of what the service answered."""
    shown = Table(*columns, title=title, title_justify="left")
    for row in rows:
        cells = [str(row[column]) for column in columns]
        shown.add_row(*cells, style=COLORS.get(row["status"]))
    return shown


async def work(node: Node, client: httpx.AsyncClient, diary: Path, console: Console) -> None:
    """Three workers, ten jobs, one kill."""
    for _ in range(WORKERS):
        worker = await post(client, "/workers", capacity=CAPACITY)
        await post(client, f"/workers/{worker['id']}/start")
    jobs = [
        (await post(client, "/jobs", task_description=f"saw {number + 8} planks"))["id"]
        for number in range(JOBS)
    ]
    await begun(diary, WORKERS)
    console.print(table("Ten jobs for three workers", await all_of(client, "jobs"), "id", "status"))
    process, job = await begun(diary, len(entries(diary)) + 1)
    os.kill(process, signal.SIGKILL)
    console.print(f"\nkill -9 {process}, in the middle of {job}\n", style="bold red")
    for each in jobs:
        await node.tenant().until(each, "COMPLETED")
    done = await all_of(client, "jobs")
    for row in done:
        row["sawn by"] = (row["result"] or {}).get("process")
    console.print(table("All done", done, "id", "task_description", "status", "crashes", "sawn by"))
    workers = await all_of(client, "workers")
    console.print(table("The workers", workers, "id", "status", "stands_in_for", "error"))


async def main() -> None:
    """Open the workshop for one morning."""
    with TemporaryDirectory() as folder:
        diary = Path(folder, "diary")
        os.environ[DIARY] = str(diary)
        async with workshop(f"sqlite:///{folder}/workshop.db") as (node, client), asyncio.timeout(LONGEST):
            await work(node, client, diary, Console())


if __name__ == "__main__":
    asyncio.run(main())
