"""A chart as Graphviz source: boxes in boxes, arrows coloured by who or what they wait for."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from headway.statechart import model
from headway.statechart.chart import Chart, Charted, chart_of
from headway.statechart.drawings import labels
from headway.statechart.drawings.labels import ANY_LIVE, TRIGGERS, Trigger
from headway.statechart.drawings.picture import Ends, Picture, boxes
from headway.statechart.tree import HISTORY, Arc, StateNode

FONT = "Helvetica,Arial,sans-serif"
INK, FAINT = "#1e293b", "#64748b"
ARROWS: dict[Trigger, tuple[str, str]] = {
    "person": ("#1d4ed8", "a person"),
    "timer": ("#a15c00", "◷ a timer"),
    "error": ("#b91c1c", "a failure"),
    "automatic": ("#64748b", "automatic"),
    "event": ("#0f766e", "another event"),
}
PLAIN, ASKS, WORKS, ENDS = (
    ("#ffffff", "#475569"),
    ("#e8f0fe", "#1d4ed8"),
    ("#e9f7ef", "#15803d"),
    ("#e2e8f0", "#334155"),
)
ACTIVE = ("#fde68a", "#b45309")
SHADES = ("#f8fafc", "#eef2f7")
LONGEST_NAME, LONGEST_NOTE, LONGEST_LINE = 48, 40, 30
MOST_LONG_ARROWS = 3


def dot(chart: Charted, *, highlight: Collection[str] = (), title: bool = True) -> str:
    """Graphviz source of a chart; `highlight` names the states to fill as active."""
    return "\n".join(_Drawing(chart_of(chart), frozenset(highlight)).lines(title=title)) + "\n"


class _Drawing:
    """Writes the lines of one drawing."""

    def __init__(self, chart: Chart, highlight: frozenset[str]) -> None:
        self.chart = chart
        self.highlight = highlight
        self.picture = Picture(chart)
        self.inside = {ends.tail for ends in self.picture.arrows if ends.inside}
        self.signs = _signs(self.picture)
        self.drawn: dict[StateNode, list[Ends]] = {}
        for ends in self.picture.arrows:
            self.drawn.setdefault(self.signs.get(ends, ends.place), []).append(ends)

    def lines(self, *, title: bool) -> Iterator[str]:
        """The whole source."""
        yield f"digraph {_quoted(self.chart.name)} {{"
        yield from _SETTINGS
        # Ranked as a whole, a life flows better; but regions, which have no order, would drift apart.
        if all(node.kind != "parallel" for node in self.chart.order):
            yield "  newrank=true;"
        if title:
            yield f"  label={self._title()}; labelloc=t; labeljust=l;"
        yield from self._initial(self.chart.root)
        if self._any_live():
            yield self._pseudo("any", ANY_LIVE, self.picture.stays.get(self.chart.root, ()))
        for node in self.chart.root.children + self.chart.root.history:
            yield from self._node(node)
        yield from self._arrows(self.chart.root)
        yield "}"

    def _any_live(self) -> bool:
        root = self.chart.root
        return root in self.picture.stays or any(ends.tail is root for ends in self.picture.arrows)

    def _title(self) -> str:
        used = {labels.trigger_kind(row) for row in self.chart.model.transitions}
        legend = [_font(ARROWS[kind][1], ARROWS[kind][0], 10) for kind in TRIGGERS if kind in used]
        waits = _font("arrows wait for ", FAINT, 10) + _font(" · ", FAINT, 10).join(legend)
        # A second run of text beside a bold one overlaps it where the viewer's font is wider than Graphviz's.
        name = f"<B>{_html(self.chart.name)}, version {self.chart.version}</B>"
        return f'<{name}<BR ALIGN="LEFT"/>{waits if legend else ""}<BR ALIGN="LEFT"/>>'

    def _node(self, node: StateNode) -> Iterator[str]:
        if node.kind in HISTORY:
            yield from self._history(node)
        elif boxes(node):
            yield from self._cluster(node)
        else:
            yield self._box(node)

    def _box(self, node: StateNode) -> str:
        fill, line = self._colours(node)
        looks = f'fillcolor="{fill}", color="{line}", penwidth={2.4 if node.id in self.highlight else 1.1}'
        borders = ", peripheries=2" if node.kind == "final" else ""
        return f"  n{node.index} [{self._about(node)}, label={self._label(node)}, {looks}{borders}];"

    def _cluster(self, node: StateNode) -> Iterator[str]:
        fill, line = self._colours(node)
        shade = fill if node.id in self.highlight else SHADES[len(node.path) % len(SHADES)]
        style = "rounded,filled,dashed" if node.kind == "parallel" else "rounded,filled"
        yield f"  subgraph cluster_{node.index} {{"
        yield f'  {self._about(node, "; ")}; label={self._label(node)}; labeljust=l; style="{style}";'
        yield f'  fillcolor="{shade}"; color="{line}"; margin=12;'
        yield from self._initial(node)
        if node in self.inside:
            yield self._pseudo(f"in{node.index}", f"anywhere in {node.id}", ())
        for child in node.children + node.history:
            yield from self._node(child)
        yield from self._arrows(node)
        yield "  }"

    def _history(self, node: StateNode) -> Iterator[str]:
        mark = "H*" if node.kind == "deep" else "H"
        name = _html_label(_small([labels.cut(node.id, LONGEST_LINE)]))
        shape = "shape=circle, width=.3, height=.3, fixedsize=true"
        yield f"  n{node.index} [{self._about(node)}, {shape}, label=<<B>{mark}</B>>, xlabel={name}];"
        for head in node.completion:
            looks = f'style=dotted, color="{FAINT}", label={_html_label([_font("otherwise", FAINT, 9)])}'
            yield f"  n{node.index} -> {_end(head)} [{looks}{_heads(head, node)}];"

    def _initial(self, node: StateNode) -> Iterator[str]:
        if node.kind != "compound" or not node.children:
            return
        shape = 'shape=circle, label="", width=.13, height=.13, fixedsize=true, style=filled'
        yield f'  i{node.index} [{shape}, fillcolor="{INK}"];'
        for head in node.completion:
            looks = f'color="{INK}", arrowsize=.6, weight=4'
            yield f"  i{node.index} -> {_end(head)} [{looks}{_heads(head, None)}];"

    def _pseudo(self, name: str, text: str, stays: Iterable[Arc]) -> str:
        label = _html_label([_font(_html(labels.cut(text, LONGEST_NAME)), FAINT, 10), *self._stays(stays)])
        return f'  {name} [label={label}, style="rounded,dashed", color="{FAINT}"];'

    def _arrows(self, place: StateNode) -> Iterator[str]:
        here = self.drawn.get(place, [])
        for head in dict.fromkeys(ends.head for ends in here if ends in self.signs):
            label = _html_label([_html(f"→ {labels.cut(head.id, LONGEST_NAME)}")])
            yield f'  {_sign(place, head)} [label={label}, fontsize=10, fillcolor="{ENDS[0]}", penwidth=0];'
        for ends in here:
            yield f"  {self._run(ends)} [{self._looks(ends, self.picture.arrows[ends])}];"

    def _run(self, ends: Ends) -> str:
        if ends in self.signs:
            return f"{_tail(ends)} -> {_sign(self.signs[ends], ends.head)}"
        # Written the other way round, so that what comes first in the life stands first on the page.
        back = self.picture.backward(ends)
        return f"{_end(ends.head)} -> {_tail(ends)}" if back else f"{_tail(ends)} -> {_end(ends.head)}"

    def _clipped(self, ends: Ends) -> str:
        """The arrow starts and ends at the borders of boxes."""
        back = self.picture.backward(ends) and ends not in self.signs
        to, off = ("ltail", "lhead") if back else ("lhead", "ltail")
        starts = boxes(ends.tail) and ends.tail.parent is not None and not ends.inside
        clipped = ", dir=back" if back else ""
        clipped += f", {off}=cluster_{ends.tail.index}" if starts else ""
        return clipped if ends in self.signs else clipped + _heads(ends.head, ends.tail, to)

    def _looks(self, ends: Ends, arcs: list[Arc]) -> str:
        kinds = [labels.trigger_kind(arc.model) for arc in arcs]
        colour = ARROWS[kinds[0]][0] if len(set(kinds)) == 1 else INK
        style = ", style=dashed" if set(kinds) == {"timer"} else ""
        lines = [line for arc in arcs for line in self._says(arc)]
        if ends.again is not None:
            lines.append(_font(_html(labels.cut(f"↺ {ends.again.id} anew", LONGEST_LINE)), FAINT, 9))
        return f'label={_padded(lines)}, color="{colour}"{style}{self._clipped(ends)}'

    def _says(self, arc: Arc) -> list[str]:
        row = arc.model
        kind = labels.trigger_kind(row)
        clock = "◷ " if kind == "timer" else ""
        by = _font(f" · {_html(labels.cut(', '.join(row.by), 24))}", FAINT, 9) if row.by else ""
        first = _font(
            _html(clock + labels.cut(labels.trigger(self.chart, row), LONGEST_LINE)), ARROWS[kind][0], 10
        )
        but = [f"but {', '.join(row.excludes)}"] if row.excludes else []
        return [first + by, *_small([*but, *_details(row)])]

    def _stays(self, stays: Iterable[Arc]) -> list[str]:
        found = []
        for arc in stays:
            first, *rest = self._says(arc)
            found += [_font("↻ ", FAINT, 9) + first, *rest]
        return found

    def _label(self, node: StateNode) -> str:
        name = f"<B>{_html(labels.cut(node.id, LONGEST_NAME))}</B>"
        notes = [line for note in labels.notes(node.model) for line in _wrapped(note, LONGEST_NOTE, 3)]
        stays = self._stays(self.picture.stays.get(node, ()))
        return _html_label([name, *_small(notes), *stays], left=boxes(node))

    def _colours(self, node: StateNode) -> tuple[str, str]:
        if node.id in self.highlight:
            return ACTIVE
        if node.kind == "final":
            return ENDS
        return ASKS if node.model.ask else WORKS if node.model.run else PLAIN

    def _about(self, node: StateNode, between: str = ", ") -> str:
        tip = labels.cut(node.model.meaning or node.id, 300)
        return f"id={_quoted(f'state-{node.index}')}{between}tooltip={_quoted(tip)}"


_SETTINGS = (
    f'  graph [fontname="{FONT}", fontsize=14, fontcolor="{INK}", bgcolor=white, pad=.3];',
    "  graph [compound=true, rankdir=TB, nodesep=.4, ranksep=.5];",
    f'  node [fontname="{FONT}", fontsize=12, fontcolor="{INK}", margin="0.14,0.07", height=.3];',
    '  node [shape=box, style="rounded,filled", fillcolor=white];',
    f'  edge [fontname="{FONT}", fontsize=10, arrowsize=.7, penwidth=1.2];',
)


def _signs(picture: Picture) -> dict[Ends, StateNode]:
    """The arrows that end at a sign beside their tail, because too many lead out to the same state."""
    out = [ends for ends in picture.arrows if not ends.inside and ends.tail.parent not in {None, ends.place}]
    many = Counter(ends.head for ends in out)
    return {ends: ends.tail.upward[1] for ends in out if many[ends.head] > MOST_LONG_ARROWS}


def _sign(box: StateNode, head: StateNode) -> str:
    return f"to{box.index}_{head.index}"


def _details(row: model.Transition) -> list[str]:
    """Duties, guard and effects, each wrapped, and shortened to what an arrow can carry."""
    guard = labels.guard(row)
    texts = [", ".join(labels.duties(row)), f"[{guard}]" if guard else ""]
    done = labels.effects(row.actions)
    texts.append(f"/ {', '.join(done)}" if done else "")
    return [line for text in texts if text for line in _wrapped(text, LONGEST_LINE, 2)]


def _wrapped(text: str, width: int, lines: int) -> list[str]:
    line = labels.plain(text)
    return textwrap.wrap(line, width, max_lines=lines, placeholder=" …", break_on_hyphens=False)


def _small(lines: Iterable[str]) -> list[str]:
    return [_font(_html(line), FAINT, 9) for line in lines]


def _html_label(lines: Iterable[str], *, left: bool = False) -> str:
    end = '<BR ALIGN="LEFT"/>' if left else "<BR/>"
    text = end.join(lines)
    return f"<{text}{end if left else ''}>"


def _padded(lines: Iterable[str]) -> str:
    """A label that keeps its distance from its arrow."""
    cell = '<TABLE BORDER="0" CELLPADDING="3"><TR><TD BALIGN="LEFT" ALIGN="LEFT">'
    return f"<{cell}{'<BR/>'.join(lines)}</TD></TR></TABLE>>"


def _font(text: str, colour: str, size: int) -> str:
    return f'<FONT COLOR="{colour}" POINT-SIZE="{size}">{text}</FONT>'


def _html(text: str) -> str:
    # Graphviz replaces \N and its like even here.
    shown = labels.plain(text).replace("\\", "\\\\") or "·"
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        shown = shown.replace(character, entity)
    return shown


def _quoted(text: str) -> str:
    escaped = labels.plain(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _end(node: StateNode) -> str:
    """The name of the node an arrow to a state runs to: the state's own, or where a box begins."""
    while node.kind == "parallel" and boxes(node):
        node = node.children[0]
    return f"i{node.index}" if boxes(node) else f"n{node.index}"


def _tail(ends: Ends) -> str:
    """The name of the node an arrow starts from: for a box, its last state."""
    node = ends.tail
    if node.parent is None:
        return "any"
    if ends.inside:
        return f"in{node.index}"
    while boxes(node):
        node = node.children[-1]
    return f"n{node.index}"


def _heads(head: StateNode, within: StateNode | None, attribute: str = "lhead") -> str:
    """The arrow ends at the border of a box, unless it starts inside of it."""
    outside = within is None or not head.holds(within)
    return f", {attribute}=cluster_{head.index}" if boxes(head) and outside else ""
