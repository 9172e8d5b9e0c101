"""The contents of a model: an index of its states and actions, and checks of names, texts and actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, get_args

from headway.statechart import model
from headway.statechart.expressions.expressions import ExpressionError, parse, parse_location
from headway.statechart.people import (
    AUDIENCE,
    CREATOR,
    ENTRY,
    OWNER,
    is_person,
    roles_and_people,
    sender_of,
)
from headway.statechart.tree import comes_from_engine

ACTIONS = frozenset(get_args(model.Action))
LEAVES = frozenset({"atomic", "final", "shallow", "deep"})
DEEPEST_ACTIONS = 32
MOST_SHAPES = 100
TAKEN = frozenset(
    {"_event", "_ioprocessors", "_name", "_sessionid", "children", "counters", "creator", "facts", "instance"}
)
"""Names that the engine uses itself, in expressions or, as `{instance}`, in keys."""

FILLED_IN = frozenset({"creator", "instance"})
"""What a template may name besides the fields of the context."""
Found = Iterator[tuple[str, str]]
"""Problems as pairs: the place (a state id, or transition@source) and the message."""
Texts = tuple[str | None, ...]
Words = tuple[tuple[str, str | None], ...]
"""Pairs of what has a name and the name; None for a name that may be missing."""


class ModelIndex(NamedTuple):
    """A model with the look-ups that its checks share."""

    whole: model.Model
    states: dict[str, model.State]
    children: dict[str, list[model.State]]

    @property
    def native(self) -> bool:
        """Whether the chart is written in Headway's own dialect."""
        return self.whole.dialect == "headway"

    def blocks(self) -> Iterator[tuple[str, tuple[model.Action, ...]]]:
        """The actions of every row and state, with their place."""
        yield "", self.whole.initial_actions
        for state in self.whole.states:
            for block in (*state.entry, *state.exit, state.initial_actions):
                yield state.id, block
        for row in self.whole.transitions:
            yield f"{row.name}@{row.source}", row.actions


def kind_name(kind: str) -> str:
    """The kind of a state as a message says it."""
    return {"final": "final", "shallow": "a history state", "deep": "a history state"}.get(kind, kind)


def comes_from_people(event: str) -> bool:
    """Whether an event is sent from outside, or answers an ask."""
    return event.startswith("answer.") or not comes_from_engine(event)


def context(index: ModelIndex) -> Found:
    """The context is an object, and none of its fields has a name that the engine uses itself."""
    name = index.whole.context
    if name is None or not index.native:
        return
    for shape in _shapes(index.whole.schemas.get(name)):
        kind = shape.get("type")
        if isinstance(kind, str) and kind != "object":
            yield "", f"the context {name} holds no fields: it is of the type {kind}"
        fields = shape.get("properties")
        for field in sorted(TAKEN.intersection(fields) if isinstance(fields, Mapping) else ()):
            yield "", f"the name of the context field {field} is reserved for the engine: choose another"


def templates(index: ModelIndex, fields: frozenset[str]) -> Found:
    """Texts with a `{field}` that the context does not have: it would be filled with nothing."""
    for place, word, template in _templates(index):
        for field in dict.fromkeys(model.FIELD.findall(template)):
            if field not in fields and field not in FILLED_IN:
                yield place, f"{word} is {template!r}: the context has no field {field}"


def people(index: ModelIndex) -> Found:
    """Entries for people that name nobody: an owner that is not declared, an event that does not exist."""
    whole = index.whole
    events = {name for row in whole.transitions for name in (row.name, *row.events)}
    entries = [*roles_and_people(whole), *(("", entry) for entry in whole.read_by)]
    for place, entry in dict.fromkeys(entries):
        event = sender_of(entry)
        if not is_person(entry):
            if entry.startswith(AUDIENCE):
                yield place, f"{entry!r} is not a role: a role must not begin with {AUDIENCE}"
        elif not ENTRY.fullmatch(entry):
            yield place, f"{entry!r} names nobody: write {{owner}}, {{creator}}, {{field}} or {{event.by}}"
        elif entry == OWNER and not whole.owner:
            yield place, f'{entry} needs an owner: declare owner="{{creator}}" or owner="{{field}}"'
        elif event is not None and event not in events:
            yield place, f"{entry} names the sender of {event}, but the chart has no event {event}"
        elif not place and entry != OWNER:
            yield place, f"read_by= takes roles and {OWNER}, not {entry}"


