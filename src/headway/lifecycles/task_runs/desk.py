"""`TaskRuns`: task runs and workflow runs of one tenant, created, moved and read by the document's names."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from headway.codec import as_json, decode
from headway.engine.orders import Receipt
from headway.engine.tenant import Tenant
from headway.errors import InputError, UnknownInstanceError, shown
from headway.lifecycles.task_runs.artifacts import checked_artifacts
from headway.lifecycles.task_runs.chart import TaskProcess, TaskRun, WorkflowRun
from headway.lifecycles.task_runs.graph import graph_problem
from headway.lifecycles.task_runs.rules import ACTIVE_STATUSES
from headway.lifecycles.task_runs.runners import Runners
from headway.statechart.define import Statechart
from headway.statechart.snapshot import Actor, Event, Snapshot, person
from headway.statechart.step import status_of

USER = person("user", "user")
MOST_NODES = 1_000
GONE = "Deleted"
ACTIONS: dict[type[Statechart], tuple[str, ...]] = {
    TaskRun: ("continue", "stop", "restart", "resume"),
    TaskProcess: ("stop", "restart", "resume"),
    WorkflowRun: ("start", "stop", "resume"),
}
"""What people may do. The rest of the document's methods are the runner's and the roll-up's."""
PREFIX = {TaskRun: "run", WorkflowRun: "flow"}


@dataclass(frozen=True)
class Task:
    """A node of a workflow: the runner of its task run, the nodes it waits for, what it begins with."""

    runner: str
    after: Sequence[str] = ()
    input_artifacts: Iterable[Any] = ()
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Standing:
    """A process, task run or workflow run as it is stored."""

    status: str
    snapshot: Snapshot

    @property
    def active(self) -> int:
        """How many of its processes, or task runs, may still come to an end by themselves."""
        return sum(self.snapshot.children.get(status, 0) for status in ACTIVE_STATUSES)

    @property
    def existing(self) -> dict[str, int]:
        """How many children have which status; those that a restart has deleted are gone."""
        return {status: count for status, count in self.snapshot.children.items() if count and status != GONE}

    @property
    def errors(self) -> int:
        """How many errors there were, its own and those below it."""
        return self.snapshot.counters.get("errors", 0)


class TaskRuns:
    """The tasks of a tenant. What is wrong is told before anything is stored: InputError, TooLargeError."""

    def __init__(self, tenant: Tenant, runners: Runners) -> None:
        self._tenant, self._runners = tenant, runners

    async def create_run(
        self,
        runner: str,
        *,
        id: str | None = None,  # noqa: A002 - the document's name
        input_artifacts: Iterable[Any] = (),
        config: Mapping[str, Any] | None = None,
        dispatch: bool = True,
        by: Actor = USER,
        request_id: str | None = None,
    ) -> Receipt:
        """Create a task run and let its runner prepare it; it continues by itself if `dispatch` says so."""
        context = self._run_data(Task(runner, (), input_artifacts, config or {}))
        context["dispatched"] = dispatch
        return await self._create(TaskRun, id, context, by=by, request_id=request_id)

    async def create_workflow(
        self,
        tasks: Mapping[str, Task],
        *,
        id: str | None = None,  # noqa: A002 - the document's name
        start: bool = True,
        by: Actor = USER,
        request_id: str | None = None,
    ) -> Receipt:
        """Create a workflow run; its first nodes begin at once if `start` says so."""
        if len(tasks) > MOST_NODES:
            raise InputError(f"a workflow has at most {MOST_NODES:,} nodes, not {len(tasks):,}")
        graph = {node: list(task.after) for node, task in tasks.items()}
        if problem := graph_problem(graph):
            raise InputError(problem)
        data = {node: self._run_data(task) for node, task in tasks.items()}
        context = {"graph": graph, "tasks": data, "at_once": start}
        return await self._create(WorkflowRun, id, context, by=by, request_id=request_id)

    async def apply(
        self,
        chart: type[Statechart],
        id: str,  # noqa: A002 - the document's name
        action: str,
        *,
        by: Actor = USER,
        request_id: str | None = None,
    ) -> Receipt:
        """Apply an action; raises RefusedError when it is not possible now, InputError when there is none."""
        if action not in ACTIONS[chart]:
            raise InputError(f"there is no action {shown(action)}; there are: {', '.join(ACTIONS[chart])}")
        await self.get(chart, id)
        return (await self._tenant.send(id, Event(action, by=by), request_id=request_id)).unwrap()

    async def get(self, chart: type[Statechart], id: str) -> Standing:  # noqa: A002 - as above
        """Where one stands; raises UnknownInstanceError, also for one of another chart or a deleted one."""
        snapshot = await self._tenant.get(id)
        if snapshot.chart != chart.chart.name:
            raise UnknownInstanceError(f"there is no instance {id}")
        status = status_of(chart, snapshot.states) or ""
        if status == GONE:
            raise UnknownInstanceError(f"a restart has deleted {id}")
        return Standing(status, snapshot)

    async def list(
        self,
        chart: type[Statechart],
        *,
        parent: str | None = None,
        status: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Sequence[Standing]:
        """A page in the order of creation, from after the one named on."""
        # A process that a restart has deleted has ended; nothing else of these charts ever does.
        rows = await self._tenant.list(
            chart=chart, parent=parent, status=status, ended=False, after=after, limit=limit
        )
        return [Standing(row.status, decode(Snapshot, row.snapshot)) for row in rows]

    def _run_data(self, task: Task) -> dict[str, Any]:
        self._runners.require(task.runner)
        return {
            "runner": task.runner,
            "input_artifacts": checked_artifacts(task.input_artifacts),
            "config": as_json(dict(task.config)),
        }

    async def _create(
        self,
        chart: type[Statechart],
        id: str | None,  # noqa: A002 - as above
        context: dict[str, Any],
        *,
        by: Actor,
        request_id: str | None,
    ) -> Receipt:
        name = id or f"{PREFIX[chart]}_{_own(request_id)}"
        return (await self._tenant.create(chart, name, context, by=by, request_id=request_id)).unwrap()


def _own(request_id: str | None) -> str:
    return sha256(request_id.encode()).hexdigest()[:16] if request_id else secrets.token_hex(8)
