"""`TaskRuns`: task runs and workflow runs of one tenant, created, moved and read by the document's names."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headway import Actor, Event, Snapshot, Statechart, explain, person
from headway.codec import as_json, decode, replace
from headway.errors import InputError, UnknownInstanceError, shown
from headway.lifecycles.task_runs.artifacts import checked_artifacts
from headway.lifecycles.task_runs.chart import TaskProcess, TaskRun, WorkflowRun
from headway.lifecycles.task_runs.rules import (
    ACTIVE_STATUSES,
    PROCESS_TIMES,
    RUN_TIMES,
    WORKFLOW_ENDS,
    graph_problem,
)
from headway.lifecycles.task_runs.runners import Runners
from headway.node import Receipt, Tenant
from headway.statechart import status_of

USER = person("user", "user")
MOST_NODES = 1_000
GONE = "Deleted"
ACTIONS: dict[type[Statechart], tuple[str, ...]] = {
    TaskRun: ("continue", "stop", "restart", "resume", "retry"),
    TaskProcess: ("stop", "restart", "resume", "retry"),
    WorkflowRun: ("start", "stop", "resume", "retry"),
}
"""What people may do. The rest of the document's methods are the runner's and the roll-up's."""
FAILED = "Failed"
ENDS: dict[type[Statechart], tuple[str, ...]] = {
    TaskRun: ("Completed", FAILED, "Stopped", "Skipped"),
    WorkflowRun: ("Completed", FAILED, "Stopped"),
}
"""The statuses that a stop can lead to."""
STOP_WAIT = 3.0
"""Seconds after which a stop is answered even if a hook is still running."""
PAGE = 500
PREFIX = {TaskRun: "run", WorkflowRun: "flow"}
ANY_TIME = datetime.fromtimestamp(0, UTC)
"""No guard of these charts looks at the clock."""
ARTIFACTS = ("input_artifacts", "output_artifacts")
PROCESS_FIELDS = (
    *("name", "runner", "phase", "config", "max_retries", "timeout_seconds"),
    *ARTIFACTS,
    *PROCESS_TIMES,
)
RUN_FIELDS = ("node", "runner", "phase", "config", *ARTIFACTS, *RUN_TIMES)
WORKFLOW_FIELDS = ("graph", "begun", "artifacts", "started_at", *WORKFLOW_ENDS)


@dataclass(frozen=True)
class Task:
    """A node of a workflow: the runner of its task run, the nodes it waits for, what it begins with."""

    runner: str
    after: Sequence[str] = ()
    input_artifacts: Iterable[Any] = ()
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunState:
    """A stored process, task run or workflow run, with its status."""

    status: str
    snapshot: Snapshot
    error: str | None = None
    """Why it failed: its own error, or that of the first child that failed."""

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
    """The tasks of a tenant. Wrong input raises InputError or TooLargeError before anything is stored."""

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
        """Apply an action; raises RefusedError when it is not possible now, InputError when there is none.

        A stop is answered with the status it has led to, unless that takes longer than `STOP_WAIT`.
        """
        if action not in ACTIONS[chart]:
            raise InputError(f"there is no action {shown(action)}; there are: {', '.join(ACTIONS[chart])}")
        await self.get(chart, id)
        receipt = await self._tenant.send(id, Event(action, by=by), request_id=request_id)
        if action != "stop" or receipt.status in ENDS.get(chart, (receipt.status,)):
            return receipt
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_WAIT):
                await self._tenant.until(id, *ENDS[chart])
        return await self._first_end(chart, receipt)

    async def get(self, chart: type[Statechart], id: str) -> RunState:  # noqa: A002 - as above
        """Where one stands; raises UnknownInstanceError, also for one of another chart or a deleted one."""
        snapshot = await self._tenant.get(id)
        if snapshot.chart != chart.chart.name:
            raise UnknownInstanceError(f"there is no instance {id}")
        status = status_of(chart, snapshot.states) or ""
        if status == GONE:
            raise UnknownInstanceError(f"a restart has deleted {id}")
        return RunState(status, snapshot, await self._error(snapshot))

    async def list(
        self,
        chart: type[Statechart],
        *,
        parent: str | None = None,
        status: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Sequence[RunState]:
        """A page in the order of creation, from after the one named on."""
        # A process that a restart has deleted has ended; nothing else of these charts ever does.
        rows = await self._tenant.list(
            chart=chart, parent=parent, status=status, ended=False, after=after, limit=limit
        )
        snapshots = [decode(Snapshot, row.snapshot) for row in rows]
        errors = await asyncio.gather(*map(self._error, snapshots))
        return [*map(RunState, (row.status for row in rows), snapshots, errors)]

    async def _error(self, snapshot: Snapshot) -> str | None:
        """Why something failed; only what has failed children and no error of its own costs a read."""
        own: str | None = snapshot.context.get("error")
        if own is not None or not snapshot.children.get(FAILED):
            return own
        failed = await self._tenant.list(parent=snapshot.instance, status=FAILED, limit=1)
        return await self._error(decode(Snapshot, failed[0].snapshot)) if failed else None

    async def _first_end(self, chart: type[Statechart], receipt: Receipt) -> Receipt:
        """The receipt with the first end after it, the same for a repeat; as it is when there is none."""
        after = 0
        while rows := await self._tenant.history(receipt.instance, after=after, limit=PAGE):
            for row in rows:
                states = tuple(row.after.split("+"))
                if row.seq > receipt.seq and (status := status_of(chart, states)) in ENDS[chart]:
                    return replace(receipt, seq=row.seq, status=status, states=states)
            after = rows[-1].position
        return receipt

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
        name = id or f"{PREFIX[chart]}_{secrets.token_hex(8)}"
        return await self._tenant.create(
            chart, name, context, by=by, request_id=request_id, unnamed=id is None
        )


def process_shown(it: RunState) -> dict[str, Any]:
    """A process of a task run."""
    return {
        **_shown(it, TaskProcess, PROCESS_FIELDS),
        "task_run_id": it.snapshot.parent,
        "restart_count": it.snapshot.counters.get("restart_count", 0),
        "error_count": it.errors,
        "progress": it.snapshot.progress,
    }


def run_shown(it: RunState) -> dict[str, Any]:
    """A task run; its processes by number only, however many there are."""
    return {
        **_shown(it, TaskRun, RUN_FIELDS),
        "workflow_run_id": it.snapshot.parent,
        "active_task_processes_count": it.active,
        "task_processes_count": sum(it.existing.values()),
        "task_processes_by_status": it.existing,
        "task_process_error_count": it.errors,
    }


def workflow_shown(it: RunState) -> dict[str, Any]:
    """A workflow run."""
    return {
        **_shown(it, WorkflowRun, WORKFLOW_FIELDS),
        "task_runs_by_status": it.existing,
        "error_count": it.errors,
    }


def _shown(it: RunState, chart: type[Statechart], fields: tuple[str, ...]) -> dict[str, Any]:
    snapshot = it.snapshot
    ways = explain(chart, snapshot, ANY_TIME).ways
    possible = {event for way in ways if way.open for event in way.events}
    return {
        "id": snapshot.instance,
        "status": it.status,
        "seq": snapshot.seq,
        "error": it.error,
        **{name: snapshot.context[name] for name in fields},
        "allowed_actions": [action for action in ACTIONS[chart] if action in possible],
    }