def people_fields(index: ModelIndex, fields: frozenset[str]) -> Found:
    """Entries for people in a field that the context never has."""
    for place, entry in dict.fromkeys(roles_and_people(index.whole)):
        by_field = is_person(entry) and entry not in {OWNER, CREATOR} and sender_of(entry) is None
        if by_field and entry[1:-1] not in fields:
            yield place, f"{entry} names somebody by a field that the context does not have"


def _templates(index: ModelIndex) -> Iterator[tuple[str, str, str]]:
    whole = index.whole
    yield "", "the owner", whole.owner
    yield from (("", f"the key of the fact {fact.name}", fact.key) for fact in whole.facts)
    for state in whole.states:
        run = state.run
        if run is not None:
            yield state.id, f"the affinity of {state.id}", run.affinity or ""
            for word, limit in (("concurrency", run.concurrency), ("rate", run.rate)):
                if limit is not None:
                    yield state.id, f"the {word} of {state.id}", f"{limit.key}{limit.most}"
    for place, action in deep_actions(index):
        if isinstance(action, (model.Add, model.PutRecord)):
            yield place, "a key", action.key
        elif isinstance(action, model.Publish):
            yield place, "the name of a message", action.name


def field_names(schema: object) -> frozenset[str] | None:
    """The fields that data of a JSON Schema has; None when it may have any."""
    shapes = _shapes(schema)
    objects = [shape for shape in shapes if shape.get("type") == "object"]
    if not objects or any(shape.get("additionalProperties") for shape in objects):
        return None
    properties = [shape.get("properties", {}) for shape in objects]
    return frozenset(name for each in properties if isinstance(each, Mapping) for name in each)


def _shapes(schema: object) -> list[Mapping[str, Any]]:
    """What a JSON Schema allows, references followed."""
    definitions = schema.get("$defs") if isinstance(schema, Mapping) else None
    known = definitions if isinstance(definitions, Mapping) else {}
    found: list[Mapping[str, Any]] = []
    pending = [schema]
    while pending and len(found) < MOST_SHAPES:
        shape = pending.pop(0)
        if not isinstance(shape, Mapping):
            continue
        found.append(shape)
        pending.append(known.get(str(shape.get("$ref")).rpartition("/")[2]))
        for word in ("anyOf", "oneOf"):
            choices = shape.get(word)
            pending += choices if isinstance(choices, list) else []
    return found


def expressions(index: ModelIndex) -> Found:
    """Texts that are not an expression, or not a place to assign to."""
    if not index.native:
        return
    for place, text in _texts(index):
        try:
            parse(text)
        except ExpressionError as error:
            yield place, f"{text!r} is not an expression: {error}"
    for place, action in deep_actions(index):
        for location in PLACES.get(type(action), _none)(action):
            try:
                parse_location(location or "")
            except ExpressionError as error:
                yield place, f"{location!r} cannot be assigned to: {error}"


def _texts(index: ModelIndex) -> Iterator[tuple[str, str]]:
    for state in index.whole.states:
        if state.where is not None:
            yield state.id, state.where
    for row in index.whole.transitions:
        for condition in (*row.when, row.after):
            if isinstance(condition, model.Formula):
                yield f"{row.name}@{row.source}", condition.text
    for place, action in deep_actions(index):
        for text in TEXTS.get(type(action), _none)(action):
            if text is not None:
                yield place, text


def deep_actions(index: ModelIndex) -> Iterator[tuple[str, model.Action]]:
    """All actions, those inside others too, each with its place."""
    for place, block in index.blocks():
        level = list(block)
        for _ in range(DEEPEST_ACTIONS):
            yield from ((place, action) for action in level)
            level = [inner for action in level for inner in _inside(action)]


def _inside(action: model.Action) -> tuple[model.Action, ...]:
    if isinstance(action, model.If):
        return tuple(each for branch in action.branches for each in branch.actions)
    return action.actions if isinstance(action, model.ForEach) else ()


def _none(_action: object) -> tuple[()]:
    return ()


