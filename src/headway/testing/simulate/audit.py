"""The auditor: checks every commit, from the rows, the snapshots and the charts alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any

from headway.codec import decode, encode
from headway.statechart.chart import Chart
from headway.statechart.effects import ChangedAsk, ClosedAsk, OpenedAsk, RenewedAsk
from headway.statechart.people import audience
from headway.statechart.snapshot import Snapshot
from headway.store.rows import AskRow, HistoryRow, InstanceRow, Key, MessageRow, TimerRow
from headway.store.unit import Changes
from headway.testing.memory.tables import Tables
from headway.testing.simulate.child_counts import ChildCounts
from headway.testing.simulate.duties import Duties
from headway.testing.simulate.effects import (
    UNDO,
    UPGRADE,
    Charts,
    EffectCheck,
    active,
    arcs_from,
    is_forwarded,
)
from headway.testing.simulate.ownership import Ownership
from headway.testing.simulate.upgrades import UpgradeCheck
from headway.testing.simulate.witness import Trace

Noted = OpenedAsk | RenewedAsk | ChangedAsk | ClosedAsk
AskFact = tuple[Any, ...]
"""A change of an ask: its kind, tenant, ask, and the values after it."""
UNNAMED = frozenset({"", "start", "retry", "ask.claim", "ask.release", "ask.delegate", UPGRADE, UNDO})
"""Values of a history line's `transition` that are no transitions of the chart."""
MANY = 1 << 30


def open_asks(chart: Chart, snapshot: Snapshot) -> set[Any]:
    """The asks of an instance, as its snapshot says."""
    return {_as_asked(chart, snapshot, state) for state in snapshot.asks}


def _as_asked(chart: Chart, snapshot: Snapshot, state: str) -> tuple[Any, ...]:
    node, ask = chart.nodes[state], snapshot.asks[state]
    form, shows = (None, ()) if node.model.ask is None else (node.model.ask.form, node.model.ask.shows)
    put = (state, node.answers, form, frozenset(shows), ask.since or snapshot.since[state])
    return (
        ask.id,
        *put,
        audience(ask.roles, snapshot),
        ask.deadline,
        ask.claimed_by,
        ask.claimed_until,
        ask.delegated_to,
    )


def stored_asks(rows: Iterable[AskRow]) -> set[Any]:
    """The open asks, as their rows say."""
    return {_as_stored(row) for row in rows if row.closed_at is None}


def _as_stored(row: AskRow) -> tuple[Any, ...]:
    put = (row.state, row.answers, row.form, frozenset(_shown(row)), row.opened_at)
    return (row.id, *put, row.roles, row.deadline, row.claimed_by, row.claimed_until, row.delegated_to)


def _shown(row: AskRow) -> dict[str, Any]:
    return {} if row.shows == "{}" else decode(dict[str, Any], row.shows)


def check_notes(changes: Changes, violated: Callable[[str], None]) -> None:
    """The history notes each change of an ask: what people saw, who claimed it, and who closed it."""
    noted = Counter(each for line in changes.history if line.note for each in _noted(line))
    written = Counter(_written(changes))
    for each in {**noted, **written}:
        if noted[each] != written[each]:
            kind, _, ask, *rest = each
            said = (
                f"{written[each]} times written, and {noted[each]} times noted: {', '.join(map(str, rest))}"
            )
            violated(f"{kind} of {ask} was {said}")


def _noted(line: HistoryRow) -> Iterator[AskFact]:
    for each in decode(list[Noted], line.note or "[]"):
        if isinstance(each, OpenedAsk | RenewedAsk):
            shown = encode(each.shows).decode()
            put = (each.state, each.roles, each.answers, each.form, each.deadline, shown)
            yield (type(each).__name__, line.tenant, each.ask, *put)
        if isinstance(each, RenewedAsk | ChangedAsk):
            held = (each.roles, each.claimed_by, each.claimed_until, each.delegated_to)
            yield (ChangedAsk.__name__, line.tenant, each.ask, *held)
        if isinstance(each, ClosedAsk):
            yield (ClosedAsk.__name__, line.tenant, each.ask, each.by, each.event)


def _written(changes: Changes) -> Iterator[AskFact]:
    for kind, rows in ((OpenedAsk, changes.asks), (RenewedAsk, changes.asks_renewed)):
        for row in rows:
            put = (row.state, row.roles, row.answers, row.form, row.deadline, row.shows)
            yield (kind.__name__, row.tenant, row.id, *put)
    for change in changes.asks_changed:
        held = (change.roles, change.claimed_by, change.claimed_until, change.delegated_to)
        yield (ChangedAsk.__name__, change.tenant, change.id, *held)
    for closing in changes.asks_closed:
        yield (ClosedAsk.__name__, closing.tenant, closing.id, closing.closed_by, closing.closed_event)


