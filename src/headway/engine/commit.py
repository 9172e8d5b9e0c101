"""A step becomes rows: what is new in a snapshot, and each effect by table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from operator import attrgetter
from typing import Any, TypeVar, get_args

from headway.codec import decode, encode, replace
from headway.engine.journal import BEGINNING, chained, sealed
from headway.engine.orders import DAY, Receipt
from headway.errors import EngineError
from headway.statechart import effects
from headway.statechart.snapshot import Actor, Event, Snapshot, child_changed
from headway.statechart.step.step import Step
from headway.store.rows import (
    ASK_CHANGES,
    AskChange,
    AskClosing,
    AskRow,
    HistoryRow,
    InstanceRow,
    Key,
    MessageRow,
    RecordRow,
    RequestRow,
    TimerRow,
    WorkRow,
    WorkVersion,
)
from headway.store.unit import Changes, Found, Reads

Held = TypeVar("Held", TimerRow, WorkRow)
Noted = effects.OpenedAsk | effects.RenewedAsk | effects.ChangedAsk | effects.ClosedAsk
"""What a note keeps."""
MISSING = object()
NOTHING = Changes()
lists_of = attrgetter(*(name for name in Changes.__struct_fields__ if getattr(NOTHING, name) == []))
"""Every list of rows that a unit can change."""


class Living:
    """An instance as a batch sees it: as it was stored, and as it is after the calls decided so far."""

    __slots__ = ("created_at", "journal", "snapshot", "status", "stored")

    def __init__(
        self,
        snapshot: Snapshot,
        status: str,
        created_at: datetime,
        *,
        journal: str = BEGINNING,
        stored: bool = False,
    ) -> None:
        self.snapshot = snapshot
        self.status = status
        self.created_at = created_at
        self.journal = journal
        self.stored = stored

    @classmethod
    def stored_as(cls, row: InstanceRow) -> Living:
        """An instance as it is stored."""
        return cls(stored_snapshot(row), row.status, row.created_at, journal=row.journal, stored=True)

    def moved(self, snapshot: Snapshot, status: str) -> Living:
        """The same instance after a step."""
        return Living(snapshot, status, self.created_at, journal=self.journal, stored=self.stored)

    def receipt(self) -> Receipt:
        """Where the instance stands, as the answer to a call."""
        now = self.snapshot
        return Receipt(
            instance=now.instance,
            chart=now.chart,
            version=now.version,
            seq=now.seq,
            status=self.status,
            states=now.states,
            ended=now.ended,
        )


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


class Undo:
    """What an order has changed so far, so that a bad one leaves no trace."""

    __slots__ = ("_lengths", "_replaced", "_written")

    def __init__(self, written: Changes) -> None:
        self._written = written
        self._lengths = [*map(len, lists_of(written))]
        self._replaced: list[tuple[dict[Any, Any], Any, Any]] = []

    def put(self, mapping: dict[Any, Any], key: object, value: object) -> None:
        """Set a key of a mapping, keeping what it was."""
        self._replaced.append((mapping, key, mapping.get(key, MISSING)))
        mapping[key] = value

    def take(self, mapping: dict[Any, Any], key: object) -> Any:
        """Take a key out of a mapping, keeping what it was."""
        value = mapping.pop(key)
        self._replaced.append((mapping, key, value))
        return value

    def all(self) -> None:
        """Take everything back; what is taken back already stays so."""
        for rows, length in zip(lists_of(self._written), self._lengths, strict=True):
            del rows[length:]
        for mapping, key, value in reversed(self._replaced):
            if value is MISSING:
                del mapping[key]
            else:
                mapping[key] = value
        self._replaced.clear()


def stored_snapshot(row: InstanceRow) -> Snapshot:
    """The snapshot of a stored instance. Those that are older than its field `owner` get that of the row."""
    snapshot = decode(Snapshot, row.snapshot)
    if snapshot.owner is None and row.owner is not None:
        return replace(snapshot, owner=row.owner)
    return snapshot


def instance_row(key: Key, living: Living, now: datetime) -> InstanceRow:
    """The row of an instance as it is now, sealed."""
    snapshot = living.snapshot
    return sealed(
        InstanceRow(
            tenant=key[0],
            id=key[1],
            chart=snapshot.chart,
            version=snapshot.version,
            seq=snapshot.seq,
            status=living.status,
            states=snapshot.state,
            since=snapshot.reached or living.created_at,
            ended=snapshot.ended,
            parent=snapshot.parent,
            owner=snapshot.owner,
            created_at=living.created_at,
            updated_at=now,
            journal=living.journal,
            snapshot=encode(snapshot).decode(),
        )
    )


def write_history(commit: Commit, living: Living, done: Step) -> None:
    """The lines of history of a step, each chained to the one before it."""
    last = len(done.history) - 1
    for number, row in enumerate(done.history):
        line = HistoryRow(
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
            since=row.since,
            hash="",
        )
        line = chained(living.journal, line)
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


class Forwarding:
    """A unit that leaves an event in the outbox; a node that knows the version of the instance sends it.

    An instance that is gone gets nothing. An event that is forwarded again leaves no second message: it is
    known by its request id, or as the end of the attempt it names.
    """

    def __init__(self, key: Key, event: Event, *, request_id: str | None, trace: str | None) -> None:
        self._key, self._event, self._request_id, self._trace = key, event, request_id, trace
        self._effect = f"{key[1]}:{event.name}:{request_id or f'{event.ref}:{event.attempt}'}"
        self._name = (key[0], f"forward:{self._effect}")

    def begin(self) -> Reads:
        """Look at the instance, and whether there is a message already."""
        self._changes = Changes()
        return Reads(instances={self._key}, requests={self._name})

    def take(self, found: Found) -> None:
        """Write the message."""
        row, known = found.instances.get(self._key), found.requests.get(self._name)
        if row is None or (known is not None and known.expires_at > found.now):
            return
        snapshot = decode(Snapshot, row.snapshot)
        commit = Commit(self._changes, self._key, snapshot, now=found.now, trace=self._trace)
        write_forward(commit, self._effect, self._event, self._request_id)
        self._changes.requests.append(
            RequestRow(
                tenant=self._name[0],
                key=self._name[1],
                body=self._effect,
                answer="",
                expires_at=found.now + DAY,
            )
        )

    def changes(self) -> Changes:
        """The message."""
        return self._changes


def write_versions(changes: Changes, upgraded: Mapping[Key, Snapshot]) -> None:
    """Timers and work of upgraded instances get their new version, also those that stay as they are."""
    changes.timers = [_of_version(row, upgraded) for row in changes.timers]
    changes.work = [_of_version(row, upgraded) for row in changes.work]
    for (tenant, instance), after in upgraded.items():
        changes.timers += [
            TimerRow(
                tenant=tenant,
                id=timer,
                instance=instance,
                chart=after.chart,
                version=after.version,
                event=set_.event,
                due=set_.due,
            )
            for timer, set_ in after.timers.items()
        ]
        changes.work_versions += [WorkVersion(tenant, work.id, after.version) for work in after.work.values()]


def _of_version(row: Held, upgraded: Mapping[Key, Snapshot]) -> Held:
    after = upgraded.get((row.tenant, row.instance))
    return row if after is None else replace(row, version=after.version)


def _set_timer(commit: Commit, effect: effects.SetTimer) -> None:
    commit.changes.timers.append(
        TimerRow(
            tenant=commit.tenant,
            id=effect.timer,
            instance=commit.instance,
            chart=commit.chart,
            version=commit.version,
            event=effect.event,
            due=effect.due,
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


OPENED = frozenset(effects.OpenedAsk.__struct_fields__)
QUESTION = tuple(name for name in AskRow.__struct_fields__ if name in OPENED - {"id", "shows"})
"""The columns of an ask that its effect has under the same names."""


def _ask_row(commit: Commit, effect: effects.OpenedAsk | effects.RenewedAsk, opened_at: datetime) -> AskRow:
    return AskRow(
        tenant=commit.tenant,
        id=effect.ask,
        instance=commit.instance,
        shows=encode(effect.shows).decode(),
        opened_at=opened_at,
        **{name: getattr(effect, name) for name in QUESTION},
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
            **{name: getattr(effect, name) for name in ASK_CHANGES},
        )
    )


def _close_ask(commit: Commit, effect: effects.ClosedAsk) -> None:
    commit.changes.asks_closed.append(
        AskClosing(
            tenant=commit.tenant,
            id=effect.ask,
            closed_at=commit.now,
            closed_by=effect.by,
            closed_event=effect.event,
        )
    )


def _message(commit: Commit, effect: effects.PublishMessage) -> None:
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
        MessageRow(
            tenant=commit.tenant,
            id=effect_id,
            instance=commit.instance,
            kind=kind,
            name=name,
            data=text,
            at=commit.now,
            trace=commit.trace,
        )
    )


def _record(commit: Commit, effect: effects.StoreRecord) -> None:
    text = encode(effect.data).decode()
    commit.changes.records.append(
        RecordRow(tenant=commit.tenant, kind=effect.kind, key=effect.key, data=text, updated_at=commit.now)
    )


WRITERS: dict[type, Callable[[Commit, Any], None]] = {
    effects.SetTimer: _set_timer,
    effects.CancelTimer: _cancel_timer,
    effects.CancelWork: _cancel_work,
    effects.StartWork: _start_work,
    effects.OpenedAsk: _open_ask,
    effects.RenewedAsk: _renew_ask,
    effects.ChangedAsk: _change_ask,
    effects.ClosedAsk: _close_ask,
    effects.PublishMessage: _message,
    effects.RemindAsk: _remind,
    effects.EscalateAsk: _escalate,
    effects.WriteLog: _log,
    effects.Deliver: _deliver,
    effects.StoreRecord: _record,
}

IN_BATCH = frozenset({effects.SpawnChild, effects.ReportToParent, effects.AddToCounter})
"""Effects on other instances and on shared counters: the batch handles them."""
NOTED = frozenset(get_args(Noted))
