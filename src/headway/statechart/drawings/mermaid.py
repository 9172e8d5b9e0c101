"""A chart as a Mermaid state diagram, for pages that render Mermaid themselves."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from headway.statechart import model
from headway.statechart.chart import Chart, Charted, chart_of
from headway.statechart.drawings import labels
from headway.statechart.drawings.labels import ANY_LIVE
from headway.statechart.drawings.picture import Ends, Picture, boxes
from headway.statechart.tree import HISTORY, Arc, StateNode

RESERVED = frozenset(
    {"accdescr", "acctitle", "as", "choice", "class", "classdef", "click", "constructor", "default"}
    | {"direction", "end", "fork", "hide", "href", "join", "note", "prototype", "scale", "state"}
    | {"statediagram", "style"}
)
LONGEST = 60
_SAFE = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_SPECIAL = re.compile(r"[^\w .,()/=+!?|\'–≤×∞…◷↻↺·@$~^-]|_{2,}|-{2,}|(?<=directio)n", re.IGNORECASE)


def mermaid(chart: Charted, *, highlight: Collection[str] = ()) -> str:
    """The chart as a `stateDiagram-v2`; `highlight` names the states to fill as active."""
    return "\n".join(_Diagram(chart_of(chart)).lines(frozenset(highlight))) + "\n"


class _Diagram:
    """Writes the lines of one diagram."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.picture = Picture(chart)
        self.inside = {ends.tail for ends in self.picture.arrows if ends.inside}
        self.ids = {node: _id(node) for node in chart.order}

    def lines(self, highlight: frozenset[str]) -> Iterator[str]:
        """The whole diagram."""
        yield "stateDiagram-v2"
        root = self.chart.root
        yield from self._inside(root, "    ")
        active = [self.ids[node] for node in self.chart.order if node.id in highlight and node is not root]
        if active:
            yield "    classDef active fill:#fde68a,stroke:#b45309,stroke-width:2px"
            yield f"    class {','.join(active)} active"

    def _inside(self, node: StateNode, indent: str) -> Iterator[str]:
        """What stands in a box: its beginning, its states, and the arrows between them."""
        if node.kind == "parallel":
            yield from self._regions(node, indent)
            return
        yield from (f"{indent}[*] --> {self.ids[head]}" for head in node.completion)
        yield from self._pseudo(node, indent)
        for child in node.children + node.history:
            yield from self._state(child, indent)
        for ends in self._drawn_in(node):
            yield from (f"{indent}{line}" for line in self._arrow(ends))
        finals = [child for child in node.children if child.kind == "final"]
        yield from (f"{indent}{self.ids[child]} --> [*]" for child in finals)

    def _regions(self, node: StateNode, indent: str) -> Iterator[str]:
        for place, child in enumerate(node.children):
            if place:
                yield f"{indent}--"
            else:
                yield from self._pseudo(node, indent)
                for history in node.history:
                    yield from self._state(history, indent)
            yield from self._state(child, indent)

    def _drawn_in(self, node: StateNode) -> Iterator[Ends]:
        """The arrows of a box, and those between the regions of the parallel states in it."""
        yield from self.picture.placed.get(node, ())
        for child in node.children:
            if child.kind == "parallel":
                yield from self._drawn_in_regions(child)

    def _drawn_in_regions(self, parallel: StateNode) -> Iterator[Ends]:
        yield from self.picture.placed.get(parallel, ())
        for region in parallel.children:
            if region.kind == "parallel":
                yield from self._drawn_in_regions(region)

    def _pseudo(self, node: StateNode, indent: str) -> Iterator[str]:
        """The state that stands for any state of the chart, or of a box, where arrows need it."""
        root = node.parent is None
        live = root and (node in self.picture.stays or any(ends.tail is node for ends in self.picture.arrows))
        if live or node in self.inside:
            name = self._from_any(node)
            yield f'{indent}state "{_text(ANY_LIVE if root else f"anywhere in {node.id}")}" as {name}'
        if live:
            yield from (f"{indent}{name} : {self._says(arc)}" for arc in self.picture.stays.get(node, ()))

    def _from_any(self, node: StateNode) -> str:
        return "any_live_" if node.parent is None else f"in_{node.index}_"

    def _state(self, node: StateNode, indent: str) -> Iterator[str]:
        name, title = self.ids[node], _title(node)
        notes = [_text(note) for note in labels.notes(node.model)]
        notes += [f"↻ {self._says(arc)}" for arc in self.picture.stays.get(node, ())]
        if not boxes(node):
            yield f'{indent}state "{title}" as {name}'
            yield from (f"{indent}{name} : {note}" for note in notes)
            yield from (f"{indent}{name} --> {self.ids[head]} : otherwise" for head in _fallbacks(node))
            return
        yield f'{indent}state "{" · ".join([title, *notes])}" as {name} {{'
        yield from self._inside(node, indent + "    ")
        yield f"{indent}}}"

    def _arrow(self, ends: Ends) -> Iterator[str]:
        whole = ends.inside or ends.tail.parent is None
        tail = self._from_any(ends.tail) if whole else self.ids[ends.tail]
        again = f" ↺ {_text(ends.again.id)} anew" if ends.again else ""
        for arc in self.picture.arrows[ends]:
            yield f"{tail} --> {self.ids[ends.head]} : {self._says(arc)}{again}"

    def _says(self, arc: Arc) -> str:
        row = arc.model
        parts = [_text(labels.trigger(self.chart, row)), *_conditions(row)]
        done = labels.effects(row.actions)
        return " ".join([*parts, f"/ {_text(', '.join(done))}"] if done else parts)


def _conditions(row: model.Transition) -> Iterator[str]:
    if row.excludes:
        yield _text(f"but {', '.join(row.excludes)}")
    if who := labels.who(row):
        yield f"({_text(who)})"
    if guard := labels.guard(row):
        yield f"[{_text(guard)}]"


def _fallbacks(node: StateNode) -> tuple[StateNode, ...]:
    return node.completion if node.kind in HISTORY else ()


def _title(node: StateNode) -> str:
    mark = {"shallow": "(H) ", "deep": "(H#42;) "}.get(node.kind, "")
    return mark + _text(node.id)


def _id(node: StateNode) -> str:
    """The state's own name where Mermaid can take it; no name of a state ends like a made-up one."""
    fine = _SAFE.fullmatch(node.id) and node.id.lower() not in RESERVED and not node.id.endswith("_")
    return node.id if fine else f"s_{node.index}_"


def _text(text: str) -> str:
    """The text on one line, with every character that means something to Mermaid as an entity."""
    return _SPECIAL.sub(_entities, labels.cut(text, LONGEST)) or "·"


def _entities(match: re.Match[str]) -> str:
    return "".join(f"#{ord(character)};" for character in match[0])
