"""A step becomes rows: what is new in a snapshot, and each effect by table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from headway.codec import encode, replace
from headway.statechart import effects
from headway.statechart.snapshot import Row, Snapshot
from headway.store.port import Changes
from headway.store.rows import (
    AskRow,
    HistoryRow,
    InstanceRow,
    Key,
    MessageRow,
    RecordRow,
    TimerRow,
    WorkRow,
)


class Commit:
    """The rows of one step of one instance, written into the changes of a unit."""

    __slots__ = ("changes", "instance", "now", "tenant")

    def __init__(self, changes: Changes, key: Key, now: datetime) -> None:
        self.changes = changes
        self.tenant, self.instance = key
        self.now = now

    def key(self, name: str) -> Key:
        """A name within the instance's tenant."""
        return (self.tenant, name)


def instance_row(
    key: Key, snapshot: Snapshot, status: str, *, created_at: datetime, now: datetime
) -> InstanceRow:
    """The row of a snapshot."""
    return InstanceRow(
        key[0],
        key[1],
        snapshot.chart,
        snapshot.version,
        snapshot.seq,
        status,
        snapshot.ended,
        snapshot.parent,
        created_at,
        now,
        encode(snapshot).decode(),
    )


def write_history(commit: Commit, rows: tuple[Row, ...]) -> None:
    """The lines of history of a step."""
    for row in rows:
        commit.changes.history.append(
            HistoryRow(
                commit.tenant,
                commit.instance,
                row.seq,
                row.index,
                row.at,
                row.event,
                row.transition,
                "+".join(row.before),
                "+".join(row.after),
                row.actor,
                row.reason,
                row.attempt,
                None if row.data is None else encode(row.data).decode(),
            )
        )


def write_ends(commit: Commit, before: Snapshot, after: Snapshot) -> None:
    """Timers and work that were open before and are no longer."""
    if before.timers:
        gone = [commit.key(timer) for timer in before.timers if timer not in after.timers]
        commit.changes.timers_gone += gone
    if before.work:
        kept = {work.id for work in after.work.values()}
        ended = [work.id for work in before.work.values() if work.id not in kept]
        commit.changes.work_gone += [commit.key(work) for work in ended]


def write_effects(commit: Commit, done: tuple[effects.Effect, ...]) -> None:
    """The rows of a step's effects; those that reach other instances are the batch's to handle."""
    for effect in done:
        writer = WRITERS.get(type(effect))
        if writer is not None:
            writer(commit, effect)


def _set_timer(commit: Commit, effect: effects.SetTimer) -> None:
    commit.changes.timers.append(
        TimerRow(commit.tenant, effect.timer, commit.instance, effect.event, effect.due)
    )


def _start_work(commit: Commit, effect: effects.StartWork) -> None:
    commit.changes.work.append(
        WorkRow(
            tenant=commit.tenant,
            id=effect.work,
            instance=commit.instance,
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
        )
    )


def _open_ask(commit: Commit, effect: effects.OpenedAsk) -> None:
    commit.changes.asks.append(
        AskRow(
            tenant=commit.tenant,
            id=effect.ask,
            instance=commit.instance,
            state=effect.state,
            roles=effect.roles,
            answers=effect.answers,
            form=effect.form,
            shows=encode(effect.shows).decode(),
            opened_at=commit.now,
            deadline=effect.deadline,
        )
    )


def _close_ask(commit: Commit, effect: effects.ClosedAsk) -> None:
    """Of an ask that is stored only the closing is written; one opened in the same unit is closed whole."""
    key = commit.key(effect.ask)
    opened = next((row for row in commit.changes.asks if (row.tenant, row.id) == key), None)
    asked = opened or AskRow(
        tenant=commit.tenant,
        id=effect.ask,
        instance=commit.instance,
        state="",
        roles=(),
        answers=(),
        form=None,
        shows="{}",
        opened_at=commit.now,
        deadline=None,
    )
    closed = replace(asked, closed_at=commit.now, closed_by=effect.by, closed_event=effect.event)
    commit.changes.asks_closed.append(closed)


def _message(commit: Commit, effect: effects.Message) -> None:
    _publish(commit, effect.id, effect.kind, effect.name, data=effect.data)


def _remind(commit: Commit, effect: effects.RemindAsk) -> None:
    _publish(commit, effect.id, "live", "ask.reminded", data={"ask": effect.ask, "roles": effect.roles})


def _escalate(commit: Commit, effect: effects.EscalateAsk) -> None:
    _publish(commit, effect.id, "live", "ask.escalated", data={"ask": effect.ask, "roles": effect.roles})


def _log(commit: Commit, effect: effects.WriteLog) -> None:
    _publish(commit, effect.id, "log", effect.label, data=effect.data)


def _deliver(commit: Commit, effect: effects.Deliver) -> None:
    _publish(commit, effect.id, "deliver", effect.event, data={"to": effect.to, "data": effect.data})


def _publish(commit: Commit, effect_id: str, kind: str, name: str, *, data: Any) -> None:
    text = None if data is None else encode(data).decode()
    commit.changes.messages.append(
        MessageRow(commit.tenant, effect_id, commit.instance, kind, name, text, commit.now)
    )


def _record(commit: Commit, effect: effects.StoreRecord) -> None:
    text = encode(effect.data).decode()
    commit.changes.records.append(RecordRow(commit.tenant, effect.kind, effect.key, text, commit.now))


WRITERS: dict[type, Callable[[Commit, Any], None]] = {
    effects.SetTimer: _set_timer,
    effects.StartWork: _start_work,
    effects.OpenedAsk: _open_ask,
    effects.ClosedAsk: _close_ask,
    effects.Message: _message,
    effects.RemindAsk: _remind,
    effects.EscalateAsk: _escalate,
    effects.WriteLog: _log,
    effects.Deliver: _deliver,
    effects.StoreRecord: _record,
}
