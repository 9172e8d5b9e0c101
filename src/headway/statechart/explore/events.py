"""What can happen to an instance as it stands: every event of every sender, timer, worker and child."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from headway.clock import spell
from headway.codec import replace
from headway.statechart import model
from headway.statechart.chart import Chart
from headway.statechart.explore.facts import RuleFacts
from headway.statechart.model import ANY
from headway.statechart.people import ids_of, is_person, part, sender_of
from headway.statechart.snapshot import (
    Actor,
    Event,
    OpenWork,
    Snapshot,
    child_changed,
    children_changed,
    person,
    timer_fired,
    work_done,
    work_failed,
    work_lost,
    work_progress,
)
from headway.statechart.step.work import losses_allowed
from headway.statechart.tree import RESERVED, Arc, StateNode, descriptor, names_matching

Kind = Literal["sent", "timer", "done", "error", "child"]
AUTOMATIC: frozenset[Kind] = frozenset({"timer", "done", "error", "child"})
SOMEONE = ""
OTHER_EVENT = "anything"
OTHER_STATUS = "something else"


MORE_THAN_ENOUGH = 10


class Happening(NamedTuple):
    """One thing that can happen next, and how people call it."""

    label: str
    kind: Kind
    event: Event
    now: datetime
    before: Snapshot


class People:
    """Who is there to act: as many of each role as the chart declares, else as many as its duties need."""

    def __init__(self, chart: Chart) -> None:
        rows = chart.model.transitions
        needed = [row.quorum + len(row.countersign) + len(row.distinct_from) for row in rows]
        self.needed = max(needed, default=1)
        self.staff = chart.model.staff
        self.by_role: dict[str, tuple[Actor, ...]] = {}

    def of(self, role: str) -> tuple[Actor, ...]:
        """All who have a role; a role without people is played by an agent.

        Who sent an event is known only after it; any other entry for a person may name one.
        """
        if role not in self.by_role:
            if is_person(role):
                return (
                    () if sender_of(role) is not None else (Actor(part(role), "person", frozenset({role})),)
                )
            # More people than can ever be involved at once change nothing.
            number = min(self.staff.get(role, self.needed), self.needed + MORE_THAN_ENOUGH)
            members = [person(_name(role, index), *(role,) * bool(role)) for index in range(number)]
            self.by_role[role] = tuple(members) or (Actor(f"{role} agent", "agent", frozenset({role})),)
        return self.by_role[role]

    def candidates(self, role: str, snapshot: Snapshot) -> list[Actor]:
        """Those of a role who have done something that counts, and one who stands for all others."""
        involved = {name for names in (*snapshot.acted.values(), *snapshot.votes.values()) for name in names}
        members = self._named(role, snapshot) or self.of(role)
        fresh = [actor for actor in members if actor.id not in involved]
        return [actor for actor in members if actor.id in involved] + fresh[:1]

    def _named(self, entry: str, snapshot: Snapshot) -> tuple[Actor, ...]:
        """The actors that an entry resolves to, with the roles that they have elsewhere."""
        if not is_person(entry):
            return ()
        known = {actor.id: actor.roles for members in self.by_role.values() for actor in members}
        ids = ids_of(entry, snapshot)
        return tuple(Actor(who, "person", known.get(who, frozenset()) | {entry}) for who in ids)


def _name(role: str, index: int) -> str:
    return (role or "someone") if index == 0 else f"{role or 'someone'} {index + 1}"


class Happenings:
    """What can happen in a chart, snapshot by snapshot."""

    def __init__(self, chart: Chart, people: People, facts: RuleFacts) -> None:
        self.chart = chart
        self.rows = chart.model.transitions
        self.people = people
        self.facts = facts
        self.codes = {node.id: error_codes(chart, node) for node in chart.order if node.model.run is not None}

    def after(self, snapshot: Snapshot, now: datetime) -> Iterator[Happening]:
        """Everything that can happen next."""
        following = now + timedelta(seconds=1)
        yield from self._sent(snapshot, following)
        yield from self._work(snapshot, following)
        yield from self._timers(snapshot, following)
        yield from self._children(snapshot, following)

    def _sent(self, snapshot: Snapshot, now: datetime) -> Iterator[Happening]:
        active = self.chart.configuration(snapshot.states)
        for name, roles in self._awaited((*active[::-1], self.chart.root)).items():
            asked = (
                {role for ask in snapshot.asks.values() for role in ask.roles} if roles - {SOMEONE} else set()
            )
            for actor in self._actors(roles | asked, snapshot):
                yield Happening(
                    label=_sent_label(name, actor),
                    kind="sent",
                    event=Event(name, by=actor),
                    now=now,
                    before=snapshot,
                )
        for state, ask in snapshot.asks.items():
            if not takers(self.chart.nodes[state], f"answer.{state}"):
                continue
            for actor in self._actors(set(ask.roles), snapshot):
                label = f"answer to {state} by {actor.id}"
                yield Happening(
                    label=label,
                    kind="sent",
                    event=Event("answer", by=actor, ref=ask.id),
                    now=now,
                    before=snapshot,
                )

    def _actors(self, roles: set[str], snapshot: Snapshot) -> Iterator[Actor]:
        for role in sorted(roles):
            yield from self.people.candidates(role, snapshot)

    def _awaited(self, nodes: tuple[StateNode, ...]) -> dict[str, set[str]]:
        """The events active states wait for from outside, each with the roles that may send it."""
        found: dict[str, set[str]] = {}
        for node in nodes:
            for name, arcs in node.arcs.items():
                if name and self._comes_from_outside(name):
                    roles = {role for arc in arcs for role in _roles(arc)}
                    found.setdefault(OTHER_EVENT if name == ANY else name, set()).update(roles)
        return found

    def _comes_from_outside(self, name: str) -> bool:
        if self.chart.scripted:
            return not name.startswith("done.state.")
        return from_outside(name)

    def _work(self, snapshot: Snapshot, now: datetime) -> Iterator[Happening]:
        for state, work in snapshot.work.items():
            done = work_done(work.id, work.attempt)
            yield Happening(
                label=f"work of {state} is done", kind="done", event=done, now=now, before=snapshot
            )
            run = self.chart.nodes[state].model.run
            assert run is not None
            # As if all retries were used up: how often work is tried does not change where it leads.
            spent = {str(index): policy.times or 0 for index, policy in enumerate(run.retry)}
            spent_work = replace(work, failures=spent, lost=losses_allowed(run) or 0)
            tired = replace(snapshot, work={**snapshot.work, state: spent_work})
            for code in self.codes[state]:
                failed = _failed(run, work, code)
                yield Happening(
                    label=f"work of {state} fails: {code}", kind="error", event=failed, now=now, before=tired
                )
            for counter in self.facts.counters:
                counted = work_progress(work.id, work.attempt, 0.5, counters={counter: 1})
                yield Happening(
                    label=f"work of {state} counts {counter}",
                    kind="child",
                    event=counted,
                    now=now,
                    before=snapshot,
                )

    def _timers(self, snapshot: Snapshot, now: datetime) -> Iterator[Happening]:
        alike = {(timer.event, timer.state, repr(timer.data)): key for key, timer in snapshot.timers.items()}
        for key in alike.values():
            timer = snapshot.timers[key]
            if not timer.event.startswith("remind."):
                label = self._timer_label(timer.event, timer.state)
                yield Happening(
                    label=label,
                    kind="timer",
                    event=timer_fired(key),
                    now=max(now, timer.due),
                    before=snapshot,
                )

    def _timer_label(self, event: str, state: str | None) -> str:
        kind = event.partition(".")[0]
        if state is None:
            return f"later: {event}"
        if kind == "deadline":
            return f"deadline of {state}"
        if kind == "escalate":
            return f"escalation of {state}"
        row = next(row for row in self.rows if row.after is not None and event in row.events)
        word = "every" if row.repeats else "after"
        return f"{word} {delay_text(row.after)}" + (f" in {state}" if state in self.chart.nodes else "")

    def _children(self, snapshot: Snapshot, now: datetime) -> Iterator[Happening]:
        """Each child may come into each status that matters, into another one, or go.

        Where a parent hears of several together, so may all those of one status that there are.
        """
        if not self.facts.statuses:
            statuses: tuple[str | None, ...] = ("new",) if snapshot.children else ()
        else:
            statuses = (*self.facts.statuses, OTHER_STATUS, None)
        together = self.chart.model.children == "together"
        for before, count in snapshot.children.items():
            for after in statuses:
                if after != before or after == "new":
                    event = child_changed("child", None if before == "new" else before, after)
                    yield Happening(
                        label=_child_label(after), kind="child", event=event, now=now, before=snapshot
                    )
                if together and count > 1 and after != before:
                    counts = {before: -count} | ({} if after is None else {after: count})
                    label = f"all {before} children {'are gone' if after is None else f'become {after}'}"
                    yield Happening(
                        label=label, kind="child", event=children_changed(counts), now=now, before=snapshot
                    )


def _failed(run: model.Run, work: OpenWork, code: str) -> Event:
    """How work fails with a code for good; that of a lost host comes by losses."""
    lost = code == run.lost_code
    return work_lost(work.id, work.attempt) if lost else work_failed(work.id, work.attempt, code)


def _child_label(status: str | None) -> str:
    if status == "new":
        return "a child changes"
    return "a child is gone" if status is None else f"a child becomes {status}"


def from_outside(event: str) -> bool:
    """Whether senders outside the engine may send an event of this name."""
    return event != "timer" and ("." not in event or event.partition(".")[0] not in RESERVED)


def _roles(arc: Arc) -> set[str]:
    return {*arc.by, *arc.model.countersign} if arc.by else {SOMEONE, *arc.model.countersign}


def _sent_label(event: str, actor: Actor) -> str:
    return event if actor.id == "someone" else f"{event} by {actor.id}"


def delay_text(delay: int | model.Condition | None) -> str:
    """A delay as people write it."""
    if isinstance(delay, int):
        return spell(delay)
    return delay.name if isinstance(delay, model.Named) else str(getattr(delay, "text", ""))


def error_codes(chart: Chart, node: StateNode) -> tuple[str, ...]:
    """The codes a state's work can fail with: declared, handled somewhere, and those of the engine."""
    run = node.model.run
    assert run is not None
    prefix = f"error.work.{node.id}."
    handled = [
        event.removeprefix(prefix)
        for row in chart.model.transitions
        for event in map(descriptor, row.events)
        if event.startswith(prefix)
    ]
    retried = [code for policy in run.retry for code in policy.on]
    timeout = [run.timeout_code] if run.timeout is not None else []
    codes = dict.fromkeys((*run.errors, *handled, *retried, *timeout, run.lost_code))
    return tuple(code for code in codes if "." not in code and not _tried_forever(run, code))


def distinct_codes(chart: Chart, state: str, codes: tuple[str, ...]) -> tuple[str, ...]:
    """One error code for each set of rows that take it: codes alike lead to the same places."""
    by_rows: dict[tuple[int, ...], str] = {}
    for code in codes:
        names = {*names_matching(f"error.work.{state}.{code}"), ANY}
        heard = [arc.index for arc in chart.arcs if names.intersection(map(descriptor, arc.model.events))]
        by_rows.setdefault(tuple(heard), code)
    return tuple(by_rows.values())


def _tried_forever(run: model.Run, code: str) -> bool:
    if code == run.lost_code:
        return losses_allowed(run) is None
    policy = next((policy for policy in run.retry if not policy.on or code in policy.on), None)
    return policy is not None and policy.times is None


def takers(node: StateNode, event: str) -> list[Arc]:
    """The arcs of a state and those around it that wait for an event."""
    return [arc for above in node.upward for arc in above.matching(event)]
