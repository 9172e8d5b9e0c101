"""Workflow runs, their task runs and the processes of these; every status is computed from timestamps."""

from headway.lifecycles.task_runs.chart import TaskProcess, TaskRun, WorkflowRun
from headway.lifecycles.task_runs.lifecycle import task_runs
from headway.lifecycles.task_runs.runners import (
    Process,
    ProcessTask,
    Runner,
    Runners,
    RunTask,
    TransientError,
)
from headway.lifecycles.task_runs.runs import RunState, Task, TaskRuns

__all__ = [
    "Process",
    "ProcessTask",
    "RunState",
    "RunTask",
    "Runner",
    "Runners",
    "Task",
    "TaskProcess",
    "TaskRun",
    "TaskRuns",
    "TransientError",
    "WorkflowRun",
    "task_runs",
]
