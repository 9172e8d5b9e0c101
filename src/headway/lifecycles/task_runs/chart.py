"""The lives of processes, task runs and workflow runs: events set timestamps, a status follows from them."""

from __future__ import annotations

from headway import Final, Retry, Run, State, Statechart, any_live
from headway.actions import count, put, spawn, tell
from headway.lifecycles.task_runs.rules import (
    ACTIVE,
    ALL_COMPLETED,
    EXISTING,
    HOST_LOST,
    LONGEST_PROCESS,
    PERMANENT,
    PROCEEDS,
    PROCESS_ERRORS,
    PROCESS_TIMES,
    RETRYABLE,
    RUN_ENDS,
    RUN_ERRORS,
    RUN_TIMES,
    TIMEOUT,
    WORKFLOW_ENDS,
    ProcessData,
    RunData,
    WorkflowData,
    added_processes,
    adds_processes,
    all_nodes_done,
    begin_nodes,
    ends_as,
    is_not_dispatched,
    is_sound,
    is_to_be_resumed,
    is_to_be_stopped,
    keep_artifacts,
    keep_error,
    keep_output,
    names_a_node,
    next_phase,
    note_done,
    once,
    prepared_processes,
    ready_runs,
    some_node_proceeds,
    some_stopped,
)
from headway.statechart import model

USER = ("user", "admin", "system")
RUNNER = ("runner", "system")
CHANGED = "child.changed"
RUNNER_ERRORS = (*PERMANENT, TIMEOUT)

ERROR = (count("errors"), keep_error)
RESTART = count("restart_count")
NO_RESTARTS = count("restart_count", "0 - counters.restart_count")
DISPATCH = put(dispatched=True)
RUN_CHILDREN = tell("children", "run")
STOP_CHILDREN = tell("children", "stop_unfinished")
RESUME_CHILDREN = tell("children", "resume")
RETRY_CHILDREN = tell("children", "retry")
DELETE_CHILDREN = tell("children", "delete")
TELL_WORKFLOW = tell("parent", "node_complete", "node", "output_artifacts")
BEGIN_READY = (spawn("task_runs.run", ready_runs), begin_nodes)
NODE_COMPLETE = (keep_artifacts, *BEGIN_READY)
HOLD, LET_GO = put(held=True), put(held=False)
RESUME_PROCESSES = (LET_GO, RESUME_CHILDREN)
RETRY_PROCESSES = (put(held=False, error=None), RETRY_CHILDREN)
STOP_WORKFLOW = (put(held=True, resuming=False), tell("children", "stop"))
RESUME_WORKFLOW = (RESUME_CHILDREN, put(held=False, resuming=True), *BEGIN_READY)
RETRY_WORKFLOW = (RETRY_CHILDREN, put(held=False, resuming=True), *BEGIN_READY)
RESUMED = put(resuming=False)
PREPARE = (spawn("task_runs.process", prepared_processes), next_phase)
ADD = (spawn("task_runs.process", added_processes), next_phase)
REOPEN = (once("started_at"), model.Clear(fields=RUN_ENDS))
RUN_FAILED = (*ends_as("failed_at"), LET_GO)
RUN_HELD_UP = (*ends_as("stopped_at"), LET_GO)
WORKFLOW_FAILED = ends_as("failed_at", WORKFLOW_ENDS)
ALL_ENDED = f"started_at && !resuming && !({PROCEEDS})"
WORKFLOW_STOPPED = ends_as("stopped_at", WORKFLOW_ENDS)
START_OVER = (
    DELETE_CHILDREN,
    put(output_artifacts=[], phase=0, error=None, held=False),
    count("errors", "0 - counters.errors"),
)


def _work(handler: str, *, errors: tuple[str, ...], retry: Retry | tuple[Retry, ...] = ()) -> Run:
    """Work that is retried when its host is lost, whatever its retries; the loss is noticed within 15 s."""
    return Run(
        handler,
        timeout=LONGEST_PROCESS,
        retry=retry,
        errors=errors,
        heartbeat="3s",
        lease="15s",
        lost_code=HOST_LOST,
        lost=20,
    )


