"""The activity of an instance: who did what, and how often. Read line by line, in constant memory."""

from __future__ import annotations

from collections import Counter

from headway.codec import decode
from headway.engine.upgrade.versions import Versions, lines_of
from headway.statechart.people import senders
from headway.statechart.snapshot import DELEGATE, AskDelegation
from headway.statechart.upgrade.assessment import MANY, Turn
from headway.statechart.upgrade.instance import UNDO, UPGRADE, UpgradeRecord
from headway.store.port import Store
from headway.store.rows import HistoryRow, Key

Acted = dict[str, tuple[str, ...]]


class Activity:
    """Who did what, and which turns were taken how often, in the words of the version of the last line.

    An upgrade among the lines gives all before it its new names, and its taking back the old ones again.
    """

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self.acted: Acted = {}
        self.turns: Counter[Turn] = Counter()
        self._before: tuple[Acted, Counter[Turn]] = self.acted, self.turns
        self._delegated_by: Acted = {}

    def add(self, line: HistoryRow) -> None:
        """One line more; raises UnknownChartError when nobody knows its version."""
        if line.event == line.transition == UPGRADE and line.data is not None:
            record = decode(UpgradeRecord, line.data)
            self._before = self.acted, self.turns
            self._rename(record.version, record.to)
        elif line.event == line.transition == UNDO:
            self.acted, self.turns = self._before
        else:
            self._note(line)

    def _note(self, line: HistoryRow) -> None:
        names = line.transition.split(MANY)
        for name in {line.event, *names}:
            _note_who(self.acted, name, *self._delegated_by.get(line.actor, ()), line.actor)
        self._follow_delegation(line)
        if self._versions.transitions(line.version).issuperset(names):
            self.turns[Turn(line.event, line.transition, line.before, line.after)] += 1

    def _follow_delegation(self, line: HistoryRow) -> None:
        """Keep in whose place somebody may act: lines say who delegated, and not by whose right one acted."""
        if line.transition == DELEGATE and self._versions.allows_stand_ins(line.version):
            to = decode(AskDelegation, line.data or "{}").to
            _note_who(self._delegated_by, to, line.actor, *self._delegated_by.get(line.actor, ()))
        elif line.before != line.after:
            self._delegated_by = {}

    def _rename(self, old: int, new: int) -> None:
        renaming = self._versions.renaming(old, new)
        acted, turns = self.acted, self.turns
        self.acted, self.turns = {}, Counter()
        for name, who in acted.items():
            _note_who(self.acted, renaming.event(name), *who)
        for turn, count in turns.items():
            renamed = turn.renamed(renaming)
            if renamed is not None:
                self.turns[renamed] += count


def _note_who(acted: Acted, name: str, *who: str) -> None:
    acted[name] = senders(acted.get(name, ()), *who)


async def activity_of(store: Store, key: Key, versions: Versions) -> Activity:
    """What an instance has done; raises UnknownChartError."""
    activity = Activity(versions)
    async for line in lines_of(store, key):
        activity.add(line)
    return activity


async def acted_anew(store: Store, key: Key, version: int, versions: Versions) -> Acted:
    """Who did what only the new version wants to know, by the names of the version an instance has."""
    watched = versions.watched_anew(version)
    if not watched:
        return {}
    activity = await activity_of(store, key, versions)
    return {name: who for name, who in activity.acted.items() if name in watched}
