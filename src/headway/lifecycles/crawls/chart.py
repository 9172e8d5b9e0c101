"""The life of a crawl or ingestion job, as a transition table."""

from __future__ import annotations

from headway import AtMost, Final, Retry, Run, State, Statechart, any_live
from headway.actions import clear, count, put, stamp, topic
from headway.lifecycles.crawls.failures import CLASSES, MOST_ATTEMPTS
from headway.lifecycles.crawls.record import Amounts, Beat, Claim, CrawlData, Fault
from headway.lifecycles.crawls.rules import (
    BEAT,
    DOMAIN,
    SILENCE,
    backoff,
    begin_counting,
    count_amounts,
    count_duration,
    estimate,
    has_counted,
    has_the_job,
    heed_domain,
    is_anti_bot,
    is_last_attempt,
    is_permanent,
    note_error,
    note_start,
    note_wall_clock,
    slow_down,
    wall_clock_limit,
)

WORKER = ("worker", "system")
OWNER = ("user", "system")

PLACE = AtMost("{domain_concurrency}", of="{kind}:{domain}")
PASSING = tuple(name for name, (kind, _) in CLASSES.items() if kind != "permanent")
TAKE = Run(
    "take_job",
    lost_code="timeout_soft",
    timeout_code="timeout_soft",
    timeout="1m",
    errors=tuple(CLASSES),
    retry=Retry(MOST_ATTEMPTS - 1, on=PASSING, base="2s", factor=2, cap="1m", jitter=0.25),
    concurrency=PLACE,
)
# Ahead of jobs that are to be taken up: who has been let in to the domain is not overtaken.
CRAWL = Run(
    "crawl",
    heartbeat=BEAT,
    lease=SILENCE,
    lost_code="timeout_soft",
    errors=tuple(CLASSES),
    priority=1,
    concurrency=PLACE,
)

UPDATED = stamp("updated_at")
ACCEPTED = (stamp("accepted_at", "updated_at"), heed_domain)
ATTEMPT = (count("attempts"), UPDATED, heed_domain)
ENDED = (stamp("ended_at", "updated_at"), count_duration)
MENDED = put(error_code=None, message=None, error_context={})
BEGIN = (note_start, begin_counting)
RESULTS = topic("crawl.succeeded", "kind", "url", "domain")


class CrawlJob(
    Statechart, version=1, name="crawls.crawl", context=CrawlData, facts=(DOMAIN,), cancel="cancel"
):
    """A crawl or ingestion job; being created is the event `accept`."""

    queued = State(initial=True, meaning="accepted", waits_for="a worker", run=TAKE, entry=ACCEPTED)

    working = State(meaning="a worker of the engine has it, which watches its lease", run=CRAWL)
    reporting = State(meaning="a worker from outside has it", waits_for="its next sign of life")
    running = State(
        working,
        reporting,
        meaning="a worker has started it and gives signs of life",
        entry=ATTEMPT,
        exit=clear("eta_seconds"),
    )

    backing_off = State(waits_for="the time of the next attempt")
    retry_due = State(waits_for="a worker for the next attempt", run=TAKE, entry=heed_domain)
    retry_pending = State(
        backing_off, retry_due, meaning="failed for now", entry=(UPDATED, clear("worker_id"))
    )

    succeeded = Final(meaning="completed, its results are there", entry=(*ENDED, MENDED))
    failed = Final(meaning="an error that no retry mends, or none is left", entry=ENDED)
    canceled = Final(meaning="canceled by a user or the system", entry=ENDED)

    # An attempt begins: with the worker of the engine that takes the job up, or with one from outside.
    taken = queued.on_done.to(working, do=BEGIN) | retry_due.on_done.to(working, do=BEGIN)
    start = (queued | retry_due).to(reporting, by=WORKER, takes=Claim, do=BEGIN)
    not_taken = queued.on_error.to(failed, do=note_error) | retry_due.on_error.to(failed, do=note_error)

    heartbeat = reporting.to(
        reporting, by=WORKER, takes=Beat, when=has_the_job, sets="updated_at", meaning="a sign of life"
    )
    progress = reporting.to(
        reporting,
        by=WORKER,
        takes=Amounts,
        when=has_the_job,
        do=(count_amounts, estimate),
        sets="updated_at",
        meaning="a sign of life too",
    )
    counted = working.always.stay(
        when=has_counted, do=estimate, sets="updated_at", meaning="the work has counted something"
    )
    complete = running.to(
        succeeded, by=WORKER, takes=Amounts, when=has_the_job, do=count_amounts, emit=RESULTS
    ) | working.on_done.to(succeeded, do=count_amounts, emit=RESULTS)
    cancel = any_live.to(canceled, by=OWNER, sets="canceled_at")

    # error(code): reported by the worker, or what has become of its work; the first row that holds.
    error = (
        running.on("error").to(
            failed,
            by=WORKER,
            takes=Fault,
            when=(has_the_job, is_permanent),
            do=note_error,
            meaning="no retry mends it",
        )
        | running.on("error").to(
            retry_pending,
            by=WORKER,
            takes=Fault,
            when=(has_the_job, is_anti_bot),
            do=(note_error, slow_down),
            meaning="tried again with care",
        )
        | running.on("error").to(
            retry_pending,
            by=WORKER,
            takes=Fault,
            when=has_the_job,
            do=note_error,
            meaning="it is transient",
        )
    )
    silent = reporting.after(SILENCE).to(retry_pending, do=note_error, meaning="timeout_soft")
    given_up = backing_off.always.to(failed, when=is_last_attempt, meaning="no attempt is left")
    retry = backing_off.after(backoff).to(retry_due, meaning="the next attempt")
    wall_clock = any_live.after(wall_clock_limit).to(
        failed, do=note_wall_clock, meaning="its time is used up"
    )
