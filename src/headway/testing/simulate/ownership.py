"""Checks ownership: every sender and reader was allowed to act, by the history and the data alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from headway.codec import decode
from headway.statechart.chart import Chart
from headway.statechart.model import ROOT
from headway.statechart.snapshot import Actor, Snapshot
from headway.statechart.tree import comes_from_engine
from headway.store.rows import AskRow, HistoryRow, InstanceRow
from headway.testing.simulate.effects import Charts, active, arcs_from

HOLDING = frozenset({"ask.claim", "ask.release", "ask.delegate"})
END_USERS = ("ann", "bob", "mal")
"""Actors who may reach only their own instances, whatever roles they have."""


class Ownership:
    """Resolves the people that a chart names with its own code, not with the engine's."""

    def __init__(self, charts: Charts, violated: Callable[[str], None]) -> None:
        self._charts, self._violated = charts, violated

    def check(
        self, row: InstanceRow, before: Snapshot | None, history: Sequence[HistoryRow], last: int
    ) -> None:
        """Check the last `last` lines of an instance's history."""
        for place in range(len(history) - last, len(history)):
            line, earlier = history[place], history[:place]
            chart = self._charts[row.chart, line.version]
            if line.row or not _names_people(chart):
                continue
            if before is None:
                self._begins(row, line)
            elif line.transition in HOLDING or line.event == "answer" or not comes_from_engine(line.event):
                self._may_move(row, before, earlier, line)

    def _begins(self, row: InstanceRow, line: HistoryRow) -> None:
        if line.actor in END_USERS and row.owner != line.actor:
            self._violated(f"{line.actor} created {row.id}, whose owner is {row.owner}")

    def _may_move(
        self, row: InstanceRow, before: Snapshot, earlier: Sequence[HistoryRow], line: HistoryRow
    ) -> None:
        chart = self._charts[row.chart, line.version]
        for entries in _ways(chart, before, line):
            if any(not _is_person(each) for each in entries) or not entries:
                break  # a role suffices here, ownership is not needed
            if line.actor in _named(entries, row.owner, before, earlier) | _delegates(before):
                break
        else:
            self._violated(f"{line.actor} may not send {line.event or line.transition} to {row.id}")
        if line.actor in END_USERS and not self._is_theirs(row, before, earlier, line.actor):
            self._violated(f"{line.actor} sent {line.event} to {row.id}, which is not theirs")

    def _is_theirs(
        self, row: InstanceRow, snapshot: Snapshot, history: Sequence[HistoryRow], who: str
    ) -> bool:
        entries = filter(_is_person, _all_entries(self._charts[row.chart, snapshot.version]))
        return who in {row.owner} | _named(entries, row.owner, snapshot, history) | _delegates(snapshot)

    def was_read(self, row: InstanceRow, history: Sequence[HistoryRow], actor: Actor, *, shown: bool) -> None:
        """Check whether an actor could read an instance."""
        chart, snapshot = self._charts[row.chart, row.version], decode(Snapshot, row.snapshot)
        open_to = chart.model.read_by
        by_role = not actor.own and (not open_to or not actor.roles.isdisjoint(open_to))
        steps = [line for line in history if line.seq <= row.seq]
        if shown != (by_role or self._is_theirs(row, snapshot, steps, actor.id)):
            self._violated(f"{actor.id} could {'' if shown else 'not '}read {row.id}")

    def was_listed(self, rows: Iterable[AskRow], actor: Actor) -> None:
        """Check the asks in an actor's inbox."""
        for row in rows:
            asked = f"@{actor.id}" in row.roles or row.delegated_to == actor.id
            if not asked or not row.answers:
                self._violated(f"the inbox of {actor.id} shows {row.id}, which is for {', '.join(row.roles)}")


def _ways(chart: Chart, before: Snapshot, line: HistoryRow) -> Iterator[tuple[str, ...]]:
    """The `by` of each row that a line can belong to; for a claim, of each ask that was open."""
    asked = [ask.roles for ask in before.asks.values()]
    if line.transition in HOLDING:
        yield from asked
        return
    for name in line.transition.split(", "):
        for arc in arcs_from(chart, line.before).get(name, []):
            if arc.model.source in {*active(chart, line.before), ROOT}:
                added = before.asks[arc.source.id].roles if arc.source.id in before.asks else ()
                yield (*arc.model.by, *(added if arc.model.by else ()))


def _named(
    entries: Iterable[str], owner: str | None, snapshot: Snapshot, history: Sequence[HistoryRow]
) -> set[str | None]:
    found: set[str | None] = set()
    for entry in entries:
        name = entry.strip("{}")
        if name == "owner":
            found.add(owner)
        elif name == "creator":
            found.add(history[0].actor if history else snapshot.creator)
        elif name.endswith(".by"):
            sent = [line for line in history if name.removesuffix(".by") in line.transition.split(", ")]
            found.update(line.actor for line in sent[-1:])
        else:
            value = snapshot.context.get(name) or ()
            found.update([value] if isinstance(value, str) else value)
    return found - {None}


def _delegates(snapshot: Snapshot) -> set[str | None]:
    return {ask.delegated_to for ask in snapshot.asks.values()} - {None}


def _is_person(entry: str) -> bool:
    return entry.startswith("{")


@lru_cache(64)
def _all_entries(chart: Chart) -> tuple[str, ...]:
    asks = [state.ask for state in chart.model.states if state.ask is not None]
    asked = [role for ask in asks for role in (*ask.roles, *(r for each in ask.escalate for r in each.roles))]
    sent = [role for row in chart.model.transitions for role in (*row.by, *row.countersign)]
    return tuple(dict.fromkeys((*asked, *sent)))


def _names_people(chart: Chart) -> bool:
    return any(map(_is_person, _all_entries(chart)))


def end_user(name: str, charts: Iterable[Chart]) -> Actor:
    """An actor who may reach only their own instances, with every role of the charts."""
    roles = {entry for chart in charts for entry in _all_entries(chart) if not _is_person(entry)}
    return Actor(name, "person", frozenset(roles) - {"system"}, own=True)