class Auditor:
    """Compares each commit with the one before it, and all rows of an instance with its snapshot."""

    def __init__(
        self,
        tables: Tables,
        charts: Charts,
        violated: Callable[[str], None],
        trace: Trace,
    ) -> None:
        self._tables, self._charts, self._violated, self._trace = tables, charts, violated, trace
        self.upgrade_check = UpgradeCheck(charts, violated)
        self._effect_check, self._child_counts = EffectCheck(charts, violated), ChildCounts(charts, violated)
        self._duties = Duties(charts, violated)
        self.ownership = Ownership(charts, violated)
        self.rows: dict[Key, InstanceRow] = {}
        """All instances that ever existed, as they were committed last."""
        self._snapshots: dict[Key, Snapshot] = {}
        self._effects: set[Key] = set()
        self.messages: list[MessageRow] = []
        self.lines: dict[Key, list[HistoryRow]] = {}
        """All histories, also of those that have been deleted since."""
        self.commits = 0

    def committed(self, changes: Changes, now: datetime) -> None:
        """Check a commit."""
        self.commits += 1
        lines: dict[Key, list[HistoryRow]] = {}
        for line in changes.history:
            lines.setdefault((line.tenant, line.instance), []).append(line)
        timers_set = {(timer.tenant, timer.id) for timer in changes.timers}
        for row in (*changes.created, *changes.updated):
            key = (row.tenant, row.id)
            before = self._snapshots.get(key)
            self._moved(key, row, lines.pop(key, []), now)
            self._resets(row, before, self._snapshots[key], timers_set)
        for key in lines:
            self._violated(f"{key[1]} has new history lines, but its row was not written")
        for message in changes.messages:
            self._published(message)
            if is_forwarded(message):
                self._child_counts.forwarded(message)
        self._effect_check.settle(changes)
        check_notes(changes, self._violated)
        for key in self._touched(changes):
            self._agrees(key)
        for timer in changes.timers:
            self._is_in_time(timer, now)
        self._child_counts.settle(self._snapshots)

    def snapshot(self, key: Key) -> Snapshot | None:
        """An instance as it was committed last."""
        return self._snapshots.get(key)

    # A history is a path: each line begins where the one before has ended.

    def _moved(self, key: Key, row: InstanceRow, lines: list[HistoryRow], now: datetime) -> None:
        before, seen = self._snapshots.get(key), self.rows.get(key)
        after = self._snapshots[key] = decode(Snapshot, row.snapshot)
        self.rows[key] = row
        if _identity(after) != _identity(row) or row.since != after.reached:
            self._violated(f"the row of {row.id} does not match its snapshot")
        if row.seq <= (seen.seq if seen else 0):
            self._violated(f"{row.id} went from {seen and seen.seq} to {row.seq}: an update was lost")
        if seen is not None and seen.ended:
            self._violated(f"{row.id} changed after it had ended")
        begun = seen.seq if seen else 0
        self.lines.setdefault(key, []).extend(lines)
        self._leads(row, before, after, lines)
        self._duties.check(after, self.lines[key], len(lines))
        self.ownership.check(row, before, self.lines[key], len(lines))
        self._effect_check.expect(row.tenant, after, begun, lines)
        self._child_counts.moved(row, after, begun, lines)
        if before is not None:
            self._fired_in_time(row, before, lines, now)
            self.upgrade_check.check(key, before, after, lines=lines, now=now)
        self._numbered(row, begun, lines)
        if (lines[-1].hash if lines else seen and seen.journal) != row.journal:
            self._violated(f"the journal of {row.id} does not end with its last line")

    def _leads(
        self, row: InstanceRow, before: Snapshot | None, after: Snapshot, lines: list[HistoryRow]
    ) -> None:
        place = "+".join(before.states if before else ())
        version = before.version if before else after.version
        for line in lines:
            took = f"{line.event} ({line.transition or 'no transition'}) → {line.after}"
            self._trace.note("commit", f"{row.id} {line.seq}: {took} by {line.actor}")
            if line.before != place:
                self._violated(
                    f"line {line.seq}.{line.row} of {row.id} begins in {line.before}, not in {place}"
                )
            self._is_legal(row, line)
            if line.version != version and line.transition not in {UPGRADE, UNDO}:
                self._violated(f"line {line.seq}.{line.row} of {row.id} is one of version {line.version}")
            place, version = line.after, line.version
        if place != "+".join(after.states) or version != after.version:
            self._violated(f"the history of {row.id} ends in {place or 'nothing'}, its row in {after.states}")

    def _fired_in_time(
        self, row: InstanceRow, before: Snapshot, lines: list[HistoryRow], now: datetime
    ) -> None:
        """No timer fires before it is due, whatever happens to the clock."""
        dues = {timer.event: timer.due for timer in before.timers.values()}
        for line in lines[:1]:
            if line.transition and dues.get(line.event, now) > now:
                self._violated(f"{line.event} of {row.id} fired at {now}, and was due at {dues[line.event]}")

    def _numbered(self, row: InstanceRow, last: int, lines: list[HistoryRow]) -> None:
        """Step numbers grow without gaps, except for progress, which writes no line."""
        place = (last, MANY)
        for line in lines:
            follows = line.row == place[1] + 1 if line.seq == place[0] else line.row == 0
            if (line.seq, line.row) <= place or not follows or line.seq > row.seq:
                self._violated(f"line {line.seq}.{line.row} of {row.id} follows {place[0]}.{place[1]}")
            place = (line.seq, line.row)

    def _is_legal(self, row: InstanceRow, line: HistoryRow) -> None:
        """The chart has the transition in these states, and the states after it are a valid configuration."""
        chart = self._charts[row.chart, line.version]
        names = line.transition.split(", ")
        known = {} if UNNAMED.issuperset(names) else arcs_from(chart, line.before)
        if strange := [name for name in names if name not in UNNAMED and name not in known]:
            self._violated(f"{row.id} took {', '.join(strange)} in {line.before}, where the chart has none")
        if not _is_configuration(chart, line.after):
            self._violated(f"{row.id} is in {line.after}, which is not a valid configuration of {chart.name}")

    # Timers, work and asks of an instance match its snapshot.

    def _touched(self, changes: Changes) -> Iterable[Key]:
        rows = [(row.tenant, row.id) for row in (*changes.created, *changes.updated)]
        others: list[Any] = [*changes.timers, *changes.work, *changes.asks]
        beside = [(row.tenant, row.instance) for row in others]
        return dict.fromkeys((*rows, *beside))

    def _agrees(self, key: Key) -> None:
        snapshot, tables = self._snapshots.get(key), self._tables
        timers: set[Any] = {row.id for row in tables.timers.values() if (row.tenant, row.instance) == key}
        work: set[Any] = {
            (row.id, row.attempt) for row in tables.work.values() if (row.tenant, row.instance) == key
        }
        asks = stored_asks(row for row in tables.asks.values() if (row.tenant, row.instance) == key)
        expected: list[set[Any]] = [
            {*snapshot.timers} if snapshot else set(),
            {(each.id, each.attempt) for each in snapshot.work.values()} if snapshot else set(),
            open_asks(self._charts[snapshot.chart, snapshot.version], snapshot) if snapshot else set(),
        ]
        for name, stored, known in zip(
            ("timers", "work", "asks"), (timers, work, asks), expected, strict=True
        ):
            if stored != known:
                self._violated(
                    f"the {name} of {key[1]} are {sorted(stored)}, its snapshot says {sorted(known)}"
                )

    def _resets(
        self, row: InstanceRow, before: Snapshot | None, after: Snapshot, timers_set: set[Key]
    ) -> None:
        """When the due time of a timer changes, its row is written."""
        for name, timer in after.timers.items() if before is not None else ():
            was = before.timers.get(name) if before is not None else None
            if was is not None and was.due != timer.due and (row.tenant, name) not in timers_set:
                self._violated(f"{timer.event} of {row.id} has a new due time, and its row was not written")

    def _is_in_time(self, row: TimerRow, now: datetime) -> None:
        """The row of a timer has the due time of the snapshot; one that was due may be postponed."""
        snapshot = self._snapshots.get((row.tenant, row.instance))
        known = None if snapshot is None else snapshot.timers.get(row.id)
        if known is not None and row.due != known.due and not known.due <= now < row.due:
            self._violated(f"the timer {row.id} is due at {row.due}, its snapshot says {known.due}")

    def _published(self, message: MessageRow) -> None:
        key = (message.tenant, message.id)
        if key in self._effects:
            self._violated(f"the effect {message.id} was published twice")
        self._effects.add(key)
        self.messages.append(message)


def _identity(it: Snapshot | InstanceRow) -> tuple[Any, ...]:
    states = it.states if isinstance(it, InstanceRow) else it.state
    return it.seq, it.ended, it.chart, it.version, states


@lru_cache(2_000)
def _is_configuration(chart: Chart, states: str) -> bool:
    """Whether each compound state has one active child, and each parallel state has all."""
    found = active(chart, states)
    for name in found:
        node = chart.nodes[name]
        inside = [child for child in node.children if child.kind not in {"shallow", "deep"}]
        number = sum(child.id in found for child in inside)
        if inside and number != (len(inside) if node.kind == "parallel" else 1):
            return False
    return bool(found)