class TaskProcess(Statechart, version=1, name="task_runs.process", context=ProcessData, computed="first"):
    """One process of a task run."""

    waiting = State(waits_for="the run to be continued")
    queued = State(meaning="about to be picked up")

    Deleted = Final(where="deleted_at", meaning="no status: its run was restarted and the process is gone")
    Stopped = State(where="stopped_at", meaning="stopped by a user")
    Failed = State(
        where="failed_at || ((incomplete_at || timeout_at) && counters.restart_count >= max_retries)",
        meaning="a permanent error, or no retries left",
    )
    Incomplete = State(where="incomplete_at", meaning="a transient error; it is tried again")
    Timeout = State(where="timeout_at", meaning="took too long; it is tried again")
    Pending = State(waiting, queued, where="!started_at", initial=True, meaning="waits to start")
    Running = State(
        where="!completed_at",
        run=_work("run_process", errors=(*RETRYABLE, *PERMANENT, TIMEOUT)),
        says="{message}",
        meaning="handed to the workers",
    )
    Completed = State(where="true", meaning="finished")

    queue = waiting.always.to(queued, when="dispatched")
    picked_up = queued.after("1s").computes(Running, sets="started_at")
    run = Pending.computes(Running, by=RUNNER, do=DISPATCH, sets="started_at")
    complete = Running.on("complete", "done.work.Running").computes(
        Completed, by=RUNNER, do=keep_output, sets="completed_at", clears=(*PROCESS_ERRORS, "error")
    )
    incomplete = Running.on_error(*RETRYABLE).computes(Incomplete, Failed, do=ERROR, sets="incomplete_at")
    handle_timeout = Running.on_error(TIMEOUT).computes(Timeout, Failed, do=ERROR, sets="timeout_at")
    fail = Running.on_error.computes(Failed, do=ERROR, sets="failed_at")
    restart = (Timeout | Incomplete).computes(Pending, by=USER, do=RESTART, clears=PROCESS_TIMES)
    retry_timeout = Timeout.after("1s").computes(Pending, do=RESTART, clears=PROCESS_TIMES)
    retry_incomplete = Incomplete.after("1s").computes(Pending, do=RESTART, clears=PROCESS_TIMES)
    stop = any_live.computes(Stopped, by=USER, but=(Stopped,), sets="stopped_at")
    stop_unfinished = (Pending | Running | Incomplete | Timeout).computes(
        Stopped, by="system", sets="stopped_at"
    )
    resume = Stopped.computes(Pending, by=USER, do=DISPATCH, clears=PROCESS_TIMES)
    retry = Failed.computes(Pending, by=USER, do=(DISPATCH, NO_RESTARTS), clears=PROCESS_TIMES)
    delete = any_live.computes(Deleted, by="system", sets="deleted_at")


class TaskRun(
    Statechart,
    version=1,
    name="task_runs.run",
    context=RunData,
    computed="first",
    children="together",
    accepts={"no-final": "a run can be restarted from any status"},
):
    """A task run, rolled up from its processes; the runner's hook ends it, or adds processes."""

    opening = State(meaning="processes or none yet")
    preparing = State(run=_work("prepare_task_processes", retry=Retry(2), errors=RUNNER_ERRORS))
    prepared = State(waits_for="continue")
    deleting = State(meaning="starts over", waits_for="the end of the processes there were")
    processing = State(waits_for="its processes")
    completing = State(run=_work("after_all_processes_completed", retry=Retry(2), errors=RUNNER_ERRORS))

    Failed = State(where="failed_at", meaning="a process failed for good")
    Stopped = State(where="stopped_at", meaning="stopped by a user")
    Skipped = State(where="skipped_at", meaning="there was nothing to run")
    Pending = State(
        opening, preparing, prepared, deleting, where="!started_at", initial=True, meaning="waits to start"
    )
    Running = State(processing, completing, where="!completed_at", meaning="processes are under way")
    Completed = State(where="true", meaning="all processes finished, and the hook added none")

    # checkProcesses(): the first row that holds. A process that may still end by itself keeps the run open.
    check_processes = (
        deleting.stay(event=CHANGED)
        | Running.stay(event=CHANGED, when=f"{ACTIVE} > 0")
        | any_live.computes(Running, event=CHANGED, when="children.Running > 0", do=REOPEN)
        | any_live.stay(event=CHANGED, when=f"{ACTIVE} > 0", clears=RUN_ENDS)
        | any_live.computes(Failed, event=CHANGED, when="children.Failed > 0", do=RUN_FAILED)
        | any_live.computes(Stopped, event=CHANGED, when="children.Stopped > 0", do=RUN_HELD_UP)
        | any_live.computes(Skipped, event=CHANGED, when=f"{EXISTING} == 0", do=ends_as("skipped_at"))
        | any_live.stay(event=CHANGED, clears=RUN_ERRORS)
    )

    # prepareTaskProcesses() and continue().
    open_empty = opening.always.to(preparing, when=f"{EXISTING} == 0")
    open_again = opening.always.to(prepared, when=f"{EXISTING} > 0")
    prepare_and_continue = preparing.on_done.computes(
        Running, when=(adds_processes, "dispatched"), do=ADD, sets="started_at"
    )
    prepare = preparing.on_done.to(prepared, when=adds_processes, do=PREPARE)
    skip = preparing.on_done.computes(Skipped, do=TELL_WORKFLOW, sets="skipped_at")
    not_prepared = preparing.on_error.computes(Failed, do=ERROR, sets="failed_at")
    continue_ = prepared.computes(
        Running, event="continue", by=USER, do=(DISPATCH, RUN_CHILDREN), sets="started_at"
    ) | (preparing | deleting).stay(event="continue", by=USER, when=is_not_dispatched, do=DISPATCH)
    continues = prepared.always.computes(Running, when="dispatched", do=RUN_CHILDREN, sets="started_at")

    # afterAllProcessesComplete(): the hook, and the count once more after it.
    all_processes_complete = processing.always.to(completing, when=ALL_COMPLETED)
    add_processes = Running.stay(by=RUNNER, when=adds_processes, do=ADD)
    after_all_processes_complete = (
        completing.on_done.to(processing, when=adds_processes, do=(*ADD, LET_GO))
        | completing.on_done.to(processing, when=f"{ACTIVE} > 0", do=LET_GO)
        | completing.on_done.computes(Completed, do=(keep_output, TELL_WORKFLOW, LET_GO), sets="completed_at")
    )
    hook_failed = completing.on_error.computes(Failed, do=(*ERROR, LET_GO), sets="failed_at")

    # stop(), restart(), resume(). A run that starts over is stopped when its old processes are gone; a hook
    # is let finish, unless the run is stopped a second time.
    stop = (
        deleting.stay(by=USER, do=HOLD)
        | completing.computes(Stopped, by=USER, when="held", do=(LET_GO, STOP_CHILDREN), sets="stopped_at")
        | completing.stay(by=USER, do=(HOLD, STOP_CHILDREN))
        | Pending.computes(Stopped, by=USER, when=f"{EXISTING} == 0", sets="stopped_at")
        | Pending.computes(Pending, by=USER, do=STOP_CHILDREN)
        | Running.computes(Running, by=USER, do=STOP_CHILDREN)
    )
    restart = any_live.to(deleting, by=USER, do=START_OVER, clears=RUN_TIMES)
    deleted = deleting.always.computes(
        Stopped, when=("held", f"{EXISTING} == 0"), do=LET_GO, sets="stopped_at"
    ) | deleting.always.to(preparing, when=f"{EXISTING} == 0")
    resume = Stopped.computes(
        Running, Pending, by=USER, do=RESUME_PROCESSES, clears="stopped_at"
    ) | Failed.stay(by=USER, when=some_stopped, do=RESUME_PROCESSES)
    retry = Failed.computes(Running, Pending, by=USER, do=RETRY_PROCESSES, clears="failed_at")


