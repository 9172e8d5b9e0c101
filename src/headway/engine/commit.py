"""A step becomes rows: what is new in a snapshot, and each effect by table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar, get_args

from headway.codec import encode, replace
from headway.engine.journal import BEGINNING, chained, sealed
from headway.errors import EngineError
from headway.statechart import effects
from headway.statechart.snapshot import Actor, Event, Snapshot, child_changed
from headway.statechart.step.step import Step
from headway.store.rows import (
    AskChange,
    AskClosing,
    AskRow,
    InstanceRow,
    Key,
    MessageRow,
    RecordRow,
    TimerRow,
    WorkRow,
    WorkVersion,
)
from headway.store.unit import Changes

Held = TypeVar("Held", TimerRow, WorkRow)
Noted = effects.OpenedAsk | effects.RenewedAsk | effects.ChangedAsk | effects.ClosedAsk
"""What a note keeps."""


class Living:
    """An instance as a batch sees it: as it was stored, and as it is after the calls decided so far."""

    __slots__ = ("created_at", "journal", "owner", "snapshot", "status", "stored")

    def __init__(
        self,
        snapshot: Snapshot,
        status: str,
        created_at: datetime,
        owner: str | None,
        *,
        journal: str = BEGINNING,
        stored: bool = False,
    ) -> None:
        self.snapshot = snapshot
        self.status = status
        self.created_at = created_at
        self.owner = owner
        self.journal = journal
        self.stored = stored

    def moved(self, snapshot: Snapshot, status: str) -> Living:
        """The same instance after a step."""
        return Living(snapshot, status, self.created_at, self.owner, journal=self.journal, stored=self.stored)


class Commit:
    """The rows of one step of one instance, written into the changes of a unit."""

    __slots__ = ("changes", "chart", "instance", "now", "tenant", "trace", "version")

    def __init__(
        self, changes: Changes, key: Key, after: Snapshot, *, now: datetime, trace: str | None
    ) -> None:
        """`after` is the instance as the step leaves it."""
        self.changes = changes
        self.tenant, self.instance = key
        self.chart, self.version = after.chart, after.version
        self.now = now
        self.trace = trace

    def key(self, name: str) -> Key:
        """A name within the instance's tenant."""
        return (self.tenant, name)


def instance_row(key: Key, living: Living, now: datetime) -> InstanceRow:
    """The row of an instance as it is now, sealed."""
    snapshot = living.snapshot
    return sealed(
        encode(snapshot),
        tenant=key[0],
        id=key[1],
        chart=snapshot.chart,
        version=snapshot.version,
        seq=snapshot.seq,
        status=living.status,
        ended=snapshot.ended,
        parent=snapshot.parent,
        owner=living.owner,
        created_at=living.created_at,
        updated_at=now,
        journal=living.journal,
    )


def write_history(commit: Commit, living: Living, done: Step) -> None:
    """The lines of history of a step, each chained to the one before it."""
    last = len(done.history) - 1
    for number, row in enumerate(done.history):
        line = chained(
            living.journal,
            tenant=commit.tenant,
            instance=commit.instance,
            seq=row.seq,
            row=row.index,
            at=row.at,
            event=row.event,
            transition=row.transition,
            before="+".join(row.before),
            after="+".join(row.after),
            actor=row.actor,
            reason=row.reason,
            attempt=row.attempt,
            data=None if row.data is None else encode(row.data).decode(),
            version=done.snapshot.version,
            note=_note(done.effects) if number == last else None,
        )
        living.journal = line.hash
        commit.changes.history.append(line)


def _note(done: tuple[effects.Effect, ...]) -> str | None:
    """What people were asked and saw, and what was closed: an answer names the question it belongs to."""
    told = [effect for effect in done if type(effect) in NOTED]
    return encode(told).decode() if told else None


