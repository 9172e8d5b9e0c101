"""Bugs to be found: each breaks a rule of the engine, the worker, a relay or the store."""

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta
from math import inf
from typing import Any

import pytest

from headway.codec import replace
from headway.engine import batch, commit
from headway.engine.engine import Engine
from headway.engine.upgrade import upgrade, versions
from headway.errors import StoreUnavailableError
from headway.outbox import delivery, plan
from headway.outbox.message import message_of
from headway.outbox.relay import Relay
from headway.statechart.effects import ClosedAsk
from headway.statechart.refusal import Veto
from headway.statechart.step import fencing, selection
from headway.statechart.step import work as step_work
from headway.statechart.upgrade import instance, open_items
from headway.store.queries import Claim
from headway.store.rows import WorkRow
from headway.testing.memory import claims, messages, unit, work
from headway.testing.memory.tables import Tables
from headway.worker import timers as timers_module
from headway.worker.attempt import RunningAttempts
from headway.worker.heartbeat import Deadlines, Heartbeat

Patch = pytest.MonkeyPatch
Bug = Callable[[Patch], None]


def nothing(*_args: Any, **_named: Any) -> None:
    """Do nothing."""


def asks_nothing(*_args: Any, **_named: Any) -> Iterator[Any]:
    """A part of a unit that reads and writes nothing."""
    return iter(())


def no_fencing_by_attempt(patch: Patch) -> None:
    """An attempt that is over can still end the work."""

    def open_work(draft: Any, event: Any) -> Any:
        for state, each in draft.work.items():
            if each.id == event.ref:
                return state, each
        raise Veto("stale", "gone")

    for module in (fencing, step_work):
        patch.setattr(module, "open_work", open_work)


def a_refused_order_leaves_traces(patch: Patch) -> None:
    """What an order has changed before it failed is written."""
    patch.setattr(commit.Undo, "all", nothing)


def requests_are_not_remembered(patch: Patch) -> None:
    """A repeated request runs again."""
    patch.setattr(batch.Batch, "_remember", nothing)


def the_cursor_moves_first(patch: Patch) -> None:
    """A relay writes how far it is before it delivers."""
    work_through = Relay._work_through

    async def hasty(self: Any, plan: Any) -> bool:
        if not await self._settle(self._state.settlement(plan.cursor)):
            return False
        return await work_through(self, plan)

    patch.setattr(Relay, "_work_through", hasty)


def letters_do_not_block(patch: Patch) -> None:
    """What follows a message that was not taken overtakes it."""
    patch.setattr(plan.Backlog, "add", nothing)


def timers_stay(patch: Patch) -> None:
    """The row of a timer whose state was left is not deleted."""

    def write_ends(written: Any, before: Any, after: Any) -> None:
        kept = {each.id for each in after.work.values()}
        written.changes.work_gone += [
            written.key(each.id) for each in before.work.values() if each.id not in kept
        ]

    patch.setattr(batch, "write_ends", write_ends)


def claims_ignore_leases(patch: Patch) -> None:
    """Work that somebody does is handed out again."""
    claim_work = claims.claim_due

    def claim(tables: Tables, wanted: Claim, now: datetime) -> list[WorkRow]:
        for key, row in tables.work.items():
            tables.work[key] = replace(row, worker=None)
        return claim_work(tables, wanted, now)

    patch.setattr(work, "claim_due", claim)


def reports_are_dropped(patch: Patch) -> None:
    """A child's change does not reach its parent."""
    patch.setattr(batch.Batch, "_report", asks_nothing)


def owners_only_gain(patch: Patch) -> None:
    """The count of an owner's instances never goes down."""
    count = batch.Batch._count

    def gain(self: Any, counter: Any, by: int) -> None:
        if by > 0:
            count(self, counter, by)

    patch.setattr(batch.Batch, "_count", gain)


def history_has_holes(patch: Patch) -> None:
    """A step whose event is a timer's leaves no line."""
    write_history = commit.write_history

    def write(written: Any, living: Any, done: Any) -> None:
        if not any(row.event.startswith("after.") for row in done.history):
            write_history(written, living, done)

    patch.setattr(batch, "write_history", write)


def retries_have_new_ids(patch: Patch) -> None:
    """A message that is tried again has another id."""

    def renamed(letter: Any) -> Any:
        message = message_of(letter)
        return replace(message, id=f"{message.id}{message.attempt}")

    patch.setattr(delivery, "message_of", renamed)


def a_lost_lease_is_believed(patch: Patch) -> None:
    """A worker whose lease is not extended goes on as if it were."""

    async def extend(self: Any, due: Any, now: float) -> None:
        await self._store.work.extend(self._worker, [running.ref.key for running in due])
        for running in due:
            running.beat_at = now + running.row.heartbeat / 1_000
            running.lease_until = now + running.row.lease / 1_000

    async def turn(self: Any) -> bool:
        for running in self._attempts.held.values():
            running.deadline = running.lease_until = inf
        return False

    patch.setattr(Heartbeat, "_extend", extend)
    patch.setattr(Deadlines, "turn", turn)
    cancel = RunningAttempts.cancel

    def stubborn(self: Any, running: Any, reason: str) -> None:
        if reason != "lost":
            cancel(self, running, reason)  # type: ignore[arg-type]

    patch.setattr(RunningAttempts, "cancel", stubborn)


def answers_before_the_commit(patch: Patch) -> None:
    """A sender is told of a success that was never written."""
    ended = Engine._ended

    def hopeful(self: Any, calls: Any, unit: Any, error: Any) -> None:
        decided = all(order.answer is not None for order, _ in calls)
        lost = isinstance(error, StoreUnavailableError) and decided
        ended(self, calls, unit, None if lost else error)

    patch.setattr(Engine, "_ended", hopeful)


