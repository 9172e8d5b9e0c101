"""Numbers and times of a model that cannot be kept: retries, leases, deadlines, progress."""

from __future__ import annotations

from headway.clock import LONGEST
from headway.statechart import model
from headway.statechart.validation.contents import LEAVES, Found, ModelIndex, kind_name

WHOLE = 100
STEEPEST = 100


def numbers(index: ModelIndex) -> Found:
    """Numbers that lie outside what they count."""
    yield from _settings(index.whole)
    for state in index.whole.states:
        if state.run is not None:
            yield from _run_limits(state.id, state.run)
            yield from _shared_limits(state.id, state.run)
        if state.ask is not None:
            yield from _ask_limits(state.id, state.ask)
        low, high = state.progress or (0, WHOLE)
        if not 0 <= low <= high <= WHOLE:
            yield state.id, f"{state.id} has progress {state.progress}: it must be a range within 0 to 100"
        if state.kind in LEAVES - {"atomic"} and (state.run or state.ask):
            yield state.id, f"{state.id} is {kind_name(state.kind)} and cannot have run= or ask="


def _settings(whole: model.Model) -> Found:
    if whole.version < 1:
        yield "", f"the version must be a whole number of at least 1, not {whole.version}"
    for word, number in (("max_depth", whole.max_depth), ("max_children", whole.max_children)):
        if number is not None and number < 0:
            yield "", f"{word}= must be at least 0, not {number}"
    for role, number in whole.staff.items():
        if number < 0:
            yield "", f"staff= counts people: {role} cannot be {number}"


def durations(index: ModelIndex) -> Found:
    """Times that a calendar can hold: a document from outside may say anything."""
    for state in index.whole.states:
        run, ask = state.run, state.ask
        given = [] if run is None else [run.timeout, run.heartbeat, run.lease]
        given += [] if run is None else [time for policy in run.retry for time in (policy.base, policy.cap)]
        given += [] if run is None or run.rate is None else [run.rate.per]
        given += [] if ask is None else [ask.deadline, ask.remind, *(each.after for each in ask.escalate)]
        for time in given:
            if time is not None and not 0 <= time <= LONGEST:
                yield state.id, f"{state.id} has a time of {time} ms: it must be between 0 and 100 years"
    for row in index.whole.transitions:
        if isinstance(row.after, int) and not (row.repeats <= row.after <= LONGEST):
            yield (
                f"{row.name}@{row.source}",
                f"{row.name} has a delay of {row.after} ms, which is too short or too long",
            )
        if row.after is not None and not (row.events and row.events[0].startswith("after.")):
            yield (
                f"{row.name}@{row.source}",
                f"{row.name} has a delay and waits for {', '.join(row.events)}: use one of them",
            )


def timers(index: ModelIndex) -> Found:
    """Timers that come as one event: each of them would fire the rows of all."""
    seen: set[tuple[str, str]] = set()
    for row in index.whole.transitions if index.native else ():
        for event in row.events if row.after is not None else ():
            if (row.source, event) in seen:
                yield f"{row.name}@{row.source}", f"two timers of {row.source} send {event}"
            seen.add((row.source, event))


def _run_limits(place: str, run: model.Run) -> Found:
    if not run.handler:
        yield place, f"{place} runs a handler without a name"
    if run.lease <= run.heartbeat:
        yield place, f"{place} has a lease that ends before the next heartbeat"
    codes = (*run.errors, run.timeout_code, run.lost_code, *(code for each in run.retry for code in each.on))
    for code in dict.fromkeys(codes):
        if not code or "." in code:
            yield place, f"{place}: {code!r} is not an error code (one word without dots)"
    if run.lost is not None and not 0 <= run.lost <= model.LARGEST_LIMIT:
        yield place, f"{place} has lost={run.lost}: it must be between 0 and {model.LARGEST_LIMIT:,}"
    for policy in run.retry:
        if policy.times is not None and policy.times < 0:
            yield (
                place,
                f"{place} retries {policy.times} times: it must be a whole number, or None for no limit",
            )
        if not 0 <= policy.jitter <= 1 or not 1 <= policy.factor <= STEEPEST:
            yield place, f"{place} retries with jitter outside 0 to 1, or a factor outside 1 to {STEEPEST}"
    general = [index for index, policy in enumerate(run.retry) if not policy.on]
    if general and general[0] < len(run.retry) - 1:
        yield place, f"{place} has retries after one that covers every code: they never apply"


def _shared_limits(place: str, run: model.Run) -> Found:
    for word, limit in (("concurrency", run.concurrency), ("rate", run.rate)):
        if limit is None:
            continue
        if not limit.key:
            yield place, f"{place} has a {word} limit without a key: give it of="
        if isinstance(limit.most, str) and not model.FIELD.fullmatch(limit.most):
            yield (
                place,
                f"{place} has a {word} limit of {limit.most!r}: use a number, or one field as {{field}}",
            )
        if isinstance(limit.most, int) and not 1 <= limit.most <= model.LARGEST_LIMIT:
            yield (
                place,
                f"{place} has a {word} limit of {limit.most}: use 1 to {model.LARGEST_LIMIT:,}",
            )
    if run.concurrency is not None and run.concurrency.per is not None:
        yield place, f"{place} has concurrency= with per=: use rate= for a limit per time"
    if run.rate is not None and not run.rate.per:
        yield place, f"{place} has a rate limit without a time: give it per="
    if run.affinity == "":
        yield place, f"{place} has an affinity without a key"


def _ask_limits(place: str, ask: model.Ask) -> Found:
    if not ask.roles:
        yield place, f"{place} asks nobody: name a role"
    for name, wait in (("remind", ask.remind), *(("escalate", each.after) for each in ask.escalate)):
        if wait is not None and ask.deadline is not None and wait >= ask.deadline:
            yield place, f"{place} would {name} only after its deadline"
        if wait == 0:
            yield place, f"{place} would {name} at once"
