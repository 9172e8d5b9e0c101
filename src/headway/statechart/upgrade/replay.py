"""A history that an older version of a chart made, judged by a newer one, which may go another way.

The context of that time is not kept, so guards are not asked: what is judged is whether the event had a
transition where the instance stood, and whether one leads where it went.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from headway.codec import Value
from headway.errors import InputError
from headway.statechart.chart import Chart
from headway.statechart.tree import Arc, Node
from headway.statechart.upgrade.renaming import Renaming

Fate = Literal["same", "refused", "elsewhere"]
MOST_KEPT = 4_096
MANY = ", "
"""What stands between the transitions of one line."""


class Turn(Value):
    """A line of history, as far as the way matters; in the words of one version of its chart."""

    event: str
    transition: str
    before: str
    after: str

    def renamed(self, renaming: Renaming) -> Turn | None:
        """The same in the words of another version; None when only the instance of that time could tell."""
        before, after = renaming.states(self.before), renaming.states(self.after)
        if before is None or after is None:
            return None
        names = map(renaming.transition, self.transition.split(MANY))
        return Turn(renaming.event(self.event), MANY.join(names), before, after)


class Replay:
    """Judges turns of one older version; turns of the same kind only once."""

    def __init__(self, old: Chart, new: Chart) -> None:
        self._new = new
        self._renaming = Renaming(old, new)
        self._known: dict[Turn, Fate | None] = {}

    def fate(self, turn: Turn) -> Fate | None:
        """What would become of it; None for one of which nothing can be said."""
        if turn not in self._known:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[turn] = self._judge(turn.renamed(self._renaming))
        return self._known[turn]

    def _judge(self, turn: Turn | None) -> Fate | None:
        if turn is None:
            return None
        try:
            active = self._new.configuration(tuple(turn.before.split("+")))
        except InputError:
            return "refused"
        arcs = list(self._arcs(active, turn.event))
        if not arcs:
            return "refused"
        leads = [_leads(arc, active) for arc in arcs]
        after = tuple(turn.after.split("+"))
        same = MANY in turn.transition or any(lead is None or lead == after for lead in leads)
        return "same" if same or self._new.computed else "elsewhere"

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
