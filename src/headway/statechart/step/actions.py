"""What each kind of action does to a draft, by table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from headway.clock import milliseconds, time_text
from headway.codec import as_json, encode, require_depth
from headway.errors import InputError, TooDeepError
from headway.statechart import model
from headway.statechart.authoring.declarations import Making
from headway.statechart.effects import (
    AddToCounter,
    CancelTimer,
    Deliver,
    PublishMessage,
    SetTimer,
    SpawnChild,
    StoreRecord,
    WriteLog,
)
from headway.statechart.expressions.expressions import (
    EvaluationError,
    Expression,
    location_or_failing,
    parse_or_failing,
    truthy,
)
from headway.statechart.redaction import HIDDEN
from headway.statechart.refusal import Veto
from headway.statechart.snapshot import Event, Snapshot, Timer
from headway.statechart.step.draft import PLAIN, SCXML_PROCESSOR, Draft, own_address
from headway.statechart.types import Mismatch

LONGEST_FILLED = 500
MOST_ITEMS = 10_000
MOST_TURNS = 100_000
SCXML_TYPES = frozenset({None, "", "scxml", SCXML_PROCESSOR, "http://www.w3.org/TR/scxml"})


STORED = PLAIN - {float}
"""Types of which every value is as JSON would bring it back; a float may be infinite."""


class Fault(Exception):  # noqa: N818 - becomes the event error.execution, or a refusal
    """An action failed; the rest of its block is not run."""

    def __init__(self, message: str, event: str = "error.execution", send_id: str | None = None) -> None:
        self.event = event
        self.send_id = send_id
        super().__init__(message)


def perform(draft: Draft, actions: Iterable[model.Action]) -> None:
    """Run a block of actions; a failure ends the block."""
    try:
        _run(draft, actions)
    except RecursionError as error:
        raise Veto("runaway", "actions call each other without end") from error
    except Fault as fault:
        if not draft.chart.scripted:
            raise Veto("fault", str(fault)) from fault
        draft.internal.append(Event(fault.event, {"message": str(fault)}, ref=fault.send_id))


def _run(draft: Draft, actions: Iterable[model.Action]) -> None:
    for action in actions:
        do = TABLE.get(type(action))
        if do is None:
            raise Fault(f"not an action: {action!r}")
        do(draft, action)


def value_of(draft: Draft, text: str) -> Any:
    """The value of an expression now; raises Fault."""
    try:
        return _parsed(text).evaluate(draft.view)
    except EvaluationError as error:
        raise Fault(str(error)) from error


def fill(draft: Draft, template: str) -> str:
    """A text with each `{name}` replaced: by a field of the context, the instance's id or its creator."""
    return filled(template, names_in(draft.base, draft.context))


def names_in(instance: Snapshot, context: Mapping[str, Any]) -> dict[str, Any]:
    """What a template can name: the fields of the context, the instance's id, and its creator."""
    return {**context, "instance": instance.instance, "creator": instance.creator or ""}


def filled(template: str, known: Mapping[str, Any]) -> str:
    """Replace each `{name}` by its value; braces inside a value are not replaced again.

    A NUL character becomes U+FFFD: not every store can hold it in a key.
    """
    text = model.FIELD.sub(lambda match: str(known.get(match[1], ""))[:LONGEST_FILLED], template)
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def call(draft: Draft, name: str) -> Any:
    """What a registered function answers; raises Fault when it fails."""
    try:
        return draft.chart.functions[name](draft.view)
    except Veto:
        raise
    except Exception as error:
        raise Fault(f"{name} failed: {draft.error_text(error)}") from error


_EXPRESSIONS: dict[str, Expression] = {}
_MOST_EXPRESSIONS = 4_096


def _parsed(text: str) -> Expression:
    """Parsed once; what is kept is bounded, so texts from outside cannot fill the memory."""
    known = _EXPRESSIONS.get(text)
    if known is None:
        known = parse_or_failing(text)
        if len(_EXPRESSIONS) < _MOST_EXPRESSIONS:
            _EXPRESSIONS[text] = known
    return known


