"""The lives of a worker, of a job, and of the supervisor who brings them together, as transition tables."""

from __future__ import annotations

from headway import Final, Retry, Run, State, Statechart, any_live, invariant
from headway.actions import log, put, record, spawn, stamp, tell
from headway.lifecycles.supervision.job_rules import (
    DEEPEST,
    JobData,
    all_done,
    ask_for_workers,
    assign_tasks,
    crashes_left,
    depth_left,
    gather_results,
    job_limit,
    keep_reached,
    keep_result,
    move_task,
    note_crash,
    note_failure,
    note_problems,
    note_timeout,
    release_workers,
    resources_available,
    schema_valid,
    store_result,
    sub_job,
    tell_over,
)
from headway.lifecycles.supervision.messages import (
    Allocation,
    Asks,
    Assignment,
    Crash,
    Down,
    Error,
    Free,
    Gone,
    JobOver,
    Moved,
    Over,
    Reached,
    Result,
    SubJob,
    Task,
    TaskDone,
    Up,
    Waits,
)
from headway.lifecycles.supervision.supervisor_rules import (
    SupervisorData,
    dismiss_all,
    give_word,
    note_down,
    note_free,
    note_gone,
    note_over,
    note_up,
    note_waiting,
    place,
    substitute,
)
from headway.lifecycles.supervision.worker_rules import (
    CRASHES,
    EXHAUSTED,
    HEARTBEAT,
    HOST_LOST,
    LEASE,
    MOST_LOSSES,
    TRANSIENT,
    UNRECOVERABLE,
    WorkerData,
    a_third,
    add_task,
    ask_for_word,
    did_its_own,
    drop_tasks,
    finish_task,
    has_capacity,
    hold_reached,
    is_at_it,
    is_free,
    is_silent,
    more_tasks,
    no_pending_tasks,
    not_retryable,
    note_error,
    note_silence,
    note_timeout_of_supervisor,
    stands_in,
    take_tasks,
    tell_crash,
    tell_down,
    tell_failure,
    tell_gone,
    tell_up,
    until_next_third,
)
from headway.statechart import Explored

SUPERVISOR = ("supervisor", "admin", "system")
WORKER = ("worker", "system")
OWNER = ("user", "supervisor", "admin", "system")

STARTED = stamp("started_at")
ENDED = stamp("completed_at")
HEARD = (stamp("heard_at"), put(unheard=0))
LOG_ERROR = log("error", "error")
SUBMIT = stamp("submitted_at")
STORE = record("job", "{instance}")
CANCEL_CHILDREN = tell("children", "cancel")
CRASH = (note_error, LOG_ERROR, tell_crash)
FAILURE = (note_error, LOG_ERROR, tell_failure)