def write_ends(commit: Commit, before: Snapshot, after: Snapshot) -> None:
    """Timers and work that were open before and are no longer, and states that were left."""
    for state, since in before.since.items():
        if after.since.get(state) != since:
            stay = (commit.tenant, before.chart, state, (commit.now - since).total_seconds())
            commit.changes.stays.append(stay)
    if before.timers:
        gone = [commit.key(timer) for timer in before.timers if timer not in after.timers]
        commit.changes.timers_gone += gone
    if before.work:
        kept = {work.id for work in after.work.values()}
        ended = [work.id for work in before.work.values() if work.id not in kept]
        commit.changes.work_gone += [commit.key(work) for work in ended]


def write_effects(commit: Commit, done: tuple[effects.Effect, ...]) -> None:
    """The rows of a step's effects; raises EngineError for an effect that nobody handles.

    Those that reach other instances are the batch's to handle.
    """
    for effect in done:
        writer = WRITERS.get(type(effect))
        if writer is not None:
            writer(commit, effect)
        elif type(effect) not in IN_BATCH:
            raise EngineError(f"no writer for the effect {type(effect).__name__}")


def write_cascade(commit: Commit, after: Snapshot, by: Actor) -> None:
    """The message by which a cancellation reaches the children."""
    data = {"to": "children", "cancel": True, "by": by}
    _publish(commit, f"{commit.instance}:{after.seq}:cancel", "deliver", "cancel", data=data)


def write_report(commit: Commit, report: effects.ReportToParent) -> None:
    """The message by which a parent hears of a child's change where it cannot hear of it at once."""
    event = child_changed(commit.instance, report.before, report.after, report.errors)
    data = {"to": report.parent, "data": event.data, "ref": event.ref}
    _publish(commit, report.id, "deliver", event.name, data=data)


def write_forward(commit: Commit, effect_id: str, event: Event, request_id: str | None) -> None:
    """The message by which a node that knows the instance's version sends it an event."""
    data = {
        "to": commit.instance,
        "data": event.data,
        "ref": event.ref,
        "attempt": event.attempt,
        "by": event.by,
        "request": request_id,
    }
    _publish(commit, effect_id, "deliver", event.name, data=data)


def write_versions(changes: Changes, upgraded: Mapping[Key, Snapshot]) -> None:
    """Timers and work of upgraded instances get their new version, also those that stay as they are."""
    changes.timers = [_of_version(row, upgraded) for row in changes.timers]
    changes.work = [_of_version(row, upgraded) for row in changes.work]
    for (tenant, instance), after in upgraded.items():
        changes.timers += [
            TimerRow(tenant, timer, instance, after.chart, after.version, set_.event, set_.due)
            for timer, set_ in after.timers.items()
        ]
        changes.work_versions += [WorkVersion(tenant, work.id, after.version) for work in after.work.values()]


def _of_version(row: Held, upgraded: Mapping[Key, Snapshot]) -> Held:
    after = upgraded.get((row.tenant, row.instance))
    return row if after is None else replace(row, version=after.version)


def _set_timer(commit: Commit, effect: effects.SetTimer) -> None:
    commit.changes.timers.append(
        TimerRow(
            commit.tenant,
            effect.timer,
            commit.instance,
            commit.chart,
            commit.version,
            effect.event,
            effect.due,
        )
    )


def _cancel_timer(commit: Commit, effect: effects.CancelTimer) -> None:
    """It may have been set in the same step, so that nothing open before tells of it; so may work."""
    commit.changes.timers_gone.append(commit.key(effect.timer))


def _cancel_work(commit: Commit, effect: effects.CancelWork) -> None:
    commit.changes.work_gone.append(commit.key(effect.work))


def _start_work(commit: Commit, effect: effects.StartWork) -> None:
    commit.changes.work.append(
        WorkRow(
            tenant=commit.tenant,
            id=effect.work,
            instance=commit.instance,
            chart=commit.chart,
            version=commit.version,
            state=effect.state,
            handler=effect.handler,
            queue=effect.queue,
            priority=effect.priority,
            attempt=effect.attempt,
            due=effect.due or commit.now,
            timeout=effect.timeout,
            heartbeat=effect.heartbeat,
            lease=effect.lease,
            affinity=effect.affinity,
            concurrency=effect.concurrency,
            at_once=effect.at_once,
            rate=effect.rate,
            rate_most=effect.rate_most,
            rate_per=effect.rate_per,
            trace=commit.trace,
        )
    )


