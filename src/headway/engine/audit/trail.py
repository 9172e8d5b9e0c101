"""What the lines of a history tell: whether each follows the one before, and what must be there at last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.codec import Value, decode
from headway.engine.audit.checkpoint import Head
from headway.engine.commit import Commit, Noted, write_effects
from headway.engine.journal import BEGINNING, follows, is_sealed
from headway.errors import InputError
from headway.statechart.snapshot import Snapshot
from headway.store.rows import AskChange, AskClosing, AskRow, HistoryRow, InstanceRow, Key, changed_ask
from headway.store.unit import Changes


class Trail:
    """The lines of an instance after the one with a hash, up to a place, and the flaws they have.

    `asks` is what those lines say of the instance's asks, by id; `complete` whether they are all there are.
    """

    def __init__(self, key: Key, before: str, head: Head | None = None) -> None:
        """`head` is where a checkpoint has seen the instance."""
        self.key = key
        self._head = head
        self._is_met = head is None
        self.hash = before
        self._begun = before != BEGINNING
        self.complete = not self._begun
        self.last: HistoryRow | None = None
        self.position = 0
        self.lines = 0
        self.asks: dict[str, AskRow] = {}
        self.versions: set[int] = set()
        self.flaws: list[tuple[int, str]] = []

    @property
    def seq(self) -> int:
        """The transition of the last line."""
        return 0 if self.last is None else self.last.seq

    def flaw(self, what: str) -> None:
        """Note a flaw of what comes after the last line."""
        self.flaws.append((self.seq, what))

    def take(self, line: HistoryRow) -> None:
        """Follow a line."""
        if not follows(line, self.hash):
            self.flaws.append((line.seq, self._verdict(line)))
            self.complete = False
        elif line.note is not None:
            self._follow(line, line.note)
        self.hash, self.last, self.position = line.hash, line, line.position
        self._is_met = self._is_met or (self._head is not None and self._head.journal == line.hash)
        self.versions.add(line.version)
        self.lines += 1

    def setback(self, row: InstanceRow) -> str | None:
        """Why an instance that has followed these lines cannot have been where a checkpoint has seen it."""
        if self._head is None:
            return None
        if row.seq < self._head.seq:
            return f"it was set back: it is at {row.seq}, and was at {self._head.seq} at the checkpoint"
        # The first lines of one that has ended may be pruned before the others.
        is_pruned = self._begun and row.ended
        return (
            None if self._is_met or is_pruned else "it was set back: the last line of the checkpoint is gone"
        )

    def _verdict(self, line: HistoryRow) -> str:
        if line.seq > self.seq + 1:
            return f"lines after {self.seq} are missing"
        if line.seq < self.seq:
            return f"it stands after {self.seq}: lines were moved, or put in"
        return "the line or the one before it was changed, or one between them is missing"

    def _follow(self, line: HistoryRow, note: str) -> None:
        """Do to the asks what the step has done to those that are stored."""
        try:
            effects = decode(tuple[Noted, ...], note)
        except InputError as error:
            self.flaws.append((line.seq, f"its note cannot be read: {error}"))
            return
        changes = Changes()
        snapshot = Snapshot("", line.version, self.key[1])  # notes speak of asks, which carry no chart
        write_effects(Commit(changes, self.key, snapshot, now=line.at, trace=None), effects)
        for row in (*changes.asks, *changes.asks_renewed):
            self.asks[row.id] = row
        later: list[AskChange | AskClosing] = [*changes.asks_changed, *changes.asks_closed]
        for change in later:
            held = self.asks.get(change.id)
            if held is not None and held.closed_at is None:
                self.asks[change.id] = changed_ask(held, change)


def contradiction(trail: Trail, row: InstanceRow, snapshot: Snapshot) -> str | None:
    """Why an instance cannot be what its history has led to; None when it can."""
    last = trail.last
    if row.journal != trail.hash or (last is None and trail.complete):
        return (
            "all lines of its history are gone"
            if last is None
            else "the last lines of its history are gone, or are not its own"
        )
    if not is_sealed(row):
        return "its row or its snapshot was changed"
    if _identity(snapshot, snapshot.instance) != _identity(row, row.id):
        return "its snapshot is not that of its row"
    if last is not None and (last.after, last.version) != (snapshot.state, row.version):
        return f"it is in {snapshot.state}, and its history ends in {last.after}"
    # What changes no state may have no line, so that the instance can be further than its history.
    return f"it is at {row.seq}, and its history at {trail.seq}" if row.seq < trail.seq else None


def _identity(of: InstanceRow | Snapshot, name: str) -> tuple[object, ...]:
    return name, of.chart, of.version, of.seq, of.parent, of.ended


def differences(told: Mapping[str, AskRow], stored: Mapping[str, AskRow]) -> list[str]:
    """Where asks are not what their history says."""
    found = [f"nobody has put the ask {id_}" for id_ in stored.keys() - told.keys()]
    for id_, row in told.items():
        if id_ not in stored:
            found.append(f"the ask {id_} is gone")
        elif names := [name for name, value in _fields(row).items() if value != _fields(stored[id_])[name]]:
            found.append(f"the ask {id_} was changed: {', '.join(names)}")
    return found


def _fields(row: AskRow) -> dict[str, Any]:
    """The fields of an ask; what it shows as data, because one value may be written in several ways."""
    try:
        return _as_dict(row) | {"shows": decode(object, row.shows)}
    except InputError:
        return _as_dict(row)


def _as_dict(row: Value) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__}
