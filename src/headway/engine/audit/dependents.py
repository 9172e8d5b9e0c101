"""The timers and work that stand beside instances: whether they are what the instances wait for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeVar, get_args

from headway.codec import Value, decode
from headway.errors import InputError, StoreError, StoreFullError, StoreUnavailableError
from headway.statechart.model import FIELD, Limit, Model, Run
from headway.statechart.snapshot import OpenWork, Snapshot, Timer
from headway.store.port import Owned, Store
from headway.store.queries import TimerQuery, WorkQuery
from headway.store.rows import InstanceRow, Key, TimerRow, WorkRow

T = TypeVar("T")

PUT_OFF = timedelta(minutes=1)
"""How long a timer that cannot fire is postponed, and lost work that its instance does not accept back."""
SKEW = timedelta(minutes=1)
"""How far a clock may have been set back since a time was written."""
COPIED = ("handler", "queue", "priority", "timeout", "heartbeat", "lease")
"""Columns of a work row that are copied from the chart unchanged."""
PAGE = 500


class UnreadableError(StoreError):
    """What stands in the database cannot be what the engine has written there."""


class Lived(Value):
    """An instance, and the versions of its chart by which it has lived, the present one first."""

    row: InstanceRow
    snapshot: Snapshot
    models: tuple[Model, ...]
    now: datetime


def timer_flaws(rows: Mapping[str, TimerRow], lived: Lived) -> Iterable[str]:
    """What is wrong with the timers of an instance."""
    for id_, timer in lived.snapshot.timers.items():
        row = rows.get(id_)
        if row is None:
            yield f"the timer {id_} is gone"
        elif changed := [*_timer_changes(row, timer, lived)]:
            yield f"the timer {id_} was changed: {', '.join(changed)}"


def _timer_changes(row: TimerRow, timer: Timer, lived: Lived) -> Iterable[str]:
    yield from _identity_changes(row, lived)
    if row.event != timer.event:
        yield "event"
    # One that was due and could not fire is put off, again and again.
    is_put_off = timer.due <= lived.now + SKEW and timer.due < row.due <= lived.now + PUT_OFF + SKEW
    if row.due != timer.due and not is_put_off:
        yield "due"


def _identity_changes(row: TimerRow | WorkRow, lived: Lived) -> Iterable[str]:
    """Whether a row is its instance's: one of another version is taken by nobody."""
    pairs = {
        "instance": (row.instance, lived.row.id),
        "chart": (row.chart, lived.row.chart),
        "version": (row.version, lived.row.version),
    }
    return (name for name, (found, expected) in pairs.items() if found != expected)


def work_flaws(rows: Mapping[str, WorkRow], lived: Lived) -> Iterable[str]:
    """What is wrong with the work of an instance."""
    for state, work in lived.snapshot.work.items():
        row = rows.get(work.id)
        if row is None:
            yield f"the work {work.id} is gone"
        elif changed := [*_work_changes(row, state, work, lived)]:
            yield f"the work {work.id} was changed: {', '.join(changed)}"


def _work_changes(row: WorkRow, state: str, work: OpenWork, lived: Lived) -> Iterable[str]:
    yield from _identity_changes(row, lived)
    if row.attempt != work.attempt:
        yield "attempt"
    yield from min((_placing(row, *each) for each in _runs(state, lived.models)), key=len, default=())
    if row.worker is None and row.started_at is None:
        # Nobody has held it, who could have put it off. It may have been hastened.
        begun = max(lived.row.updated_at, lived.snapshot.since.get(state, lived.row.updated_at))
        if row.due > (work.due or begun):
            yield "due"
    longest = max(timedelta(milliseconds=row.lease), PUT_OFF)
    if row.leased_until is not None and row.leased_until > lived.now + longest + SKEW:
        yield "leased_until"


def _runs(state: str, models: Sequence[Model]) -> Iterable[tuple[str, Run]]:
    """The work of a state, as its chart declares it now, and as earlier versions may have declared it.

    After an upgrade a running attempt continues with the same handler and in the same queue.
    """
    present = next((each.run for model in models[:1] for each in model.states if each.id == state), None)
    if present is None:
        return
    yield state, present
    for model in models[1:]:
        for each in model.states:
            run = each.run
            if run is not None and (run.handler, run.queue) == (present.handler, present.queue):
                yield each.id, run