def write(draft: Draft, updates: Mapping[str, Any]) -> None:
    """Change the context, keeping it of the chart's type; raises Veto when it would not be."""
    context = {**draft.context, **updates}
    kind = draft.chart.context_type
    if kind is not None:
        try:
            context = kind.clean(context)
        except Mismatch as error:
            raise Veto("context", str(error)) from error
    draft.context = context


def storable(value: Any) -> Any:
    """A value as a store would bring it back; raises Fault for what is no JSON, Veto for what is too deep."""
    if type(value) in STORED:
        return value
    try:
        return as_json(value)
    except TooDeepError as error:
        raise Veto("context", f"a value of the context is too deep: {error}") from error
    except InputError as error:
        raise Fault(f"a value of the context must be JSON: {error}") from error


def _written(data: Any) -> bytes:
    """What a message carries as JSON; raises Fault for a value that is not JSON or is nested too deep."""
    try:
        text = encode(data)
        require_depth(text)
    except InputError as error:
        raise Fault(f"the data of a message must be JSON: {error}") from error
    return text


def _call(draft: Draft, action: model.Call) -> None:
    answer = call(draft, action.name)
    if answer is None:
        return
    if isinstance(answer, (dict, Mapping)):
        updates = {}
        for key, value in answer.items():
            if not isinstance(key, str):
                raise Fault(f"{action.name} returned keys that are not strings")
            updates[key] = value if type(value) in STORED else storable(value)
        write(draft, updates)
    else:
        _run(draft, _actions(action.name, answer))


def _actions(name: str, answer: object) -> list[Any]:
    """The actions a function answered with: one, or several; raises Fault for anything else."""
    if isinstance(answer, Making):
        if answer.function is not None:
            raise Fault(f"{name} returned a message that needs a function: give it fields instead")
        return [answer.action(None)]
    if isinstance(answer, (list, tuple)):
        return [action for item in answer for action in _actions(name, item)]
    if type(answer) not in TABLE:
        answered = type(answer).__name__
        raise Fault(f"{name} returned {answered}: an action returns updates of the context, or actions")
    return [answer]


def _put(draft: Draft, action: model.Put) -> None:
    write(draft, action.values)


def _assign(draft: Draft, action: model.Assign) -> None:
    value = storable(action.value if action.expr is None else value_of(draft, action.expr))
    try:
        place = location_or_failing(action.location)
        changed = place.assign(draft.context, draft.view, value, declare=not draft.chart.scripted)
    except EvaluationError as error:
        raise Fault(str(error)) from error
    write(draft, changed)


def _stamp(draft: Draft, action: model.Stamp) -> None:
    write(draft, dict.fromkeys(action.fields, time_text(draft.now)))


def _clear(draft: Draft, action: model.Clear) -> None:
    known = draft.context
    held = [field for field in action.fields if field not in known or known[field] is not None]
    if held:
        write(draft, dict.fromkeys(held))


def _count(draft: Draft, action: model.Count) -> None:
    by = action.by if action.expr is None else value_of(draft, action.expr)
    if not isinstance(by, int) or isinstance(by, bool):
        raise Fault(f"the counter {action.name} counts whole numbers, not {_quoted(draft, by)}")
    counters = draft.own("counters")
    counters[action.name] = counters.get(action.name, 0) + by


def _raise(draft: Draft, action: model.Raise) -> None:
    data = None if action.expr is None else value_of(draft, action.expr)
    _written(data)
    draft.internal.append(Event(action.event, data))


def payload_of(draft: Draft, payload: model.Payload) -> Any:
    """What a message carries; raises Fault."""
    if payload.expr is not None:
        return value_of(draft, payload.expr)
    if payload.content is not None or not (payload.params or payload.names):
        return payload.content
    data = {name: value_of(draft, name) for name in payload.names}
    for param in payload.params:
        data[param.name] = value_of(draft, param.expr or param.location or "")
    return data


def _quoted(draft: Draft, value: object) -> str:
    """A value in an error: nobody knows of what an expression has made it."""
    return repr(value) if draft.chart.secrets is None else HIDDEN


