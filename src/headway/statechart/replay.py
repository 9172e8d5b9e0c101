"""A history that an older version of a chart made, judged by a newer one, which may go another way.

The context of that time is not kept, so guards are not asked: what is judged is whether the event had a
transition where the instance stood, and whether one leads where it went.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from headway.codec import Value
from headway.errors import InputError
from headway.statechart import model
from headway.statechart.chart import Chart
from headway.statechart.remap import rule_for
from headway.statechart.tree import Arc, Node

Fate = Literal["same", "refused", "elsewhere"]
MOST_KEPT = 4_096


class Turn(Value):
    """A line of history, as far as the way matters."""

    event: str
    transition: str
    before: str
    after: str


class Replay:
    """Judges lines of one older version; lines of the same kind only once."""

    def __init__(self, old: Chart, new: Chart) -> None:
        self._new = new
        self._rule = rule_for(new, old.version)
        self._names = {row.name for row in old.model.transitions}
        self._known: dict[Turn, Fate | None] = {}

    def fate(self, turn: Turn) -> Fate | None:
        """What would become of it; None for a line of which nothing can be said."""
        if turn not in self._known:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[turn] = self._judge(turn)
        return self._known[turn]

    def _judge(self, turn: Turn) -> Fate | None:
        names = turn.transition.split(", ")
        if not set(names) <= self._names:
            return None
        before, after = self._mapped(turn.before), self._mapped(turn.after)
        if before is None or after is None:
            return None
        try:
            active = self._new.configuration(before)
        except InputError:
            return "refused"
        arcs = list(self._arcs(active, self._event(turn.event)))
        if not arcs:
            return "refused"
        leads = [_leads(arc, active) for arc in arcs]
        same = len(names) > 1 or any(lead is None or lead == after for lead in leads) or self._new.computed
        return "same" if same else "elsewhere"

    def _mapped(self, states: str) -> tuple[str, ...] | None:
        """States of the old chart by their new names; None when only an instance could tell."""
        found: list[str] = []
        for state in states.split("+"):
            to = self._rule.states.get(state, (state,))
            if isinstance(to, model.Named):
                return None
            found += to
        order = {name: node.index for name, node in self._new.nodes.items()}
        return tuple(sorted(dict.fromkeys(found), key=lambda name: order.get(name, -1)))

    def _event(self, event: str) -> str:
        """An event by its new name: those of the engine name a state."""
        parts = [self._state(self._rule.renames.get(part, part)) for part in event.split(".")]
        return self._rule.renames.get(event, ".".join(parts))

    def _state(self, name: str) -> str:
        to = self._rule.states.get(name)
        return to[0] if isinstance(to, tuple) and to else name

    def _arcs(self, active: tuple[Node, ...], event: str) -> Iterator[Arc]:
        inside = {node.id for node in active}
        for node in (*reversed(active), self._new.root):
            for arc in (*node.matching(event), *node.always):
                if not arc.excludes & inside:
                    yield arc


def _leads(arc: Arc, active: tuple[Node, ...]) -> tuple[str, ...] | None:
    """The atomic states after an arc; None when that depends on what the instance remembers."""
    if arc.domain is None:
        return tuple(node.id for node in active if node.atomic)
    if arc.entry is None:
        return None
    domain = arc.domain
    nodes = {node.index: node for node in active if node.atomic and not domain.holds(node)}
    nodes |= {node.index: node for node in arc.entry if node.atomic}
    return tuple(nodes[index].id for index in sorted(nodes))
