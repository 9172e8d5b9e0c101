"""Families: a parent that lives knows how many children are in which status, and how many errors they had.

One that has ended does not hear of its children any more, but each child it counts was created.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from headway.engine.orders import parent_named
from headway.statechart.snapshot import Snapshot
from headway.store.rows import HistoryRow, InstanceRow, Key, MessageRow
from headway.testing.simulate.acts import Charts, acts_of


class Families:
    """StateCounts again, from what was committed of each member; those that are deleted count on."""

    def __init__(self, charts: Charts, violated: Callable[[str], None]) -> None:
        self._charts, self._violated = charts, violated
        self._children: dict[Key, dict[Key, tuple[str, int]]] = {}
        self._own: dict[Key, int] = {}
        """How many errors an instance has that are not its children's."""
        self._added: dict[Key, int | None] = {}
        """How many of these came since the last recount; None where only the instance knows."""
        self._behind: Counter[Key] = Counter()
        """How many reports of its children a parent has not heard of yet: they are forwarded to it."""

    def moved(self, row: InstanceRow, after: Snapshot, seq: int, lines: list[HistoryRow]) -> None:
        """An instance has come from a step to where it is, by these lines."""
        key = (row.tenant, row.id)
        if row.parent is not None:
            siblings = self._children.setdefault((row.tenant, row.parent), {})
            siblings[key] = (row.status, after.counters.get("errors", 0))
        self._behind[key] -= sum(
            line.event == "child.changed" and line.actor.startswith("instance:") for line in lines
        )
        added = [acts_of(self._charts[row.chart, line.version], line).errors for line in lines]
        progress = after.seq - seq > len({line.seq for line in lines})
        known = [self._added.get(key, 0), *added]
        self._added[key] = None if progress or None in known else sum(each or 0 for each in known)

    def forwarded(self, message: MessageRow) -> None:
        """A child has changed on a node that does not know its parent's version, which hears of it later."""
        if message.name == "child.changed" and (parent := parent_named(message.instance)) is not None:
            self._behind[message.tenant, parent] += 1

    def settle(self, snapshots: Mapping[Key, Snapshot]) -> None:
        """A commit is whole: all of whom it has moved, and their parents, have counted rightly."""
        alive = [(key, snapshots[key]) for key in self._added if key in snapshots]
        parents = [(key[0], each.parent) for key, each in alive if each.parent is not None]
        for key in dict.fromkeys((*self._added, *parents)):
            snapshot = snapshots.get(key)
            if snapshot is not None and snapshot.ended:
                self._recount_ended(key, snapshot)
            elif snapshot is not None and not self._behind[key]:
                self._recount(key, snapshot)
        # A parent that has not heard of all its children yet is counted again when it has.
        self._added = {key: added for key, added in self._added.items() if self._behind[key]}

    def _recount_ended(self, key: Key, snapshot: Snapshot) -> None:
        spawned, created = sum(snapshot.children.values()), len(self._children.get(key, ()))
        if spawned != created:
            self._violated(f"{key[1]} has spawned {spawned} children, and {created} were created")

    def _recount(self, key: Key, snapshot: Snapshot) -> None:
        children = self._children.get(key, {}).values()
        counted = Counter(status for status, _ in children)
        if snapshot.children != counted:
            self._violated(f"{key[1]} counts {snapshot.children}, and has {dict(counted)}")
        errors, theirs = snapshot.counters.get("errors", 0), sum(number for _, number in children)
        own, added = self._own.get(key, 0), self._added.get(key, 0)
        self._own[key] = errors - theirs
        # Who has taken back more than was its own may be told of the rest later: no count is below none.
        if own >= 0 and added is not None and errors != own + added + theirs:
            self._violated(
                f"{key[1]} counts {errors} errors, and has {own + added} and its children {theirs}"
            )
