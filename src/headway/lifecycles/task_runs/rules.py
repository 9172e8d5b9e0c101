"""What workflow runs, task runs and processes know, and the conditions and actions their charts name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway import No, View
from headway.statechart import model

PROCESS_ERRORS = ("failed_at", "incomplete_at", "timeout_at")
PROCESS_TIMES = ("started_at", "completed_at", "stopped_at", *PROCESS_ERRORS)
RUN_ENDS = ("completed_at", "failed_at", "stopped_at", "skipped_at")
RUN_ERRORS = ("failed_at", "stopped_at", "skipped_at")
RUN_TIMES = ("started_at", *RUN_ENDS)
WORKFLOW_ENDS = ("completed_at", "failed_at", "stopped_at")

RETRYABLE = ("network_error", "rate_limited", "overloaded", "lost")
PERMANENT = ("invalid_input", "refused", "crashed")

# A process is active while it may still come to its end by itself: retryable ones keep the run open too.
ACTIVE = "children.new + children.Pending + children.Running + children.Incomplete + children.Timeout"
EXISTING = f"{ACTIVE} + children.Completed + children.Failed + children.Stopped"
ALL_COMPLETED = f"{EXISTING} == children.Completed && children.Completed > 0"


@dataclass
class ProcessData:
    """A process; its restarts and errors are counted by the engine."""

    name: str = ""
    max_retries: int = 3
    timeout_seconds: float = 300
    dispatched: bool = False
    input_artifacts: list[Any] = field(default_factory=list)
    output_artifacts: list[Any] = field(default_factory=list)
    started_at: str | None = None
    completed_at: str | None = None
    failed_at: str | None = None
    stopped_at: str | None = None
    incomplete_at: str | None = None
    timeout_at: str | None = None
    deleted_at: str | None = None


@dataclass
class RunData:
    """A task run; its processes are counted by status, its errors with theirs, by the engine."""

    node: str = ""
    runner: str = ""
    dispatched: bool = False
    input_artifacts: list[Any] = field(default_factory=list)
    output_artifacts: list[Any] = field(default_factory=list)
    started_at: str | None = None
    completed_at: str | None = None
    failed_at: str | None = None
    stopped_at: str | None = None
    skipped_at: str | None = None


@dataclass
class WorkflowData:
    """A workflow run: each node of its graph with the nodes it waits for, and what each has brought out."""

    graph: dict[str, list[str]] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    artifacts: dict[str, list[Any]] = field(default_factory=dict)
    started_at: str | None = None
    completed_at: str | None = None
    failed_at: str | None = None
    stopped_at: str | None = None


def once(moment: str) -> model.If:
    """Stamp the time, unless it is stamped already."""
    stamp = model.Branch(when=f"!{moment}", actions=(model.Stamp(fields=(moment,)),))
    return model.If(branches=(stamp,))


def ends_as(moment: str, ends: tuple[str, ...] = RUN_ENDS) -> tuple[model.Action, ...]:
    """The run has ended in one way, and in no other."""
    return once(moment), model.Clear(fields=tuple(end for end in ends if end != moment))


def process_timeout(view: View) -> float:
    """How long a process may run, in seconds."""
    return float(view.context.timeout_seconds)


def keep_output(view: View) -> dict[str, Any]:
    """Keep what the work has brought out."""
    return {"output_artifacts": list(_said(view).get("artifacts", []))}


def adds_processes(view: View) -> bool | No:
    """The runner has named processes to create."""
    return bool(_said(view).get("processes")) or No("no process is named")


def prepared_processes(view: View) -> list[dict[str, Any]]:
    """The processes the runner has prepared; they wait until the run continues."""
    return [dict(each) for each in _said(view)["processes"]]


def added_processes(view: View) -> list[dict[str, Any]]:
    """Processes added while the run is running; they are picked up by themselves."""
    return [{**each, "dispatched": True} for each in _said(view)["processes"]]


def begin_nodes(view: View) -> dict[str, Any]:
    """Note the nodes whose task runs are about to be created."""
    return {"begun": [*view.context.begun, *_ready(view.context)]}


def ready_runs(view: View) -> list[dict[str, Any]]:
    """A task run for each node whose parents are done, with what they have brought out."""
    flow = view.context
    return [
        {
            "node": node,
            "dispatched": True,
            "input_artifacts": [item for parent in flow.graph[node] for item in flow.artifacts[parent]],
        }
        for node in _ready(flow)
    ]


def keep_artifacts(view: View) -> dict[str, Any]:
    """A node is done when its artifacts are kept, be there none."""
    said = _said(view)
    return {"artifacts": {**view.context.artifacts, said["node"]: list(said.get("output_artifacts") or [])}}


def names_a_node(view: View) -> bool | No:
    """The node belongs to this workflow's graph."""
    node = _said(view).get("node")
    return node in view.context.graph or No(f"the workflow has no node {node!r}")


def all_nodes_done(view: View) -> bool | No:
    """Every node of the graph is done."""
    missing = [node for node in view.context.graph if node not in view.context.artifacts]
    return not missing or No(f"not done yet: {', '.join(missing)}")


def _ready(flow: WorkflowData) -> list[str]:
    return [
        node
        for node, parents in flow.graph.items()
        if node not in flow.begun and all(parent in flow.artifacts for parent in parents)
    ]


def _said(view: View) -> Mapping[str, Any]:
    data = view.event.data
    return data if isinstance(data, Mapping) else {}