class Worker(Statechart, version=1, name="supervision.worker", context=WorkerData, cancel="terminate"):
    """A worker that a supervisor starts, pauses, resumes and terminates."""

    IDLE = State(initial=True, meaning="created, no task assigned yet", waits_for="a task", entry=HEARD)
    RUNNING = State(
        meaning="executing its tasks, one after the other",
        run=Run(
            "run_task",
            retry=Retry(3, on=TRANSIENT, base="1s", factor=2, jitter=0.2),
            errors=(*TRANSIENT, *EXHAUSTED, *UNRECOVERABLE, *CRASHES),
            affinity="{instance}",
            heartbeat=HEARTBEAT,
            lease=LEASE,
            lost_code=HOST_LOST,
            lost=MOST_LOSSES,
        ),
    )
    PAUSED = State(meaning="suspended by the supervisor", waits_for="the supervisor", entry=HEARD)
    COMPLETED = Final(meaning="finished all its tasks", entry=ENDED)
    FAILED = Final(meaning="met an error it cannot recover from", entry=ENDED)
    TERMINATED = Final(meaning="stopped by force", entry=ENDED)

    # 1.3: the six rules. That a paused worker ran before is proven by the invariant below.
    start_task = IDLE.to(
        RUNNING,
        by=SUPERVISOR,
        takes=Assignment,
        when=has_capacity,
        do=(take_tasks, tell_up, *HEARD),
        sets=("started_at", "running_since"),
    )
    pause = RUNNING.to(PAUSED, by=SUPERVISOR, do=tell_down, sets="paused_at")
    resume = PAUSED.to(
        RUNNING,
        by=SUPERVISOR,
        do=(tell_up, *HEARD),
        sets="running_since",
        clears=("paused_at", "error"),
    )
    complete_tasks = RUNNING.to(
        COMPLETED, by=(*WORKER, "supervisor", "admin"), when=no_pending_tasks, do=tell_gone
    )
    error_unrecoverable = RUNNING.to(FAILED, by=WORKER, takes=Error, when=not_retryable, do=FAILURE)
    terminate = any_live.to(TERMINATED, by=SUPERVISOR, do=tell_gone)

    # What a job assigns to a running worker, and withdraws when the job ends.
    assign = (
        RUNNING.to(
            RUNNING,
            by="system",
            takes=Task,
            when=is_free,
            do=(add_task, *HEARD),
            meaning="begins at once",
        )
        | RUNNING.stay(by="system", takes=Task, do=(add_task, *HEARD), meaning="waits for its turn")
        | PAUSED.stay(by="system", takes=Task, do=(add_task, *HEARD), meaning="waits for the supervisor")
    )
    drop = (
        RUNNING.to(RUNNING, by="system", takes=Over, when=is_at_it, do=drop_tasks, meaning="stops at once")
        | RUNNING.stay(by="system", takes=Over, do=drop_tasks)
        | PAUSED.stay(by="system", takes=Over, do=drop_tasks)
    )

    # How its work ends: a task is done, or (4.1) an error persists after all retries.
    next_task = RUNNING.on_done.to(RUNNING, when=more_tasks, do=finish_task)
    own_tasks_done = RUNNING.on_done.to(COMPLETED, when=did_its_own, do=finish_task)
    task_done = RUNNING.on_done.stay(do=finish_task)
    exhausted = RUNNING.on_error(*TRANSIENT, *EXHAUSTED).to(
        PAUSED, do=(note_error, LOG_ERROR, hold_reached, tell_down), sets="paused_at"
    )
    crashed = RUNNING.on_error(*CRASHES).to(FAILED, do=CRASH)
    failed = RUNNING.on_error.to(FAILED, do=FAILURE)
    safe_point = RUNNING.to(
        RUNNING, by="system", takes=Reached, do=hold_reached, meaning="kept now and then; the task goes on"
    )

    # 4.1: a supervisor without a word for the worker's patience. Who runs asks for one.
    keep_alive = any_live.stay(by=SUPERVISOR, do=HEARD, meaning="a word")
    listen = (
        IDLE.every(a_third).stay(do=note_silence)
        | RUNNING.every(until_next_third).stay(do=(note_silence, ask_for_word))
        | PAUSED.every(a_third).stay(do=note_silence)
    )
    supervisor_timeout = (IDLE | RUNNING | PAUSED).always.to(
        TERMINATED, when=is_silent, do=(note_timeout_of_supervisor, tell_gone)
    )
    stand_in = IDLE.always.to(
        RUNNING,
        when=stands_in,
        do=(tell_up, *HEARD),
        sets=("started_at", "running_since"),
        meaning="in place of a worker that failed",
    )

    @staticmethod
    @invariant("a worker that is paused was running before: the condition of resume")
    def paused_was_running(seen: Explored) -> bool:
        """Without a start there is nothing to resume."""
        return not seen.in_state("PAUSED") or seen.fired("start_task") or seen.fired("stand_in")

    @staticmethod
    @invariant("only a running worker works")
    def works_only_while_running(seen: Explored) -> bool:
        """Pausing and terminating take the work away."""
        return not seen.work or seen.in_state("RUNNING")