def _placing(row: WorkRow, state: str, run: Run) -> Sequence[str]:
    """In which columns a row of work is not what a chart says."""
    changed = [] if row.state == state else ["state"]
    changed += [name for name in COPIED if getattr(row, name) != getattr(run, name)]
    rate = run.rate if run.rate is not None and run.rate.per is not None else None
    keys = {"affinity": run.affinity, "concurrency": _key(run.concurrency), "rate": _key(rate)}
    changed += [name for name, template in keys.items() if not _fits(getattr(row, name), template)]
    numbers = {"at_once": _most(run.concurrency), "rate_most": _most(rate)}
    changed += [name for name, most in numbers.items() if most not in {None, getattr(row, name)}]
    per = None if rate is None else rate.per
    return [*changed, "rate_per"] if per not in {None, row.rate_per} else changed


def _key(limit: Limit | None) -> str | None:
    return None if limit is None else limit.key


def _most(limit: Limit | None) -> int | None:
    """The number of a limit; None for one that the context has filled in."""
    if limit is None:
        return 1
    return limit.most if isinstance(limit.most, int) else None


def _fits(key: str | None, template: str | None) -> bool:
    """Whether a key may be of a template, which the context at that time has filled in."""
    if key is None or template is None:
        return key is template
    return FIELD.search(template) is not None or key == template


async def strays(store: Store) -> AsyncIterator[tuple[Key, str]]:
    """Timers and work that no instance waits for, and asks without an instance, each with its instance."""
    tables: tuple[Owned, ...] = get_args(Owned)
    for table in tables:
        after: Key = ("", "")
        while page := await read(store.instances.owned(table, after, PAGE)):
            for key, instance in await _unknown(store, table, page):
                # Who had it a moment ago has deleted it with the same commit.
                if await _is_there(store, table, key) and await _unknown(store, table, [(key, instance)]):
                    yield instance, f"no instance waits for the {table} {key[1]}"
            after = page[-1][0]


async def _unknown(store: Store, table: Owned, rows: Sequence[tuple[Key, Key]]) -> list[tuple[Key, Key]]:
    """The rows that their instances, as they are now, do not know."""
    instances = {instance for _, instance in rows}
    try:
        found = {
            (row.tenant, row.id): _ids(table, row) for row in await read(store.instances.look_up(instances))
        }
    except UnreadableError:
        return []  # the audit of the instance tells it
    known = {instance: found.get(instance, frozenset()) for instance in instances}
    return [row for row in rows if (ids := known[row[1]]) is not None and row[0][1] not in ids]


def _ids(table: Owned, row: InstanceRow) -> frozenset[str] | None:
    """The ids that an instance waits for; None for asks, which are compared with the history."""
    if table == "ask":
        return None  # the history has all of them
    try:
        snapshot = decode(Snapshot, row.snapshot)
    except InputError:
        return None
    return frozenset(snapshot.timers if table == "timer" else (work.id for work in snapshot.work.values()))


async def _is_there(store: Store, table: Owned, key: Key) -> bool:
    tenant, name = key
    looks: dict[Owned, Callable[[], Awaitable[object]]] = {
        "timer": lambda: store.timers.page(TimerQuery(tenant, ids=(name,), limit=1)),
        "work": lambda: store.work.page(WorkQuery(tenant, ids=(name,), limit=1)),
        "ask": lambda: store.asks.get(key),
    }
    try:
        return bool(await read(looks[table]()))
    except UnreadableError:
        return True


async def read(reading: Awaitable[T]) -> T:
    """What a store answers; raises UnreadableError for what no store of ours has written."""
    try:
        return await reading
    except (StoreUnavailableError, StoreFullError):
        raise
    except (StoreError, InputError, ValueError, ArithmeticError) as error:
        raise UnreadableError(str(error)) from error
