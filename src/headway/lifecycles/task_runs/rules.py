"""What workflow runs, task runs and processes know, and the conditions and actions their charts name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from headway import No, View
from headway.clock import time_text
from headway.lifecycles.task_runs.artifacts import LARGEST_COPIED, copied_bytes, joined
from headway.statechart import model

PROCESS_ERRORS = ("failed_at", "incomplete_at", "timeout_at")
PROCESS_TIMES = ("started_at", "completed_at", "stopped_at", *PROCESS_ERRORS)
RUN_ENDS = ("completed_at", "failed_at", "stopped_at", "skipped_at")
RUN_ERRORS = ("failed_at", "stopped_at", "skipped_at")
RUN_TIMES = ("started_at", *RUN_ENDS)
WORKFLOW_ENDS = ("completed_at", "failed_at", "stopped_at")

RETRYABLE = ("network_error", "rate_limited", "overloaded", "lost")
HOST_LOST = "host_lost"
"""The service, or the machine it runs on, was lost more than 20 times during one work."""
PERMANENT = ("invalid_input", "refused", "crashed", "artifact_too_large", "unknown_runner", HOST_LOST)
TIMEOUT = "timeout"
LONGEST_PROCESS = "24h"
"""A process that takes longer has hung, whatever its own limit says."""

# A process is active while it may still come to its end by itself: retryable ones keep the run open too.
ACTIVE_STATUSES = ("new", "Pending", "Running", "Incomplete", "Timeout")
ACTIVE = " + ".join(f"children.{status}" for status in ACTIVE_STATUSES)
EXISTING = f"{ACTIVE} + children.Completed + children.Failed + children.Stopped"
# What is asked at every change of thousands of processes: the first part nearly always settles it.
ALL_COMPLETED = f"children.Running == 0 && children.Completed > 0 && {EXISTING} == children.Completed"
UNDER_WAY = ("new", "Pending", "Running")
DONE = ("Completed", "Skipped")
# A node can proceed while its run is under way, or done and only one of its two messages has arrived.
PROCEEDS = " + ".join(f"children.{status}" for status in UNDER_WAY) + " > 0 || unreported != 0"


@dataclass
class ProcessData:
    """A process; its restarts and errors are counted by the engine."""

    name: str = ""
    runner: str = ""
    phase: int = 1
    config: dict[str, Any] = field(default_factory=dict)
    max_retries: int = 3
    timeout_seconds: float = 300
    dispatched: bool = False
    input_artifacts: list[Any] = field(default_factory=list)
    output_artifacts: list[Any] = field(default_factory=list)
    error: str | None = None
    started_at: str | None = None
    completed_at: str | None = None
    failed_at: str | None = None
    stopped_at: str | None = None
    incomplete_at: str | None = None
    timeout_at: str | None = None
    deleted_at: str | None = None


@dataclass
class RunData:
    """A task run; its processes are counted by status, its errors with theirs, by the engine.

    One that is `held` was stopped during a restart or while its hook runs: it is not prepared again, and the
    processes that the hook adds are stopped.
    """

    node: str = ""
    runner: str = ""
    phase: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    dispatched: bool = False
    held: bool = False
    input_artifacts: list[Any] = field(default_factory=list)
    output_artifacts: list[Any] = field(default_factory=list)
    error: str | None = None
    started_at: str | None = None
    completed_at: str | None = None
    failed_at: str | None = None
    stopped_at: str | None = None
    skipped_at: str | None = None


@dataclass
class WorkflowData:
    """A workflow run: each node of its graph with the nodes it waits for, and what each has brought out.

    `tasks` are what each node's task run begins with. One that is `held` begins no further nodes; one that is
    `resuming` has task runs that have not heard of it yet. A task run that is done sends its status and its
    artifacts in two messages; `unreported` is how many more statuses than artifacts have arrived.
    """

    graph: dict[str, list[str]] = field(default_factory=dict)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    at_once: bool = False
    held: bool = False
    resuming: bool = False
    unreported: int = 0
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


def keep_output(view: View) -> dict[str, Any] | None:
    """Keep what the work has brought out, if it has."""
    artifacts = _said(view).get("artifacts")
    return {"output_artifacts": list(artifacts)} if artifacts else None


def keep_error(view: View) -> dict[str, Any]:
    """Keep what went wrong: the code, and the message where there is one."""
    said = _said(view)
    return {"error": f"{said.get('code', '')}: {said.get('message', '')}".strip(": ")}


def adds_processes(view: View) -> bool | No:
    """The runner has named processes to create, which do not copy too much."""
    processes = _said(view).get("processes")
    pieces = [piece for each in processes or () for piece in each.get("inherits", ())]
    if pieces and copied_bytes(pieces, view.context.input_artifacts) > LARGEST_COPIED:
        return No(f"processes get at most {LARGEST_COPIED:,} bytes of what their run was given")
    return bool(processes) or No("no process is named")


def prepared_processes(view: View) -> list[dict[str, Any]]:
    """The processes the runner has prepared; they wait until the run continues."""
    run = view.context
    own = {"runner": run.runner, "phase": run.phase + 1}
    return [{**_with_inputs(each, run.input_artifacts), **own} for each in _said(view)["processes"]]


def _with_inputs(process: dict[str, Any], given: list[Any]) -> dict[str, Any]:
    """A process with the inputs that it inherits from its run."""
    if "inherits" not in process:
        return process
    rest = {key: value for key, value in process.items() if key != "inherits"}
    return {**rest, "input_artifacts": joined(process.get("input_artifacts", []), process["inherits"], given)}


def added_processes(view: View) -> list[dict[str, Any]]:
    """Processes of a run that is running, or about to: they are created as started, or as stopped with it."""
    moment = "stopped_at" if view.context.held else "started_at"
    begun = {"dispatched": True, moment: time_text(view.now)}
    return [{**each, **begun} for each in prepared_processes(view)]


def is_not_dispatched(view: View) -> bool | No:
    """Nobody has said yet that the run is to continue."""
    return not view.context.dispatched or No("it continues by itself")


def some_stopped(view: View) -> bool | No:
    """Some process is stopped."""
    return view.children["Stopped"] > 0 or No("no process is stopped")


def is_to_be_stopped(view: View) -> bool | No:
    """The workflow may begin further nodes, or has a task run under way."""
    under_way = any(view.children[status] for status in UNDER_WAY)
    return not view.context.held or under_way or No("it is stopped, and no task run is under way")


def is_to_be_resumed(view: View) -> bool | No:
    """The workflow was stopped, or one of its task runs."""
    return view.context.held or view.children["Stopped"] > 0 or No("nothing of it was stopped")


def next_phase(view: View) -> dict[str, Any]:
    """Count how often the runner has named processes."""
    return {"phase": view.context.phase + 1}


def begin_nodes(view: View) -> dict[str, Any]:
    """Note the nodes whose task runs are about to be created."""
    return {"begun": [*view.context.begun, *_ready(view.context)]}


def ready_runs(view: View) -> list[dict[str, Any]]:
    """A task run for each node whose parents are done, with what they have brought out."""
    flow = view.context
    return [_run_of(flow, node) for node in _ready(flow)]


def _run_of(flow: WorkflowData, node: str) -> dict[str, Any]:
    task = flow.tasks.get(node, {})
    brought = [item for parent in flow.graph[node] for item in flow.artifacts[parent]]
    inputs = [*task.get("input_artifacts", []), *brought]
    return {**task, "node": node, "dispatched": True, "input_artifacts": inputs}


def keep_artifacts(view: View) -> dict[str, Any]:
    """A node is done when its artifacts are kept, be there none."""
    said, flow = _said(view), view.context
    artifacts = {**flow.artifacts, said["node"]: list(said.get("output_artifacts") or [])}
    return {"artifacts": artifacts, "unreported": flow.unreported - 1}


def names_a_node(view: View) -> bool | No:
    """The node belongs to this workflow's graph."""
    node = _said(view).get("node")
    return node in view.context.graph or No(f"the workflow has no node {node!r}")