def _carried(payload: model.Payload) -> Texts:
    return payload.expr, *payload.names, *(param.expr or param.location for param in payload.params)


TEXTS: dict[type, Callable[[Any], Texts]] = {
    model.Assign: lambda do: (do.expr,),
    model.Count: lambda do: (do.expr,),
    model.Raise: lambda do: (do.expr,),
    model.Log: lambda do: (do.expr,),
    model.Tell: lambda do: () if do.to in {"parent", "children"} else (do.to,),
    model.Cancel: lambda do: (do.id_expr,),
    model.If: lambda do: tuple(branch.when for branch in do.branches),
    model.ForEach: lambda do: (do.array,),
    model.Send: lambda do: (
        do.event_expr,
        do.target_expr,
        do.type_expr,
        do.delay_expr,
        *_carried(do.payload),
    ),
}
"""The expressions of an action."""

PLACES: dict[type, Callable[[Any], Texts]] = {
    model.Assign: lambda do: (do.location,),
    model.ForEach: lambda do: (do.item,) if do.index is None else (do.item, do.index),
}
"""The places an action writes to."""


def actions(index: ModelIndex) -> Found:
    """Values that are not an action, and actions nested too deep."""
    for place, block in index.blocks():
        yield from _nesting(place, block)


def _nesting(place: str, block: Iterable[model.Action]) -> Found:
    level = list(block)
    for _ in range(DEEPEST_ACTIONS):
        for action in level:
            if type(action) not in ACTIONS:
                yield place, f"not an action: {action!r}"
        level = [inner for action in level for inner in _inside(action)]
        if not level:
            return
    yield place, f"actions are nested more than {DEEPEST_ACTIONS} levels deep"


def names(index: ModelIndex) -> Found:
    """Names that are empty; those of states and events are checked elsewhere."""
    for place, what, name in _all(index):
        if name == "":
            yield place, f"the name of {what} is empty"


def _all(index: ModelIndex) -> Iterator[tuple[str, str, str | None]]:
    whole = index.whole
    yield "", "the chart", whole.name
    yield "", "the type of the context", whole.context
    yield from (("", "a fact", fact.name) for fact in whole.facts)
    yield from (("", "an invariant", each.name) for each in whole.invariants)
    yield from (("", "a role in staff=", role) for role in whole.staff)
    for state in whole.states:
        yield from ((state.id, what, name) for what, name in _of_state(state))
    for row in whole.transitions:
        place = f"{row.name}@{row.source}"
        yield from ((place, what, name) for what, name in _of_row(row))
    for place, action in deep_actions(index):
        for what, name in NAMES.get(type(action), _none)(action):
            yield place, what, name


def _of_state(state: model.State) -> Iterator[tuple[str, str | None]]:
    if state.run is not None:
        yield f"the queue of {state.id}", state.run.queue
    if state.ask is not None:
        yield f"the form of {state.id}", state.ask.form
        for role in (*state.ask.roles, *(role for each in state.ask.escalate for role in each.roles)):
            yield f"a role that {state.id} asks", role


def _of_row(row: model.Transition) -> Iterator[tuple[str, str | None]]:
    yield f"a transition from {row.source}", row.name
    yield f"the type that {row.name} takes", row.takes
    yield from ((f"a role of {row.name}", role) for role in (*row.by, *row.countersign))
    for condition in (*row.when, row.after):
        if isinstance(condition, model.Named):
            yield f"a function of {row.name}", condition.name


NAMES: dict[type, Callable[[Any], Words]] = {
    model.Call: lambda do: (("a function", do.name),),
    model.Count: lambda do: (("a counter", do.name),),
    model.Add: lambda do: (("a shared counter", do.key),),
    model.Raise: lambda do: (("an event that is raised", do.event),),
    model.Tell: lambda do: (("an event that is sent", do.event), ("the receiver of an event", do.to)),
    model.Publish: lambda do: (("a message", do.name), ("the function of a message", do.data)),
    model.Spawn: lambda do: (("the chart of a child", do.chart), ("a function", do.make)),
    model.PutRecord: lambda do: (("a kind of record", do.kind), ("a record", do.key)),
    **dict.fromkeys((model.Stamp, model.Clear), lambda do: tuple(("a field", name) for name in do.fields)),
}
"""The names in an action."""
