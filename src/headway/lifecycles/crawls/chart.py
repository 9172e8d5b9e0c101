"""The life of a crawl or ingestion job, as a transition table."""

from __future__ import annotations

from headway import AtMost, Final, Run, State, Statechart, any_live
from headway.actions import clear, count, stamp, topic
from headway.lifecycles.crawls.faults import CLASSES
from headway.lifecycles.crawls.rules import (
    Amounts,
    Claim,
    CrawlData,
    Fault,
    backoff,
    count_amounts,
    count_duration,
    estimate,
    is_anti_bot,
    is_last_attempt,
    is_permanent,
    is_unclaimed,
    note_error,
    note_wall_clock,
    note_worker,
    slow_down,
    wall_clock_limit,
)

WORKER = ("worker", "system")
OWNER = ("user", "system")

ACCEPTED = stamp("accepted_at", "updated_at")
ENDED = (stamp("ended_at", "updated_at"), count_duration, clear("eta_seconds"))
ATTEMPT = (count("attempts"), stamp("updated_at"))
RESULTS = topic("crawl.succeeded", "kind", "url", "domain")


class CrawlJob(Statechart, version=1, name="crawls.crawl", context=CrawlData, cancel="cancel"):
    """A crawl or ingestion job; being created is the event `accept`."""

    queued = State(initial=True, meaning="accepted", waits_for="a worker", entry=ACCEPTED)
    running = State(
        meaning="a worker has started it and gives signs of life",
        run=Run(
            "crawl",
            heartbeat="10s",
            lease="90s",
            lost_code="timeout_soft",
            errors=tuple(CLASSES),
            concurrency=AtMost("{domain_concurrency}", of="{kind}:{domain}"),
        ),
        entry=ATTEMPT,
    )
    retry_pending = State(
        meaning="failed for now", waits_for="the time of the next attempt", entry=stamp("updated_at")
    )
    succeeded = Final(meaning="completed, its results are there", entry=ENDED)
    failed = Final(meaning="an error that no retry mends, or none is left", entry=ENDED)
    canceled = Final(meaning="canceled by a user or the system", entry=ENDED)

    start = queued.to(running, by=WORKER, takes=Claim, do=note_worker, sets="started_at") | running.stay(
        by=WORKER,
        takes=Claim,
        when=is_unclaimed,
        do=note_worker,
        sets="updated_at",
        meaning="the worker of a further attempt",
    )
    heartbeat = running.stay(by=WORKER, sets="updated_at")
    progress = running.stay(by=WORKER, takes=Amounts, do=(count_amounts, estimate), sets="updated_at")
    complete = running.to(
        succeeded, by=WORKER, takes=Amounts, do=count_amounts, emit=RESULTS
    ) | running.on_done.to(succeeded, do=count_amounts, emit=RESULTS)
    cancel = any_live.to(canceled, by=OWNER, sets="canceled_at")

    # error(code): reported by the worker, or what has become of its work; the first row that holds.
    error = (
        running.on("error").to(
            failed, by=WORKER, takes=Fault, when=is_permanent, do=note_error, meaning="no retry mends it"
        )
        | running.on("error").to(
            failed, by=WORKER, takes=Fault, when=is_last_attempt, do=note_error, meaning="none is left"
        )
        | running.on("error").to(
            retry_pending,
            by=WORKER,
            takes=Fault,
            when=is_anti_bot,
            do=(note_error, slow_down),
            meaning="tried again with care",
        )
        | running.on("error").to(
            retry_pending, by=WORKER, takes=Fault, do=note_error, meaning="it is transient"
        )
    )
    retry = retry_pending.after(backoff).to(running, clears="worker_id", meaning="the next attempt")
    wall_clock = any_live.after(wall_clock_limit).to(
        failed, do=note_wall_clock, meaning="its time is used up"
    )
