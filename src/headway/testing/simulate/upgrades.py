"""Checks upgrades: an upgraded instance is as its new chart says, and an undo restores what was before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache

from headway.statechart.chart import Chart
from headway.statechart.model import Upgrade
from headway.statechart.snapshot import Snapshot, Timer
from headway.store.rows import HistoryRow, Key
from headway.testing.simulate.effects import UNDO, UPGRADE, Charts

KEPT = ("states", "context", "timers", "asks", "counters", "votes", "acted", "memory", "since")
"""Fields that an undo restores; attempts are not restored, they only grow."""


class UpgradeCheck:
    """Compares an instance before and after its version has changed."""

    def __init__(self, charts: Charts, violated: Callable[[str], None]) -> None:
        self._charts, self._violated = charts, violated
        self._before: dict[Key, Snapshot] = {}
        self.restarted: Callable[[Key], None] = lambda _work: None
        """Called for work whose attempt was ended by a change of the version."""

    def check(
        self, key: Key, before: Snapshot, after: Snapshot, *, lines: list[HistoryRow], now: datetime
    ) -> None:
        """Check a committed change of an instance, which may be an upgrade, a step, or several at once."""
        name = key[1]
        known = self._before.pop(key, None)
        changes = [line for line in lines if line.transition in {UPGRADE, UNDO}]
        if before.version != after.version and not changes:
            self._violated(
                f"{name} changed from version {before.version} to {after.version} without an upgrade"
            )
        for work in before.work.values() if changes else ():
            if all((each.id, each.attempt) != (work.id, work.attempt) for each in after.work.values()):
                self.restarted((key[0], work.id))
        if len({line.seq for line in lines}) != 1 or not changes:
            return
        if changes[0].transition == UNDO:
            self._undone(name, known, after)
            return
        self._before[key] = before
        self._upgraded(name, before, after, changes[0])
        self._anchored(name, before, after, now)

    def _undone(self, name: str, known: Snapshot | None, after: Snapshot) -> None:
        if known is None:
            return
        other = [field for field in KEPT if getattr(known, field) != getattr(after, field)]
        if other or known.version != after.version or {*known.work} != {*after.work}:
            self._violated(
                f"after an undo {', '.join(other) or 'work'} of {name} differ from before the upgrade"
            )

    def _upgraded(self, name: str, before: Snapshot, after: Snapshot, line: HistoryRow) -> None:
        """States are mapped as the rule says, and work that is not restarted keeps its attempt."""
        chart = self._charts[after.chart, after.version]
        rule = rule_of(chart, before.version)
        wanted = {to for state in before.states for to in _to(rule, state)}
        if chart.model.computed is None and wanted and {*line.after.split("+")} != wanted:
            self._violated(f"the upgrade moved {name} to {line.after}, not to {sorted(wanted)}")
        attempts = {work.id: work.attempt for work in before.work.values()}
        for state, work in after.work.items():
            moved = work.attempt - attempts.get(work.id, work.attempt)
            if moved != (work.id in attempts and state in rule.restarts):
                self._violated(f"after the upgrade the work of {name} in {state} has attempt {work.attempt}")

    def _anchored(self, name: str, before: Snapshot, after: Snapshot, now: datetime) -> None:
        """Timers and deadlines of asks keep counting from when their state was entered."""
        waits = waits_of(self._charts[after.chart, after.version])
        for timer in after.timers.values():
            wait = waits.get((timer.state or "", timer.event))
            if wait is not None and timer.due not in _dues(after, timer, wait, now):
                self._violated(f"after the upgrade of {name} {timer.event} is due at {timer.due}")
        for state, ask in after.asks.items():
            deadline = next((t.due for t in after.timers.values() if t.event == f"deadline.{state}"), None)
            if deadline is not None and ask.deadline != deadline:
                self._violated(f"after the upgrade {name} may be answered until {ask.deadline}")
        held = {ask.id: ask for ask in before.asks.values()}
        for ask in after.asks.values():
            if (was := held.get(ask.id)) is not None and was.delegated_to != ask.delegated_to:
                self._violated(f"after the upgrade of {name} {ask.id} is delegated to {ask.delegated_to}")


def _dues(after: Snapshot, timer: Timer, wait: timedelta, now: datetime) -> Iterator[datetime]:
    """When a timer may be due: its delay after its state was entered or its ask opened, or at once."""
    since = after.since[timer.state or ""]
    ask = after.asks.get(timer.state or "")
    for begun in (since, *([ask.since] if ask is not None and ask.since is not None else [])):
        yield begun + wait
        yield max(begun + wait, now)


def rule_of(chart: Chart, version: int) -> Upgrade:
    """The rule by which a chart takes instances of a version."""
    found = [rule for rule in chart.model.upgrades if rule.version == version]
    return found[0] if found else Upgrade(version)


def _to(rule: Upgrade, state: str) -> tuple[str, ...]:
    to = rule.states.get(state, (state,))
    return to if isinstance(to, tuple) else ()


@lru_cache(64)
def waits_of(chart: Chart) -> dict[tuple[str, str], timedelta]:
    """The delays of timers that the chart declares as a constant and that fire once, by state and event."""
    rows = [row for row in chart.model.transitions if isinstance(row.after, int) and not row.repeats]
    found = {(row.source, row.events[0]): row.after for row in rows}
    for node in chart.order:
        if node.model.ask is not None and node.model.ask.deadline is not None:
            found[node.id, f"deadline.{node.id}"] = node.model.ask.deadline
    return {key: timedelta(milliseconds=wait) for key, wait in found.items() if isinstance(wait, int)}
