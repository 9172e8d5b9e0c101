"""The lives of a worker and of a job, as two transition tables."""

from __future__ import annotations

from headway import Final, Retry, Run, State, Statechart, any_live, invariant
from headway.actions import log, put, record, spawn, stamp, tell
from headway.lifecycles.supervision.rules import (
    DEEPEST,
    EXHAUSTED,
    TRANSIENT,
    UNRECOVERABLE,
    Assignment,
    Error,
    Finished,
    JobData,
    Result,
    SubJob,
    WorkerData,
    all_workers,
    crashes_left,
    depth_left,
    finish_task,
    has_capacity,
    job_limit,
    no_pending_tasks,
    not_retryable,
    note_crash,
    note_error,
    note_problems,
    one_worker,
    plan_tasks,
    resources_available,
    schema_valid,
    store_result,
    sub_job,
    supervisor_patience,
    take_tasks,
    try_allocation,
)
from headway.statechart import model
from headway.statechart.prove import Explored

SUPERVISOR = ("supervisor", "system")
WORKER = ("worker", "system")
OWNER = ("user", "supervisor", "system")

STARTED = stamp("started_at")
ENDED = stamp("completed_at")
LOG_ERROR = log("error", "error")
SUBMIT = stamp("submitted_at")
STORE = record("job", "{instance}")
RELEASE = tell("children", "terminate")
CANCEL_CHILDREN = tell("children", "cancel")
START_WORKERS = tell("children", "start_task", "tasks")
ALLOCATE = (spawn("supervision.worker", all_workers), START_WORKERS)
REPLACE = (spawn("supervision.worker", one_worker), START_WORKERS)
CRASH = (note_error, LOG_ERROR, tell("parent", "worker_crash", "error"))


class Worker(Statechart, version=1, name="supervision.worker", context=WorkerData, cancel="terminate"):
    """A worker that a supervisor starts, pauses, resumes and terminates."""

    IDLE = State(initial=True, meaning="created, no task assigned yet", waits_for="a task")
    RUNNING = State(
        meaning="executing its tasks",
        run=Run(
            "run_tasks",
            retry=Retry(3, on=TRANSIENT, base="1s", factor=2, jitter=0.2),
            errors=(*TRANSIENT, *EXHAUSTED, *UNRECOVERABLE),
        ),
    )
    PAUSED = State(meaning="suspended by the supervisor", waits_for="the supervisor")
    COMPLETED = Final(meaning="finished all its tasks", entry=ENDED)
    FAILED = Final(meaning="met an error it cannot recover from", entry=ENDED)
    TERMINATED = Final(meaning="stopped by force", entry=ENDED)

    # 1.3: the six rules. That a paused worker ran before is proven by the invariant below.
    start_task = IDLE.to(
        RUNNING, by=SUPERVISOR, takes=Assignment, when=has_capacity, do=take_tasks, sets="started_at"
    )
    pause = RUNNING.to(PAUSED, by=SUPERVISOR, sets="paused_at")
    resume = PAUSED.to(RUNNING, by=SUPERVISOR, clears="paused_at")
    complete_tasks = RUNNING.to(COMPLETED, by=WORKER, when=no_pending_tasks, do=tell("parent", "worker_done"))
    error_unrecoverable = RUNNING.to(FAILED, by=WORKER, takes=Error, when=not_retryable, do=CRASH)
    terminate = any_live.to(TERMINATED, by=SUPERVISOR)

    # What its work reports: a task done, all done, or (4.1) an error that retries did not mend.
    task_done = RUNNING.stay(by=WORKER, takes=Finished, do=finish_task)
    all_done = RUNNING.on_done.to(COMPLETED, do=(put(tasks=[]), tell("parent", "worker_done")))
    exhausted = RUNNING.on_error(*TRANSIENT, *EXHAUSTED).to(
        PAUSED, do=(note_error, LOG_ERROR), sets="paused_at"
    )
    crashed = RUNNING.on_error.to(FAILED, do=CRASH)
    supervisor_timeout = (IDLE | RUNNING | PAUSED).after(supervisor_patience).to(TERMINATED)

    @staticmethod
    @invariant("a worker that is paused was running before: the condition of resume")
    def paused_was_running(seen: Explored) -> bool:
        """Without `start_task` there is nothing to resume."""
        return not seen.in_state("PAUSED") or seen.fired("start_task")

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
    facts=(model.Fact(name="free_workers", meaning="how many workers can be allocated now", example=3),),
    cancel="cancel",
    max_depth=DEEPEST + 1,  # the workers of a job at the greatest depth are one deeper
):
    """A job that is validated, waits for workers and runs on them."""

    SUBMITTED = State(initial=True, meaning="received, not validated yet", entry=SUBMIT)
    PENDING = State(meaning="validated", waits_for="free workers")
    RUNNING = State(meaning="executing on its workers", waits_for="its workers", entry=STARTED, exit=RELEASE)
    COMPLETED = Final(meaning="finished", entry=ENDED)
    FAILED = Final(meaning="ended by an error", entry=ENDED)
    CANCELED = Final(meaning="canceled by a user or the system", entry=ENDED)

    # 2.3: the six rules, with cancel from SUBMITTED and (4.2) the validation error.
    validate = SUBMITTED.to(PENDING, by="system", when=schema_valid, do=(plan_tasks, STORE)) | SUBMITTED.to(
        FAILED, by="system", do=(note_problems, LOG_ERROR)
    )
    allocate_resources = PENDING.to(RUNNING, by="system", when=resources_available, do=ALLOCATE)
    success = RUNNING.to(COMPLETED, by=WORKER, takes=Result, do=store_result)
    error = RUNNING.to(FAILED, by=WORKER, takes=Error, do=(note_error, LOG_ERROR))
    cancel = any_live.to(CANCELED, by=OWNER, do=CANCEL_CHILDREN)

    # 4.2: a crash replaces the worker, time cancels, missing resources wait.
    worker_crash = RUNNING.stay(by=WORKER, when=crashes_left, do=REPLACE, counts="crashes") | RUNNING.to(
        FAILED, by=WORKER, do=(note_crash, LOG_ERROR)
    )
    try_again = PENDING.every("5s").stay(do=try_allocation)
    timeout = any_live.after(job_limit).to(CANCELED, do=CANCEL_CHILDREN)

    # Its workers and sub-jobs.
    worker_done = RUNNING.stay(by=WORKER, counts="workers_done")
    workers_done = RUNNING.always.to(COMPLETED, when="counters.workers_done >= worker_count")
    delegate = RUNNING.stay(
        by=WORKER, takes=SubJob, when=depth_left, do=spawn("supervision.job", sub_job), meaning="a sub-job"
    )

    @staticmethod
    @invariant("a job runs only after it was validated and its workers were allocated")
    def runs_only_when_allocated(seen: Explored) -> bool:
        """There is no way around PENDING."""
        return not seen.in_state("RUNNING") or (seen.fired("validate") and seen.fired("allocate_resources"))
