"""The suite of task runs: one run with thousands of processes, beside the fan-out of its peers."""

from bench.task_runs.suite import suite

__all__ = ["suite"]
