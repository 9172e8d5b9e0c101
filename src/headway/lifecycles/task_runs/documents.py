"""What is told of processes, task runs and workflow runs, by the field names of the document."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from headway import Statechart, explain
from headway.lifecycles.task_runs.chart import TaskProcess, TaskRun, WorkflowRun
from headway.lifecycles.task_runs.rules import PROCESS_TIMES, RUN_TIMES, WORKFLOW_ENDS
from headway.lifecycles.task_runs.runs import ACTIONS, RunState

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