class WorkflowRun(
    Statechart,
    version=1,
    name="task_runs.workflow",
    context=WorkflowData,
    computed="first",
    accepts={
        "no-final": "a workflow run follows its task runs, and these can be restarted",
    },
):
    """A graph of tasks: a node's task run is created when the nodes it waits for are done."""

    Failed = State(where="failed_at", meaning="a task run failed")
    Stopped = State(where="stopped_at", meaning="stopped by a user")
    Pending = State(where="!started_at", initial=True, meaning="waits to start", waits_for="start")
    Running = State(where="!completed_at", meaning="task runs are under way", waits_for="its task runs")
    Completed = State(where="true", meaning="every node is done")

    # checkTaskRuns(): Running while a node can proceed, then the same order as for a run.
    check_task_runs = (
        any_live.computes(Running, event=CHANGED, when=some_node_proceeds, do=note_done, clears=WORKFLOW_ENDS)
        | any_live.computes(
            Failed, event=CHANGED, when="children.Failed > 0", do=(note_done, *WORKFLOW_FAILED)
        )
        | any_live.computes(
            Stopped, event=CHANGED, when="children.Stopped > 0", do=(note_done, *WORKFLOW_STOPPED)
        )
        | any_live.stay(event=CHANGED, do=note_done, clears=("failed_at", "stopped_at"))
    )
    resumed = Running.always.stay(when=("resuming", PROCEEDS), do=RESUMED)
    begin = Pending.always.computes(Running, when=("at_once", is_sound), do=BEGIN_READY, sets="started_at")
    start = Pending.computes(Running, by=USER, when=is_sound, do=BEGIN_READY, sets="started_at")
    node_complete = (Running | Failed | Completed).stay(
        by="system", when=names_a_node, do=NODE_COMPLETE
    ) | Stopped.stay(by="system", when=(names_a_node, "started_at"), do=NODE_COMPLETE)

    # What a node has brought out arrives after the news that its run is done: the last of both ends it.
    end_failed = Running.always.computes(Failed, when=(ALL_ENDED, "children.Failed > 0"), sets="failed_at")
    end_stopped = Running.always.computes(
        Stopped, when=(ALL_ENDED, "children.Stopped > 0"), sets="stopped_at"
    )
    complete = Running.always.computes(
        Completed, when=(ALL_ENDED, all_nodes_done), do=LET_GO, sets="completed_at"
    )
    hold_back = Running.always.computes(Stopped, when=(ALL_ENDED, "held"), sets="stopped_at")
    stop = (
        Running.computes(Running, by=USER, do=STOP_WORKFLOW)
        | (Failed | Stopped).stay(by=USER, when=is_to_be_stopped, do=STOP_WORKFLOW)
        | Pending.computes(Stopped, by=USER, do=HOLD, sets="stopped_at")
    )
    resume = Stopped.computes(Running, by=USER, when="started_at", do=RESUME_WORKFLOW, clears="stopped_at")
    resume_pending = Stopped.computes(Pending, event="resume", by=USER, do=LET_GO, clears="stopped_at")
    resume_failed = Failed.stay(event="resume", by=USER, when=is_to_be_resumed, do=RESUME_WORKFLOW)
    retry = Failed.computes(Running, by=USER, do=RETRY_WORKFLOW, clears="failed_at")
