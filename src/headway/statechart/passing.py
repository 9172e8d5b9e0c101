"""What an upgrade would make of one instance: the same, mapped, in need of a rule, or stranded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

from headway.codec import Value
from headway.errors import HeadwayError
from headway.statechart.chart import Chart
from headway.statechart.draft import NOTHING
from headway.statechart.effects import RenewedAsk
from headway.statechart.explain import explain
from headway.statechart.remap import Gap, remap
from headway.statechart.snapshot import SYSTEM, Actor, OpenAsk, Snapshot, Timer
from headway.statechart.step import Step

Fitness = Literal["same", "mapped", "rule", "stranded"]


class Outlook(Value):
    """What an upgrade would make of an instance: the step and what changes, or what is in its way."""

    fitness: Fitness
    step: Step | None = None
    changes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def possible(self) -> bool:
        """Whether the instance can be upgraded."""
        return self.fitness in {"same", "mapped"}


def outlook(
    old: Chart,
    new: Chart,
    snapshot: Snapshot,
    now: datetime,
    *,
    born: datetime | None = None,
    facts: Mapping[str, Any] = NOTHING,
    acted: Mapping[str, tuple[str, ...]] = NOTHING,
    by: Actor = SYSTEM,
    reason: str | None = None,
) -> Outlook:
    """Try an upgrade; what could move before and could not afterwards would be stranded."""
    moved = remap(old, new, snapshot, now, born=born, facts=facts, acted=acted, by=by, reason=reason)
    if isinstance(moved, Gap):
        return Outlook("rule", problems=moved.problems)
    after = moved.snapshot
    if _is_stuck(new, after, now, facts) and not _is_stuck(old, snapshot, now, facts):
        where = " + ".join(after.states)
        waits = "nothing it could wait for leads on: no event, timer, work, question or child"
        return Outlook("stranded", moved, problems=(f"in {where} {waits}",))
    changes = tuple(changes_of(snapshot, after)) or tuple(_in_other_words(moved))
    return Outlook("mapped" if changes else "same", moved, changes)


def _in_other_words(moved: Step) -> Iterator[str]:
    """Questions that stay as they are, but for their form or what can be answered."""
    for effect in moved.effects:
        if isinstance(effect, RenewedAsk):
            yield f"ask {effect.state}: put in other words"


def _is_stuck(chart: Chart, snapshot: Snapshot, now: datetime, facts: Mapping[str, Any]) -> bool:
    if snapshot.ended or chart.unbound:
        return False
    try:
        return explain(chart, snapshot, now, facts=facts).stuck
    except HeadwayError:
        return False


def changes_of(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """What changes for an instance, in words that are the same for all to which the same happens."""
    if before.states != after.states:
        yield f"{before.state} → {after.state}"
    if before.context != after.context:
        fields = before.context.keys() | after.context.keys()
        other = [name for name in sorted(fields) if before.context.get(name) != after.context.get(name)]
        yield f"context: {', '.join(other) or 'fields'}"
    yield from _timers(before.timers, after.timers)
    yield from _asks(before, after)
    yield from _work(before, after)
    if before.votes != after.votes:
        yield "votes: given back" if len(before.votes) > len(after.votes) else "votes: renamed"
    if before.acted != after.acted:
        yield "duties: who acted is known by the new names"
    if before.memory != after.memory:
        yield "history: remembers the new states"
    if before.children != after.children or before.counters != after.counters:
        yield "counters: moved"


def _timers(before: Mapping[str, Timer], after: Mapping[str, Timer]) -> Iterator[str]:
    for key, timer in after.items():
        was = before.get(key)
        if was is None:
            yield f"timer {timer.event}: new"
        elif was.due != timer.due:
            yield f"timer {timer.event}: {'later' if timer.due > was.due else 'earlier'}"
        elif was != timer:
            yield f"timer {was.event}: renamed"
    for key, timer in before.items():
        if key not in after:
            yield f"timer {timer.event}: gone"


def _asks(before: Snapshot, after: Snapshot) -> Iterator[str]:
    held = {ask.id: ask for ask in before.asks.values()}
    for state, ask in after.asks.items():
        was = held.pop(ask.id, None)
        if was is None:
            yield f"ask {state}: put"
        elif words := _ask_words(was, ask):
            yield f"ask {state}: {' and '.join(words)}"
    for state, ask in before.asks.items():
        if ask.id in held:
            yield f"ask {state}: closed"


def _ask_words(was: OpenAsk, ask: OpenAsk) -> list[str]:
    words = []
    if was.roles != ask.roles:
        words.append(f"for {', '.join(ask.roles)}")
    if was.deadline != ask.deadline:
        words.append("another deadline" if ask.deadline else "no deadline")
    if was.claimed_by != ask.claimed_by:
        words.append("claim given back")
    return words


def _work(before: Snapshot, after: Snapshot) -> Iterator[str]:
    held = {work.id: work for work in before.work.values()}
    for state, work in after.work.items():
        was = held.pop(work.id, None)
        if was is None:
            yield f"work {state}: begun"
        elif was.attempt != work.attempt:
            yield f"work {state}: begun anew"
    for state, work in before.work.items():
        if work.id in held:
            yield f"work {state}: cancelled"
