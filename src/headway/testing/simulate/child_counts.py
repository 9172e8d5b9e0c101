"""Checks child counts: a live parent has the right number of children by status, and of their errors.

A parent that has ended gets no more reports, but each child that it counts was created.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from headway.engine.orders import parent_named
from headway.statechart.snapshot import Snapshot
from headway.store.rows import HistoryRow, InstanceRow, Key, MessageRow
from headway.testing.simulate.effects import Charts, actions_run


class ChildCounts:
    """Counts children from their committed rows; deleted children still count."""

    def __init__(self, charts: Charts, violated: Callable[[str], None]) -> None:
        self._charts, self._violated = charts, violated
        self._children: dict[Key, dict[Key, tuple[str, int]]] = {}
        self._own: dict[Key, int] = {}
        """How many errors of an instance are its own, not its children's."""
        self._added: dict[Key, int | None] = {}
        """How many of these came since the last count; None if the history does not determine it."""
        self._behind: Counter[Key] = Counter()
        """How many forwarded reports of children have not reached their parent yet."""

    def moved(self, row: InstanceRow, after: Snapshot, seq: int, lines: list[HistoryRow]) -> None:
        """Record a committed change of an instance."""
        key = (row.tenant, row.id)
        if row.parent is not None:
            siblings = self._children.setdefault((row.tenant, row.parent), {})
            siblings[key] = (row.status, after.counters.get("errors", 0))
        self._behind[key] -= sum(
            line.event == "child.changed" and line.actor.startswith("instance:") for line in lines
        )
        added = [actions_run(self._charts[row.chart, line.version], line).errors for line in lines]
        progress = after.seq - seq > len({line.seq for line in lines})
        known = [self._added.get(key, 0), *added]
        self._added[key] = None if progress or None in known else sum(each or 0 for each in known)

    def forwarded(self, message: MessageRow) -> None:
        """Record a report that a node without the parent's version forwards."""
        if message.name == "child.changed" and (parent := parent_named(message.instance)) is not None:
            self._behind[message.tenant, parent] += 1

    def settle(self, snapshots: Mapping[Key, Snapshot]) -> None:
        """Check the counts of all changed instances and of their parents, after a commit."""
        alive = [(key, snapshots[key]) for key in self._added if key in snapshots]
        parents = [(key[0], each.parent) for key, each in alive if each.parent is not None]
        for key in dict.fromkeys((*self._added, *parents)):
            snapshot = snapshots.get(key)
            if snapshot is not None and snapshot.ended:
                self._recount_ended(key, snapshot)
            elif snapshot is not None and not self._behind[key]:
                self._recount(key, snapshot)
        # A parent that still misses reports is counted when it has them all.
        self._added = {key: added for key, added in self._added.items() if self._behind[key]}

    def _recount_ended(self, key: Key, snapshot: Snapshot) -> None:
        spawned, created = sum(snapshot.children.values()), len(self._children.get(key, ()))
        if spawned != created:
            self._violated(f"{key[1]} counts {spawned} children, and {created} were created")

    def _recount(self, key: Key, snapshot: Snapshot) -> None:
        children = self._children.get(key, {}).values()
        counted = Counter(status for status, _ in children)
        if snapshot.children != counted:
            self._violated(f"{key[1]} counts children {snapshot.children}, and has {dict(counted)}")
        errors, theirs = snapshot.counters.get("errors", 0), sum(number for _, number in children)
        own, added = self._own.get(key, 0), self._added.get(key, 0)
        self._own[key] = errors - theirs
        # A count stops at zero: after subtracting more, its own errors are not known.
        if own >= 0 and added is not None and errors != own + added + theirs:
            self._violated(
                f"{key[1]} counts {errors} errors, and has {own + added} own and {theirs} of children"
            )