def is_sound(view: View) -> bool | No:
    """The graph has nodes, knows every node that one waits for, and has no cycle."""
    problem = graph_problem(view.context.graph)
    return No(problem) if problem else True


def all_nodes_done(view: View) -> bool | No:
    """Every node of the graph is done."""
    missing = [node for node in view.context.graph if node not in view.context.artifacts]
    return not missing or No(f"not done yet: {', '.join(missing)}")


def some_node_proceeds(view: View) -> bool:
    """A task run is under way, or one that is done has sent only its status or only its artifacts."""
    return any(view.children[status] for status in UNDER_WAY) or _unreported(view) != 0


def note_done(view: View) -> dict[str, Any]:
    """Count the status of a task run that is done."""
    return {"unreported": _unreported(view)}


def _unreported(view: View) -> int:
    unreported: int = view.context.unreported
    return unreported + _is_done_now(view)


def _is_done_now(view: View) -> bool:
    said = _said(view)
    return said.get("to") in DONE and said.get("from") != said["to"]


def _ready(flow: WorkflowData) -> list[str]:
    return (
        []
        if flow.held
        else [
            node
            for node, parents in flow.graph.items()
            if node not in flow.begun and all(parent in flow.artifacts for parent in parents)
        ]
    )


def _said(view: View) -> Mapping[str, Any]:
    data = view.event.data
    return data if isinstance(data, Mapping) else {}


def graph_problem(graph: Mapping[str, Sequence[str]]) -> str | None:
    """Why a graph can never be done, or None: each node is given with the nodes it waits for."""
    if not graph:
        return "the workflow has no node"
    for node, parents in graph.items():
        if unknown := [parent for parent in parents if parent not in graph]:
            return f"{node} waits for {unknown[0]}, which is no node of the workflow"
        if len(set(parents)) < len(parents):
            return f"{node} waits twice for the same node"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return f"the workflow goes in a circle: {' → '.join(error.args[1])}"
    return None