def _ask_row(commit: Commit, effect: effects.OpenedAsk | effects.RenewedAsk, opened_at: datetime) -> AskRow:
    return AskRow(
        tenant=commit.tenant,
        id=effect.ask,
        instance=commit.instance,
        state=effect.state,
        roles=effect.roles,
        answers=effect.answers,
        form=effect.form,
        shows=encode(effect.shows).decode(),
        opened_at=opened_at,
        deadline=effect.deadline,
    )


def _open_ask(commit: Commit, effect: effects.OpenedAsk) -> None:
    commit.changes.asks.append(_ask_row(commit, effect, commit.now))


def _renew_ask(commit: Commit, effect: effects.RenewedAsk) -> None:
    commit.changes.asks_renewed.append(_ask_row(commit, effect, effect.opened_at))
    # Its last word on who may answer: calls before it in the same unit may have said something else.
    _change_ask(commit, effect)


def _change_ask(commit: Commit, effect: effects.ChangedAsk | effects.RenewedAsk) -> None:
    commit.changes.asks_changed.append(
        AskChange(
            tenant=commit.tenant,
            id=effect.ask,
            roles=effect.roles,
            claimed_by=effect.claimed_by,
            claimed_until=effect.claimed_until,
            delegated_to=effect.delegated_to,
        )
    )


def _close_ask(commit: Commit, effect: effects.ClosedAsk) -> None:
    commit.changes.asks_closed.append(
        AskClosing(commit.tenant, effect.ask, commit.now, effect.by, effect.event)
    )


def _message(commit: Commit, effect: effects.Message) -> None:
    _publish(commit, effect.id, effect.kind, effect.name, data=effect.data)


def _remind(commit: Commit, effect: effects.RemindAsk) -> None:
    data = {"ask": effect.ask, "roles": effect.roles, "delegated_to": effect.delegated_to}
    _publish(commit, effect.id, "live", "ask.reminded", data=data)


def _escalate(commit: Commit, effect: effects.EscalateAsk) -> None:
    _publish(commit, effect.id, "live", "ask.escalated", data={"ask": effect.ask, "roles": effect.roles})


def _log(commit: Commit, effect: effects.WriteLog) -> None:
    _publish(commit, effect.id, "log", effect.label, data=effect.data)


def _deliver(commit: Commit, effect: effects.Deliver) -> None:
    _publish(commit, effect.id, "deliver", effect.event, data={"to": effect.to, "data": effect.data})


def _publish(commit: Commit, effect_id: str, kind: str, name: str, *, data: Any) -> None:
    text = None if data is None else encode(data).decode()
    commit.changes.messages.append(
        MessageRow(commit.tenant, effect_id, commit.instance, kind, name, text, commit.now, commit.trace)
    )


def _record(commit: Commit, effect: effects.StoreRecord) -> None:
    text = encode(effect.data).decode()
    commit.changes.records.append(RecordRow(commit.tenant, effect.kind, effect.key, text, commit.now))


WRITERS: dict[type, Callable[[Commit, Any], None]] = {
    effects.SetTimer: _set_timer,
    effects.CancelTimer: _cancel_timer,
    effects.CancelWork: _cancel_work,
    effects.StartWork: _start_work,
    effects.OpenedAsk: _open_ask,
    effects.RenewedAsk: _renew_ask,
    effects.ChangedAsk: _change_ask,
    effects.ClosedAsk: _close_ask,
    effects.Message: _message,
    effects.RemindAsk: _remind,
    effects.EscalateAsk: _escalate,
    effects.WriteLog: _log,
    effects.Deliver: _deliver,
    effects.StoreRecord: _record,
}

IN_BATCH = frozenset({effects.SpawnChild, effects.ReportToParent, effects.AddToCounter})
"""Effects on other instances and on shared counters: the batch handles them."""
NOTED = frozenset(get_args(Noted))
