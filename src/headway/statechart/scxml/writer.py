"""Any chart as an SCXML document; what SCXML cannot say stands in a namespace of Headway's own.

A chart that came from SCXML is read back as the same chart. Of a chart written for Headway other tools
see states, transitions, events, expressions and actions; they skip what begins with `headway:`. A
transition from any live state is repeated on each outermost state it can leave.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from headway.codec import Value, to_data
from headway.statechart import model
from headway.statechart.chart import Charted, chart_of
from headway.statechart.expressions.expressions import inline_value
from headway.statechart.scxml.xml import OWN, SCXML

Attributes = dict[str, str | None]
RICH = frozenset({"escalate", "retry", "values"})
ELEMENTS = {"compound": "state", "atomic": "state", "shallow": "history", "deep": "history"}
_FORBIDDEN = [*range(32), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000)]
_IN_TEXT = dict.fromkeys(_FORBIDDEN, "\N{REPLACEMENT CHARACTER}") | str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
)
_IN_QUOTES = {**_IN_TEXT, ord('"'): "&quot;"}


class Tag(NamedTuple):
    """An element to be written; an attribute that is None is left out."""

    name: str
    attributes: Attributes = {}
    children: tuple[Tag, ...] = ()
    text: str = ""


def to_scxml(chart: Charted) -> str:
    """The SCXML document of a chart, or of a class that declares one."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', *_lines(_root(chart_of(chart).model), "")]
    return "\n".join(lines) + "\n"


def _lines(tag: Tag, indent: str) -> Iterator[str]:
    pairs = tag.attributes.items()
    opening = " ".join(
        [tag.name, *(f'{key}="{value.translate(_IN_QUOTES)}"' for key, value in pairs if value is not None)]
    )
    if tag.children:
        yield f"{indent}<{opening}>"
        for child in tag.children:
            yield from _lines(child, indent + "  ")
        yield f"{indent}</{tag.name}>"
    elif tag.text:
        yield f"{indent}<{opening}>{tag.text.translate(_IN_TEXT)}</{tag.name}>"
    else:
        yield f"{indent}<{opening}/>"


def _words(names: Iterable[str]) -> str | None:
    return " ".join(names) or None


def _own(value: Value, fields: str) -> Attributes:
    """What these fields say beyond their defaults, as attributes of Headway's namespace."""
    said = to_data(value)
    return {f"headway:{field}": _plain(said[field]) for field in fields.split() if field in said}


def _own_elements(value: Value, fields: str) -> list[Tag]:
    """As `_own`, for fields that hold more than words: elements with JSON inside."""
    said = to_data(value)
    return [
        Tag(f"headway:{field}", {}, (), json.dumps(said[field])) for field in fields.split() if field in said
    ]