def leases_are_short(patch: Patch) -> None:
    """Work is taken from a worker that still has a second."""
    expired = work._expired

    def early(tables: Tables, now: datetime, limit: int, versions: Any) -> list[WorkRow]:
        return expired(tables, now + timedelta(seconds=2.5), limit, versions)

    patch.setattr(work, "_expired", early)


def updates_are_lost(patch: Patch) -> None:
    """A unit sees an instance as it was a while ago."""
    read = unit._read
    old: dict[Any, Any] = {}

    def stale(tables: Tables, wanted: Any, now: datetime) -> Any:
        found = read(tables, wanted, now)
        for key, row in found.instances.items():
            found.instances[key], old[key] = old.get(key, row), row
        return found

    patch.setattr(unit, "_read", stale)


def versions_are_not_compared(patch: Patch) -> None:
    """Who expects a version gets any."""
    send = batch.Batch._send

    def careless(self: Any, order: Any, event: Any) -> Any:
        expected, order.expected_seq = order.expected_seq, None
        try:
            return (yield from send(self, order, event))
        finally:
            order.expected_seq = expected

    patch.setattr(batch.Batch, "_send", careless)


def letters_are_forgotten(patch: Patch) -> None:
    """A message that was not taken is not kept."""
    settle = messages._settle

    def forgetful(tables: Tables, settlement: Any, now: datetime) -> bool:
        kept = tuple(letter for letter in settlement.letters if letter.attempts == 0 or letter.dead)
        return settle(tables, replace(settlement, letters=kept), now)

    patch.setattr(messages, "_settle", forgetful)


def due_timers_are_put_off_for_ever(patch: Patch) -> None:
    """A timer that is due is not fired but moved."""

    async def fire(_self: Any, due: Any) -> Any:
        return [StoreUnavailableError("no") for _ in due]

    patch.setattr(timers_module.Timers, "_fire", fire)


def a_queue_is_delivered_backwards(patch: Patch) -> None:
    """The messages of an instance leave in the wrong order."""
    lanes = plan.lanes

    def backwards(rows: Any) -> Any:
        return [[*reversed(lane)] for lane in lanes(rows)]

    patch.setattr(delivery, "lanes", backwards)


def asks_stay_open(patch: Patch) -> None:
    """The row of an ask that was answered stays open."""
    patch.setitem(commit.WRITERS, ClosedAsk, nothing)


def an_upgrade_forgets_the_time_waited(patch: Patch) -> None:
    """A timer that another delay replaces counts from the upgrade on."""
    due = open_items._due

    def anew(passage: Any, alarm: Any, _begun: datetime) -> datetime:
        return due(passage, alarm, passage.now)

    patch.setattr(open_items, "_due", anew)


def an_upgrade_lets_old_work_go_on(patch: Patch) -> None:
    """Work that another handler is to do goes on as the attempt it was."""
    carried = open_items._carried

    def kept(passage: Any, node: Any, was: Any) -> Any:
        held = passage.snapshot.work.get(was.id) if was is not None else None
        return carried(passage, node, was) if held is None else held

    patch.setattr(open_items, "_carried", kept)


def an_upgrade_ends_with_its_first_page(patch: Patch) -> None:
    """What was not reached before an interruption is not reached afterwards either."""

    async def first(store: Any, chart: str) -> AsyncIterator[Any]:
        async for page in versions.pages(store, chart):
            yield page
            return

    patch.setattr(upgrade, "pages", first)


def an_upgrade_tells_no_parent(patch: Patch) -> None:
    """A child is in another state now, and its parent counts it in the old one."""
    patch.setattr(instance, "_report", nothing)


def an_undo_keeps_the_new_times(patch: Patch) -> None:
    """What was brought back has the timers of the new version."""
    changed = instance.changed

    def forgetful(before: Any, after: Any) -> Any:
        return {field: was for field, was in changed(before, after).items() if field != "timers"}

    patch.setattr(instance, "changed", forgetful)


def two_eyes_are_enough(patch: Patch) -> None:
    """Whoever did the one may do the other too."""
    patch.setattr(selection, "duty_objection", nothing)


def claims_ignore_versions(patch: Patch) -> None:
    """A process gets work of versions that it does not know."""
    claim_work = claims.claim_due

    def careless(tables: Tables, claim: Any, now: datetime) -> list[WorkRow]:
        known = {(row.chart, row.version) for row in tables.work.values()}
        return claim_work(tables, replace(claim, versions=tuple(known)), now)

    patch.setattr(work, "claim_due", careless)


BUGS: list[Bug] = [
    claims_ignore_versions,
    no_fencing_by_attempt,
    a_refused_order_leaves_traces,
    requests_are_not_remembered,
    the_cursor_moves_first,
    letters_do_not_block,
    timers_stay,
    claims_ignore_leases,
    reports_are_dropped,
    owners_only_gain,
    history_has_holes,
    retries_have_new_ids,
    a_lost_lease_is_believed,
    answers_before_the_commit,
    leases_are_short,
    updates_are_lost,
    versions_are_not_compared,
    letters_are_forgotten,
    due_timers_are_put_off_for_ever,
    a_queue_is_delivered_backwards,
    asks_stay_open,
    an_upgrade_forgets_the_time_waited,
    an_upgrade_lets_old_work_go_on,
    an_upgrade_ends_with_its_first_page,
    an_upgrade_tells_no_parent,
    an_undo_keeps_the_new_times,
    two_eyes_are_enough,
]