def _send(draft: Draft, action: model.Send) -> None:
    send_id = action.id
    if action.id_location is not None:
        send_id = f"{draft.identify()}:{len(draft.rows)}:{len(draft.external) + len(draft.internal)}"
        changed = location_or_failing(action.id_location)
        try:
            write(draft, changed.assign(draft.context, draft.view, send_id))
        except EvaluationError as error:
            raise Fault(str(error)) from error
    name = action.event if action.event_expr is None else str(value_of(draft, action.event_expr))
    target = action.target if action.target_expr is None else str(value_of(draft, action.target_expr))
    kind = action.type if action.type_expr is None else str(value_of(draft, action.type_expr))
    data = payload_of(draft, action.payload)
    _spend(draft, 1 + len(_written(data)) // 100)
    if kind not in SCXML_TYPES:
        raise Fault(f"unknown send type {_quoted(draft, kind)}", send_id=send_id)
    if name is None:
        raise Fault("an event needs a name", send_id=send_id)
    _dispatch(draft, action, target, Event(name, data, ref=send_id))


def _dispatch(draft: Draft, action: model.Send, target: str | None, event: Event) -> None:
    name, data, send_id = event.name, event.data, event.ref
    wait = _delay(draft, action)
    if target == "#_internal":
        draft.internal.append(Event(name, data, ref=send_id))
    elif target in {None, "", own_address(draft)}:
        if wait:
            set_timer(draft, wait, name, None, data=data, sent_as=send_id)
        else:
            draft.external.append(Event(name, data, ref=send_id))
    elif target.startswith("#_scxml_") and not draft.chart.scripted:
        draft.effects.append(
            Deliver(id=draft.identify(), to=target.removeprefix("#_scxml_"), event=name, data=data)
        )
    elif target.startswith("#_scxml_") or target == "#_parent":
        raise Fault(f"no session {_quoted(draft, target)}", "error.communication", send_id)
    else:
        raise Fault(f"not a target: {_quoted(draft, target)}", send_id=send_id)


def _delay(draft: Draft, action: model.Send) -> int:
    if action.delay_expr is None:
        return action.delay
    return as_delay(draft, value_of(draft, action.delay_expr))


def as_delay(draft: Draft, value: Any) -> int:
    """Milliseconds of a value that a function or an expression made; raises Fault."""
    try:
        return milliseconds(value)
    except (ValueError, TypeError) as error:
        raise Fault(str(error) if draft.chart.secrets is None else "not a duration") from error


def set_timer(
    draft: Draft,
    wait: int,
    event: str,
    state: str | None,
    *,
    data: Any = None,
    sent_as: str | None = None,
) -> None:
    """Set a timer; it is gone when its state is left."""
    try:
        due = draft.now + timedelta(milliseconds=wait)
    except OverflowError as error:
        raise Fault(f"a timer of {wait} ms is too long") from error
    effect_id = draft.identify()
    draft.own("timers")[effect_id] = Timer(due=due, event=event, state=state, data=data, sent_as=sent_as)
    draft.effects.append(SetTimer(id=effect_id, timer=effect_id, due=due, event=event, state=state))


def cancel_timer(draft: Draft, timer: str) -> None:
    """Forget a timer."""
    del draft.own("timers")[timer]
    draft.effects.append(CancelTimer(id=draft.identify(), timer=timer))


def _cancel(draft: Draft, action: model.Cancel) -> None:
    wanted = action.id if action.id_expr is None else value_of(draft, action.id_expr)
    for key, timer in list(draft.timers.items()):
        if wanted is not None and timer.sent_as == wanted:
            cancel_timer(draft, key)


def _if(draft: Draft, action: model.If) -> None:
    for branch in action.branches:
        try:
            holds = branch.when is None or truthy(value_of(draft, branch.when))
        except Fault as fault:
            if not draft.chart.scripted:
                raise
            draft.internal.append(Event("error.execution", {"message": str(fault)}))
            holds = False
        if holds:
            _run(draft, branch.actions)
            return


def _foreach(draft: Draft, action: model.ForEach) -> None:
    items = value_of(draft, action.array)
    if not isinstance(items, (list, tuple)):
        raise Fault(f"{action.array} is not a list")
    if len(items) > MOST_ITEMS:
        raise Fault(f"{action.array} has {len(items)} items; the limit is {MOST_ITEMS}")
    for index, item in enumerate(tuple(items)):
        _spend(draft, 1 + len(action.actions))
        _loop_variable(draft, action.item, item)
        if action.index is not None:
            _loop_variable(draft, action.index, index)
        _run(draft, action.actions)


def _loop_variable(draft: Draft, name: str, value: Any) -> None:
    try:
        write(draft, location_or_failing(name).assign(draft.context, draft.view, value, declare=True))
    except EvaluationError as error:
        raise Fault(str(error)) from error


def _spend(draft: Draft, turns: int) -> None:
    """What one step may cost is bounded: in actions, and in what they write out."""
    draft.turns += turns
    if draft.turns > MOST_TURNS:
        raise Veto("runaway", f"one step runs more than {MOST_TURNS} iterations and messages")


def _log(draft: Draft, action: model.Log) -> None:
    data = None if action.expr is None else value_of(draft, action.expr)
    _spend(draft, 1 + len(_written(data)) // 100)
    draft.effects.append(WriteLog(id=draft.identify(), label=action.label, data=data))


def _publish(draft: Draft, action: model.Publish) -> None:
    if action.data is not None:
        data = storable(call(draft, action.data))
    elif action.fields:
        data = draft.tell(action.fields)
    else:
        event, secrets = draft.current, draft.chart.secrets
        sent = event.data if secrets is None else secrets.event(event.name, event.data)
        data = {"instance": draft.base.instance, "event": event.name, "data": sent}
    draft.effects.append(
        PublishMessage(id=draft.identify(), kind=action.kind, name=_told_name(draft, action.name), data=data)
    )


def _told_name(draft: Draft, template: str) -> str:
    """A text for the outside, filled with redacted values."""
    if "{" not in template:
        return template
    return filled(template, names_in(draft.base, draft.redacted(draft.context)))


def _spawn(draft: Draft, action: model.Spawn) -> None:
    made = storable(action.values if action.make is None else call(draft, action.make))
    contexts = [made] if isinstance(made, Mapping) else made
    if not isinstance(contexts, (list, tuple)) or not all(isinstance(each, Mapping) for each in contexts):
        answered = type(made).__name__
        raise Fault(f"{action.make} returned {answered}: it must return a context, or a list of contexts")
    if not contexts:
        return
    depth = draft.base.depth + 1
    if depth > draft.chart.model.max_depth:
        raise Veto("depth", f"a child would be at depth {depth}; the limit is {draft.chart.model.max_depth}")
    children = draft.own("children")
    children["new"] = children.get("new", 0) + len(contexts)
    most = draft.chart.model.max_children
    if most is not None and sum(children.values()) > most:
        raise Veto("children", f"there would be {sum(children.values())} children; the limit is {most}")
    for context in contexts:
        child = draft.identify()
        draft.effects.append(
            SpawnChild(
                id=child, child=child, chart=action.chart, context={**action.values, **context}, depth=depth
            )
        )


def _tell(draft: Draft, action: model.Tell) -> None:
    to = action.to
    if to == "parent":
        to = draft.base.parent or ""
        if not to:
            return
    elif to != "children":
        to = str(value_of(draft, to))
    data = {field: draft.context.get(field) for field in action.fields} or None
    draft.effects.append(Deliver(id=draft.identify(), to=to, event=action.event, data=data))


def _record(draft: Draft, action: model.PutRecord) -> None:
    fields = action.fields or tuple(draft.context)
    data = {field: draft.context.get(field) for field in fields}
    draft.effects.append(
        StoreRecord(id=draft.identify(), kind=action.kind, key=fill(draft, action.key), data=data)
    )


def _add(draft: Draft, action: model.Add) -> None:
    draft.effects.append(AddToCounter(id=draft.identify(), key=fill(draft, action.key), by=action.by))


TABLE: dict[type, Callable[[Draft, Any], None]] = {
    model.Call: _call,
    model.Put: _put,
    model.Assign: _assign,
    model.Stamp: _stamp,
    model.Clear: _clear,
    model.Count: _count,
    model.Raise: _raise,
    model.Send: _send,
    model.Cancel: _cancel,
    model.If: _if,
    model.ForEach: _foreach,
    model.Log: _log,
    model.Publish: _publish,
    model.Spawn: _spawn,
    model.Tell: _tell,
    model.PutRecord: _record,
    model.Add: _add,
}