class Job(
    Statechart,
    version=1,
    name="supervision.job",
    context=JobData,
    cancel="cancel",
    max_depth=DEEPEST,
):
    """A job that is validated, waits for workers and runs on them."""

    SUBMITTED = State(
        initial=True,
        meaning="received, not validated yet",
        entry=SUBMIT,
        run=Run("validate_job", heartbeat=HEARTBEAT, lease=LEASE, lost_code=HOST_LOST, lost=MOST_LOSSES),
    )
    PENDING = State(meaning="validated", waits_for="free workers", entry=ask_for_workers)
    RUNNING = State(
        meaning="executing on its workers", waits_for="its workers", entry=STARTED, exit=release_workers
    )
    COMPLETED = Final(meaning="finished", entry=(ENDED, tell_over))
    FAILED = Final(meaning="ended by an error", entry=(ENDED, tell_over, CANCEL_CHILDREN))
    CANCELED = Final(meaning="canceled by a user or the system", entry=(ENDED, tell_over, CANCEL_CHILDREN))

    # 2.3: the six rules, with cancel from SUBMITTED and (4.2) the validation error.
    validate = SUBMITTED.to(PENDING, by="system", when=schema_valid, do=STORE) | SUBMITTED.to(
        FAILED, by="system", do=(note_problems, LOG_ERROR)
    )
    allocate_resources = PENDING.to(
        RUNNING, by="system", takes=Allocation, when=resources_available, do=assign_tasks
    )
    success = RUNNING.to(COMPLETED, by=WORKER, takes=Result, do=store_result)
    error = RUNNING.to(FAILED, by=WORKER, takes=Error, do=(note_failure, LOG_ERROR))
    cancel = any_live.to(CANCELED, by=OWNER)

    # 4.2: a crash replaces the worker, time cancels; without resources the supervisor tries again.
    worker_crash = RUNNING.stay(
        by=WORKER,
        takes=Crash,
        when=crashes_left,
        do=keep_reached,
        counts="crashes",
        meaning="the worker is replaced",
    ) | RUNNING.to(FAILED, by=WORKER, takes=Crash, do=(note_crash, LOG_ERROR))
    reallocate = RUNNING.stay(by="system", takes=Moved, do=move_task, meaning="another worker for a part")
    not_validated = SUBMITTED.on_error.to(
        FAILED, do=(put(error="not_validated: the validation did not end"), LOG_ERROR)
    )
    timeout = any_live.after(job_limit).to(CANCELED, do=note_timeout)

    # Its parts and sub-jobs.
    left_at = RUNNING.stay(by="system", takes=Reached, do=keep_reached, meaning="a part without a worker")
    task_done = RUNNING.stay(by="system", takes=TaskDone, do=keep_result)
    workers_done = RUNNING.always.to(COMPLETED, when=all_done, do=gather_results)
    delegate = RUNNING.stay(
        by=(*WORKER, "user", "supervisor", "admin"),
        takes=SubJob,
        when=depth_left,
        do=spawn("supervision.job", sub_job),
        meaning="a sub-job",
    )

    @staticmethod
    @invariant("a job runs only after it was validated and its workers were allocated")
    def runs_only_when_allocated(seen: Explored) -> bool:
        """There is no way around PENDING."""
        return not seen.in_state("RUNNING") or (seen.fired("validate") and seen.fired("allocate_resources"))


class Supervisor(
    Statechart,
    version=1,
    name="supervision.supervisor",
    context=SupervisorData,
    cancel="dismiss",
    max_depth=1,
    accepts={
        "no-final": "a supervisor is there for as long as its workspace is",
        "dead-end:OPEN": "it is where it serves, and what it knows changes there",
    },
):
    """Who knows which worker of a workspace is free, and gives jobs to workers: one thing at a time.

    It never ends, so that workers and jobs can always report to it.
    """

    OPEN = State(initial=True, meaning="gives tasks to workers", waits_for="workers and jobs")

    worker_up = OPEN.stay(by="system", takes=Up, do=(note_up, place))
    worker_down = OPEN.stay(by="system", takes=Down, do=note_down)
    worker_asks = OPEN.stay(by="system", takes=Asks, do=give_word)
    worker_gone = OPEN.stay(
        by="system", takes=Gone, do=(spawn("supervision.worker", substitute), note_gone, place)
    )
    place_free = OPEN.stay(by="system", takes=Free, do=(note_free, place))
    job_waits = OPEN.stay(by="system", takes=Waits, do=(note_waiting, place))
    job_over = OPEN.stay(by="system", takes=JobOver, do=(note_over, place))
    dismiss = OPEN.stay(
        by=("supervisor", "admin"),
        do=dismiss_all,
        meaning="ends its workers, and the jobs that need them",
    )
