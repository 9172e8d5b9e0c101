"""What the names of one version of a chart are called in another: states, transitions and events."""

from __future__ import annotations

from headway.statechart import model
from headway.statechart.chart import Chart
from headway.statechart.tree import names_matching

AFTER = "after."
OF_A_STATE = (
    "done.work.",
    "done.state.",
    "error.work.",
    "deadline.",
    "answer.",
    "remind.",
    "escalate.",
    AFTER,
)
"""Prefixes of engine events that end with the name of a state."""


def rule_for(new: Chart, version: int) -> model.Upgrade:
    """How instances of a version come to the new chart; as they are when it says nothing."""
    found = [each for each in new.model.upgrades if each.version == version]
    return found[0] if found else model.Upgrade(version=version)


def timer_now(rule: model.Upgrade, name: str) -> str:
    """What the timer of a transition is called now; where several have one name, they are numbered."""
    base, dash, number = name.rpartition("-")
    if name not in rule.renames and dash and number.isdecimal():
        return f"{rule.renames.get(base, base)}-{number}"
    return rule.renames.get(name, name)


class Renaming:
    """The names of an older version as a newer one has them, by the rule that it declares."""

    def __init__(self, old: Chart, new: Chart) -> None:
        self._old, self._new = old, new
        self.rule = rule_for(new, old.version)

    def transition(self, name: str) -> str:
        """What a transition is called now."""
        return self.rule.renames.get(name, name)

    def event(self, event: str) -> str:
        """What an event is called now: some of the engine's name a state, and a transition for its timer."""
        prefix = next((each for each in OF_A_STATE if event.startswith(each)), None)
        if event in self.rule.renames or prefix is None:
            return self.rule.renames.get(event, event)
        rest = event.removeprefix(prefix)
        state = next((name for name in names_matching(rest) if name in self._old.nodes), "")
        before = state or rest.partition(".")[0]
        tail = rest[len(before) + 1 :]
        tail = timer_now(self.rule, tail) if prefix == AFTER else tail
        return prefix + ".".join(filter(None, (self._state(before) if state else before, tail)))

    def states(self, states: str) -> str | None:
        """The states of a line of history by their new names; None when that depends on the instance."""
        found: list[str] = []
        for state in states.split("+"):
            to = self.rule.states.get(state, (state,))
            if isinstance(to, model.Named):
                return None
            found += to
        return "+".join(sorted(dict.fromkeys(found), key=self._index))

    def _index(self, name: str) -> int:
        node = self._new.nodes.get(name)
        return -1 if node is None else node.index

    def _state(self, name: str) -> str:
        to = self.rule.states.get(name)
        return to[0] if isinstance(to, tuple) and to else name
