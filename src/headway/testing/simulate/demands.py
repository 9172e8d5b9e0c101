"""Demands: what lines of history call for is written with them, and nothing else is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from headway.codec import decode
from headway.statechart.chart import Chart
from headway.statechart.model import Action, Log, Publish, PutRecord, Tell
from headway.statechart.snapshot import Snapshot
from headway.store.rows import HistoryRow, MessageRow
from headway.store.unit import Changes
from headway.testing.simulate.acts import KNOWN, Acts, acts_of
from headway.testing.simulate.passages import Charts

Effect = tuple[str, str]
"""A kind of message, or the word `record`, and a name."""
Owed = tuple[str, str, Effect]
"""A tenant, an instance, and what it has called for; no instance stands behind a record."""
RECORD = "record"
PROGRESS: Effect = ("live", "progress")
REMINDERS: dict[str, Effect] = {"remind": ("live", "ask.reminded"), "escalate": ("live", "ask.escalated")}
FILLED = ""
"""The name of what is named after the context."""
CASCADE = ":cancel"
"""How the id ends of a message that no line calls for: a cancellation on its way to the children."""


class Called(NamedTuple):
    """What was called for, what may have been, and whether more may have been."""

    sure: tuple[Effect, ...]
    perhaps: tuple[Effect, ...]
    others: bool


class Demands:
    """Gathers what the instances of one commit call for, and compares it with what was written."""

    def __init__(self, charts: Charts, violated: Callable[[str], None]) -> None:
        self._charts, self._violated = charts, violated
        self._owed: Counter[Owed] = Counter()
        self._perhaps: Counter[Owed] = Counter()
        self._unsaid: set[tuple[str, str]] = set()

    def call(self, tenant: str, after: Snapshot, seq: int, lines: list[HistoryRow]) -> None:
        """An instance has come from a step to where it is, by these lines."""
        for line in lines:
            sure, perhaps, others = called_for(
                self._charts[after.chart, line.version], line, child=after.parent is not None
            )
            self._owed.update(_from(tenant, after.instance, sure))
            self._perhaps.update(_from(tenant, after.instance, perhaps))
            if others:
                self._unsaid |= {(tenant, after.instance), (tenant, "")}
        # Only progress leaves no line; where others follow it, they bear its name.
        silent = {*range(seq + 1, after.seq + 1)} - {line.seq for line in lines}
        stirred = {line.seq for line in lines if line.event == "work.progress"}
        if silent or stirred:
            self._owed[tenant, after.instance, PROGRESS] += len(silent) + len(stirred)

    def settle(self, changes: Changes) -> None:
        """All of them have called; what was written answers that, no more and no less."""
        owed, perhaps = self._owed, self._perhaps
        for each in _written(changes):
            filled: Owed = (each[0], each[1], (each[2][0], FILLED))
            known = each if each in owed or each in perhaps else filled
            owed[known if known in owed or known in perhaps else each] -= 1
        for (tenant, instance, effect), number in owed.items():
            name = f"{' '.join(effect)} of {instance or tenant}"
            if number > 0:
                self._violated(f"{number} × {name} was called for, and not written")
            elif -number > perhaps[tenant, instance, effect] and (tenant, instance) not in self._unsaid:
                self._violated(f"{-number} × {name} was written, and not called for")
        owed.clear()
        perhaps.clear()
        self._unsaid.clear()


def called_for(chart: Chart, line: HistoryRow, *, child: bool) -> Called:
    """What a line of history calls for."""
    kind = line.event.partition(".")[0]
    if not line.transition and kind in REMINDERS:
        return Called((REMINDERS[kind],), (), others=False)
    return _called(acts_of(chart, line), child)


@lru_cache(KNOWN)
def _called(acts: Acts, child: bool) -> Called:  # noqa: FBT001 - what a result is kept for has no names
    sure, perhaps = (tuple(_effects(actions, child=child)) for actions in (acts.sure, acts.perhaps))
    return Called(sure, perhaps, acts.others)


def _effects(actions: Iterable[Action], *, child: bool) -> Iterator[Effect]:
    for action in actions:
        if isinstance(action, Publish):
            yield action.kind, FILLED if "{" in action.name else action.name
        elif isinstance(action, Tell) and (child or action.to != "parent"):
            yield "deliver", action.event
        elif isinstance(action, PutRecord):
            yield RECORD, action.kind
        elif isinstance(action, Log):
            yield "log", action.label


def _from(tenant: str, instance: str, effects: Iterable[Effect]) -> Iterator[Owed]:
    return ((tenant, "" if effect[0] == RECORD else instance, effect) for effect in effects)


def is_forwarded(message: MessageRow) -> bool:
    """Whether a message brings an event that the node it came to could not decide: no line calls for it."""
    return message.kind == "deliver" and "ref" in decode(dict[str, object], message.data or "{}")


def _written(changes: Changes) -> Iterator[Owed]:
    for message in changes.messages:
        if not (message.id.endswith(CASCADE) or is_forwarded(message)):
            yield message.tenant, message.instance, (message.kind, message.name)
    for record in changes.records:
        yield record.tenant, "", (RECORD, record.kind)
