"""A second interpreter, deliberately naive: Appendix D of the SCXML recommendation, word for word.

It works on the model alone, with sets, lists and searches, and shares no code with the interpreter it
judges. The names of its methods are those of the recommendation.
"""
# ruff: noqa: D102 - the methods bear the names of the recommendation, which tells what they do

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from headway.statechart import model
from tests.statechart.naive_tree import ROOT, Tree

Guard = Callable[[Mapping[str, Any], Mapping[str, int]], bool]


@dataclass
class Pending:
    """An event that comes later."""

    due: datetime
    event: str
    state: str | None
    sent_as: str | None


@dataclass
class Moved:
    """One microstep: the transitions taken together, and the atomic states before and after."""

    transitions: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass
class Entry:
    """What enterStates collects before it enters anything."""

    states: list[model.State] = field(default_factory=list)
    by_default: list[model.State] = field(default_factory=list)
    content: dict[str, tuple[model.Action, ...]] = field(default_factory=dict)

    def add(self, state: model.State) -> None:
        """Each state once."""
        if state not in self.states:
            self.states.append(state)


class Naive(Tree):
    """One life of a chart, kept in plain attributes that tests compare."""

    def __init__(
        self, whole: model.Model, guards: Mapping[str, Guard], context: Mapping[str, Any], now: datetime
    ) -> None:
        super().__init__(whole)
        self.guards, self.context, self.now = guards, dict(context), now
        self.configuration: list[model.State] = []
        self.history_value: dict[str, list[model.State]] = {}
        self.counters: dict[str, int] = {}
        self.since: dict[str, datetime] = {}
        self.pending: list[Pending] = []
        self.logged: list[str] = []
        self.moves: list[Moved] = []
        self.internal_queue: list[str] = []
        self.external_queue: list[str] = []
        self.running = True
        first = model.Transition(name="start", source=model.ROOT, targets=self.default_targets(ROOT))
        self.execute(whole.initial_actions)
        self.enter_states([first], [ROOT])
        self.main_event_loop()

    # What a test does with it.

    def send(self, event: str) -> bool:
        """Whether an event from outside moved anything."""
        self.logged, self.moves = [], []
        if self.running:
            self.external_queue.append(event)
            self.main_event_loop()
        return bool(self.moves)

    def next_due(self) -> Pending | None:
        """The event that comes next: the earliest, of several the first that was set."""
        return min(self.pending, key=lambda each: each.due, default=None)

    def fire(self, due: Pending) -> None:
        """Let time pass until an event comes, and take it."""
        self.now = max(self.now, due.due)
        self.pending.remove(due)
        self.send(due.event)

    def leaves(self) -> tuple[str, ...]:
        """The active atomic states in document order."""
        return tuple(s.id for s in self.sorted(self.configuration) if self.is_atomic(s))

    def memory(self) -> dict[str, tuple[str, ...]]:
        """What history states remember, in document order."""
        return {key: tuple(s.id for s in self.sorted(kept)) for key, kept in self.history_value.items()}

    # The loop.

    def main_event_loop(self) -> None:
        self.complete_macrostep()
        while self.running and self.external_queue:
            enabled = self.select_transitions(self.external_queue.pop(0))
            if enabled:
                self.microstep(enabled)
            self.complete_macrostep()
        if not self.running:
            self.exit_interpreter()

    def complete_macrostep(self) -> None:
        while self.running:
            enabled = self.select_eventless_transitions()
            if not enabled:
                if not self.internal_queue:
                    break
                enabled = self.select_transitions(self.internal_queue.pop(0))
            if enabled:
                self.microstep(enabled)

    def exit_interpreter(self) -> None:
        """Runs what leaving would run; the states stay on record, as where the life ended."""
        for state in reversed(self.sorted(self.configuration)):
            for block in state.exit:
                self.execute(block)
        self.pending, self.internal_queue, self.external_queue = [], [], []

    def select_eventless_transitions(self) -> list[model.Transition]:
        return self.select(lambda t: not t.events)

    def select_transitions(self, event: str) -> list[model.Transition]:
        return self.select(lambda t: any(name_match(descriptor, event) for descriptor in t.events))

    def select(self, offered: Callable[[model.Transition], bool]) -> list[model.Transition]:
        enabled: list[model.Transition] = []
        for state in self.sorted(filter(self.is_atomic, self.configuration)):
            found = self.first_enabled(state, offered)
            if found is not None and found not in enabled:
                enabled.append(found)
        return self.remove_conflicting_transitions(enabled)

    def first_enabled(
        self, state: model.State, offered: Callable[[model.Transition], bool]
    ) -> model.Transition | None:
        for above in [state, *self.proper_ancestors(state, None)]:
            for transition in self.model.transitions:
                if transition.source == above.id and offered(transition) and self.condition_match(transition):
                    return transition
        return None

    def condition_match(self, transition: model.Transition) -> bool:
        if any(state.id in transition.excludes for state in self.configuration):
            return False
        return all(self.holds(condition) for condition in transition.when)

    def holds(self, condition: model.Condition) -> bool:
        if isinstance(condition, model.Named):
            return self.guards[condition.name](self.context, self.counters)
        asked = re.fullmatch(r"In\('(\w+)'\)", condition.text)
        assert asked is not None, "this interpreter knows no other expression"
        return self.states[asked[1]] in self.configuration

    def remove_conflicting_transitions(self, enabled: Sequence[model.Transition]) -> list[model.Transition]:
        filtered: list[model.Transition] = []
        for t1 in enabled:
            preempted = False
            to_remove = []
            for t2 in filtered:
                if any(s in self.compute_exit_set([t2]) for s in self.compute_exit_set([t1])):
                    if self.is_descendant(self.states[t1.source], self.states[t2.source]):
                        to_remove.append(t2)
                    else:
                        preempted = True
                        break
            if not preempted:
                filtered = [t for t in filtered if t not in to_remove]
                filtered.append(t1)
        return filtered

    def microstep(self, enabled: list[model.Transition]) -> None:
        before = self.leaves()
        # Before leaving: what is left becomes history, and a move has one domain, not two.
        domains = [self.transition_domain(transition) for transition in enabled]
        self.exit_states(enabled)
        for transition in enabled:
            self.execute(transition.actions)
        self.enter_states(enabled, domains)
        self.moves.append(Moved(tuple(t.name for t in enabled), before, self.leaves()))

    # Leaving.

    def exit_states(self, enabled: list[model.Transition]) -> None:
        to_exit = list(reversed(self.sorted(self.compute_exit_set(enabled))))
        for state in to_exit:
            for history in self.histories(state):
                self.history_value[history.id] = self.to_remember(history, state)
        for state in to_exit:
            for block in state.exit:
                self.execute(block)
            self.configuration.remove(state)
            del self.since[state.id]
        left = {state.id for state in to_exit}
        self.pending = [each for each in self.pending if each.state not in left]

    def to_remember(self, history: model.State, state: model.State) -> list[model.State]:
        if history.kind == "deep":
            return [s for s in self.configuration if self.is_atomic(s) and self.is_descendant(s, state)]
        return [s for s in self.configuration if self.parent(s) == state]

    def compute_exit_set(self, transitions: Iterable[model.Transition]) -> list[model.State]:
        to_exit: list[model.State] = []
        for transition in transitions:
            domain = self.transition_domain(transition)
            if domain is not None:
                to_exit += [
                    s for s in self.configuration if self.is_descendant(s, domain) and s not in to_exit
                ]
        return to_exit

    def transition_domain(self, transition: model.Transition) -> model.State | None:
        targets = self.effective_target_states(transition.targets)
        source = self.states[transition.source]
        if not targets:
            return None
        if source is ROOT:
            return ROOT
        inside = all(self.is_descendant(target, source) for target in targets)
        if transition.internal and source.kind == "compound" and inside:
            return source
        return self.find_lcca([source, *targets])

    def find_lcca(self, states: list[model.State]) -> model.State:
        for above in self.proper_ancestors(states[0], None):
            if above.kind == "compound" and all(self.is_descendant(s, above) for s in states[1:]):
                return above
        raise AssertionError("the root holds every state")

    def effective_target_states(self, targets: Iterable[str]) -> list[model.State]:
        effective: list[model.State] = []
        for state in self.named(targets):
            if not self.is_history(state):
                effective.append(state)
            elif state.id in self.history_value:
                effective += self.history_value[state.id]
            else:
                effective += self.effective_target_states(self.history_targets(state))
        return effective

    # Entering.

    def enter_states(self, enabled: list[model.Transition], domains: Sequence[model.State | None]) -> None:
        entry = Entry()
        for transition, domain in zip(enabled, domains, strict=True):
            self.compute_entry_set(transition, domain, entry)
        for state in self.sorted(entry.states):
            if state in self.configuration:
                # Only a history state names one that was not left; section 3.13 says it is not entered again.
                continue
            self.configuration.append(state)
            self.since[state.id] = self.now
            for block in state.entry:
                self.execute(block)
            if state in entry.by_default:
                self.execute(state.initial_actions)
            self.execute(entry.content.get(state.id, ()))
            self.set_timers(state)
            if state.kind == "final":
                self.reach_final(state)

    def reach_final(self, state: model.State) -> None:
        parent = self.parent(state)
        assert parent is not None
        if parent is ROOT:
            self.running = False
            return
        self.internal_queue.append(f"done.state.{parent.id}")
        grandparent = self.parent(parent)
        assert grandparent is not None
        if grandparent.kind == "parallel" and all(
            self.is_in_final_state(s) for s in self.child_states(grandparent)
        ):
            self.internal_queue.append(f"done.state.{grandparent.id}")

    def is_in_final_state(self, state: model.State) -> bool:
        if state.kind == "compound":
            return any(s.kind == "final" and s in self.configuration for s in self.child_states(state))
        if state.kind == "parallel":
            return all(self.is_in_final_state(s) for s in self.child_states(state))
        return False

    def compute_entry_set(
        self, transition: model.Transition, domain: model.State | None, entry: Entry
    ) -> None:
        for state in self.named(transition.targets):
            self.add_descendant_states_to_enter(state, entry)
        for state in self.effective_target_states(transition.targets):
            self.add_ancestor_states_to_enter(state, domain, entry)

    def add_descendant_states_to_enter(self, state: model.State, entry: Entry) -> None:
        if self.is_history(state):
            self.add_remembered_states_to_enter(state, entry)
            return
        entry.add(state)
        if state.kind == "compound":
            entry.by_default.append(state)
            self.add_all(self.named(self.default_targets(state)), state, entry)
        elif state.kind == "parallel":
            self.add_missing_regions(state, entry)

    def add_remembered_states_to_enter(self, history: model.State, entry: Entry) -> None:
        parent = self.parent(history)
        assert parent is not None
        if history.id in self.history_value:
            self.add_all(self.history_value[history.id], parent, entry)
        else:
            entry.content[parent.id] = history.initial_actions
            self.add_all(self.named(self.history_targets(history)), parent, entry)

    def add_all(self, states: list[model.State], ancestor: model.State, entry: Entry) -> None:
        for state in states:
            self.add_descendant_states_to_enter(state, entry)
        for state in states:
            self.add_ancestor_states_to_enter(state, ancestor, entry)

    def add_ancestor_states_to_enter(
        self, state: model.State, ancestor: model.State | None, entry: Entry
    ) -> None:
        for above in self.proper_ancestors(state, ancestor):
            if above is ROOT:
                continue
            entry.add(above)
            if above.kind == "parallel":
                self.add_missing_regions(above, entry)

    def add_missing_regions(self, state: model.State, entry: Entry) -> None:
        for child in self.child_states(state):
            if not any(self.is_descendant(s, child) for s in entry.states):
                self.add_descendant_states_to_enter(child, entry)

    # Executable content.

    def set_timers(self, state: model.State) -> None:
        for transition in self.model.transitions:
            if transition.source == state.id and isinstance(transition.after, int):
                self.later(transition.after, transition.events[0], state.id, None)

    def later(self, wait: int, event: str, state: str | None, sent_as: str | None) -> None:
        self.pending.append(Pending(self.now + timedelta(milliseconds=wait), event, state, sent_as))

    def execute(self, actions: Iterable[model.Action]) -> None:
        for action in actions:
            match action:
                case model.Log(label=label):
                    self.logged.append(label)
                case model.Raise(event=event):
                    self.internal_queue.append(event)
                case model.Count(name=name, by=by):
                    self.counters[name] = self.counters.get(name, 0) + by
                case model.Put(values=values):
                    self.context.update(values)
                case model.Send(event=str(event), delay=0):
                    self.external_queue.append(event)
                case model.Send(event=str(event), delay=delay, id=sent_as):
                    self.later(delay, event, None, sent_as)
                case model.Cancel(id=sent_as):
                    self.pending = [each for each in self.pending if each.sent_as != sent_as]
                case _:
                    raise AssertionError(f"this interpreter knows no {action!r}")


def name_match(descriptor: str, event: str) -> bool:
    """Whether a descriptor is the event's name, or the first words of it."""
    if descriptor == "*":
        return True
    wanted = descriptor.removesuffix(".*").removesuffix(".").split(".")
    return event.split(".")[: len(wanted)] == wanted