def _plain(value: Any) -> str:
    """A text as it is, words with spaces between them, all else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple) and all(len(str(each).split()) == 1 for each in value):
        return " ".join(map(str, value))
    return json.dumps(value)


def _root(whole: model.Model) -> Tag:
    native = whole.dialect == "headway"
    attributes: Attributes = {
        "xmlns": SCXML,
        "xmlns:headway": OWN if native or whole.version > 1 else None,
        "version": "1.0",
        "name": whole.name,
        "datamodel": "ecmascript",
        "binding": "late" if whole.late_binding else None,
    }
    if not whole.initial_actions:
        attributes["initial"] = _words(whole.initial)
    attributes |= _own(whole, "version meaning context computed cancel max_depth max_children children")
    children = _own_elements(whole, "schemas facts invariants accepts staff")
    children += [*_datamodel(whole.data), *_initial(whole)]
    if not native:
        children += [_transition(whole, row) for row in whole.transitions if row.source == model.ROOT]
    return Tag("scxml", attributes, (*children, *_states(whole)))


def _states(whole: model.Model) -> tuple[Tag, ...]:
    """The outermost states; the tree is built from its leaves, as states follow their parents."""
    inner: dict[str | None, list[Tag]] = {}
    for state in reversed(whole.states):
        below = tuple(reversed(inner.pop(state.id, [])))
        inner.setdefault(state.parent, []).append(_state(whole, state, below))
    return tuple(reversed(inner.get(None, [])))


def _state(whole: model.Model, state: model.State, below: tuple[Tag, ...]) -> Tag:
    history = state.kind in {"shallow", "deep"}
    attributes: Attributes = {"id": state.id, "type": state.kind if history else None}
    if state.kind == "compound" and not state.initial_actions:
        attributes["initial"] = _words(state.initial)
    attributes |= _own(state, "meaning waits_for where progress says")
    children = [*_datamodel(state.data)]
    children += [Tag("onentry", {}, _content(block)) for block in state.entry]
    children += [Tag("onexit", {}, _content(block)) for block in state.exit]
    if state.output is not None:
        children.append(Tag("donedata", {}, _payload(state.output)))
    children += [_foreign(part, name) for part, name in ((state.run, "run"), (state.ask, "ask")) if part]
    children += [_default(_recalled(whole, state), state.initial_actions)] if history else _initial(state)
    children += [_transition(whole, row) for row in whole.transitions if row.source == state.id]
    children += _from_any_state(whole, state)
    return Tag(ELEMENTS.get(state.kind, state.kind), attributes, (*children, *below))


def _initial(holder: model.State | model.Model) -> list[Tag]:
    if not holder.initial_actions:
        return []
    return [Tag("initial", {}, (_default(holder.initial, holder.initial_actions),))]


def _recalled(whole: model.Model, history: model.State) -> tuple[str, ...]:
    """What a history state stands for at first: what its parent would enter, if it does not say."""
    around = next((state.initial for state in whole.states if state.id == history.parent), ())
    beside = [state for state in whole.states if state.parent == history.parent]
    return (
        history.initial
        or around
        or tuple(state.id for state in beside if ELEMENTS.get(state.kind) != "history")
    )


def _default(targets: tuple[str, ...], actions: tuple[model.Action, ...]) -> Tag:
    return Tag("transition", {"target": _words(targets)}, _content(actions))


def _from_any_state(whole: model.Model, state: model.State) -> Iterator[Tag]:
    if whole.dialect == "scxml" or state.parent is not None or state.kind == "final":
        return
    for row in whole.transitions:
        if row.source == model.ROOT and state.id not in row.excludes:
            yield _transition(whole, row)


def _transition(whole: model.Model, row: model.Transition) -> Tag:
    formulas = [each.text for each in row.when if isinstance(each, model.Formula)]
    formulas += [f"!In({name!r})" for name in row.excludes]
    attributes: Attributes = {
        "event": _words(row.events),
        "cond": " && ".join(f"({each})" for each in formulas) if formulas[1:] else next(iter(formulas), None),
        "target": _words(row.targets),
        "type": "internal" if row.internal else None,
        "headway:when": _words(each.name for each in row.when if isinstance(each, model.Named)),
    }
    if whole.dialect == "headway" and row.events != (row.name,):
        attributes["headway:name"] = row.name
    attributes |= _own(row, "meaning lands after by takes distinct_from quorum countersign no_agent")
    return Tag("transition", attributes, _content(row.actions))


def _datamodel(data: tuple[model.Datum, ...]) -> list[Tag]:
    inner = tuple(Tag("data", {"id": each.id, "expr": each.expr}, (), _text(each.value)) for each in data)
    return [Tag("datamodel", {}, inner)] if inner else []


def _text(value: Any) -> str:
    """The text that means a value: itself when it is plain, else JSON."""
    if value is None:
        return ""
    if isinstance(value, str) and value.isprintable() and inline_value(value) == value and value:
        return value
    return json.dumps(value)


def _payload(payload: model.Payload) -> tuple[Tag, ...]:
    params = tuple(
        Tag("param", {"name": each.name, "expr": each.expr, "location": each.location})
        for each in payload.params
    )
    if payload.expr is None and payload.content is None:
        return params
    return (*params, Tag("content", {"expr": payload.expr}, (), _text(payload.content)))


def _content(actions: tuple[model.Action, ...]) -> tuple[Tag, ...]:
    return tuple(CONTENT.get(type(action), _other)(action) for action in actions)


def _foreign(value: Value, name: str) -> Tag:
    """A value SCXML has no element for; what is more than words in it stands inside, as JSON."""
    said = {key: part for key, part in to_data(value).items() if key != "do"}
    rich = [key for key in said if key in RICH]
    attributes: Attributes = {key: _plain(part) for key, part in said.items() if key not in rich}
    return Tag(f"headway:{name}", attributes, tuple(_own_elements(value, " ".join(rich))))


def _other(action: Any) -> Tag:
    return _foreign(action, to_data(action)["do"])


def _raise(action: model.Raise) -> Tag:
    return Tag("raise", {"event": action.event, **_own(action, "expr")})


def _if(action: model.If) -> Tag:
    first, *others = action.branches
    inner = [*_content(first.actions)]
    for branch in others:
        inner.append(Tag("else" if branch.when is None else "elseif", {"cond": branch.when}))
        inner += _content(branch.actions)
    return Tag("if", {"cond": "true" if first.when is None else first.when}, tuple(inner))


def _foreach(action: model.ForEach) -> Tag:
    attributes: Attributes = {"array": action.array, "item": action.item, "index": action.index}
    return Tag("foreach", attributes, _content(action.actions))


def _log(action: model.Log) -> Tag:
    return Tag("log", {"label": action.label or None, "expr": action.expr})


def _assign(action: model.Assign) -> Tag:
    return Tag("assign", {"location": action.location, "expr": action.expr}, (), _text(action.value))


def _send(action: model.Send) -> Tag:
    attributes: Attributes = {
        "event": action.event,
        "eventexpr": action.event_expr,
        "target": action.target,
        "targetexpr": action.target_expr,
        "type": action.type,
        "typeexpr": action.type_expr,
        "id": action.id,
        "idlocation": action.id_location,
        "delay": f"{action.delay}ms" if action.delay else None,
        "delayexpr": action.delay_expr,
        "namelist": _words(action.payload.names),
    }
    return Tag("send", attributes, _payload(action.payload))


def _cancel(action: model.Cancel) -> Tag:
    return Tag("cancel", {"sendid": action.id, "sendidexpr": action.id_expr})


CONTENT: dict[type, Callable[[Any], Tag]] = {
    model.Raise: _raise,
    model.If: _if,
    model.ForEach: _foreach,
    model.Log: _log,
    model.Assign: _assign,
    model.Send: _send,
    model.Cancel: _cancel,
}
