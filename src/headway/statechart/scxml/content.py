"""The executable content of SCXML as actions of the model, by table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from headway.clock import milliseconds
from headway.statechart import model
from headway.statechart.expressions.expressions import EvaluationError, inline_value
from headway.statechart.scxml.grammar import Problems
from headway.statechart.scxml.xml import Element

Maker = Callable[[Element, Problems], model.Action]


def actions_of(elements: Iterable[Element], problems: Problems) -> tuple[model.Action, ...]:
    """The actions of a block, in order."""
    return tuple(CONTENT[each.tag](each, problems) for each in elements if each.tag in CONTENT)


def text_value(element: Element, problems: Problems) -> Any:
    """What the text inside an element means; None when there is none."""
    if "expr" in element.attributes:
        return None
    return value_of(element.text, element, problems)


def value_of(text: str, element: Element, problems: Problems) -> Any:
    """What a text means: JSON, else the text itself; None when it is empty."""
    if not text.strip():
        return None
    try:
        value = inline_value(text)
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (EvaluationError, ValueError) as error:
        problems.add(element, f"the text of <{element.tag}>: {error}")
        return None
    return value


def payload_of(element: Element, problems: Problems) -> model.Payload:
    """What a send or a final state carries."""
    content = element.first("content")
    return model.Payload(
        content=None if content is None else text_value(content, problems),
        expr=None if content is None else content.get("expr"),
        params=tuple(_param(each) for each in element.all("param")),
        names=tuple((element.get("namelist") or "").split()),
    )


def _param(element: Element) -> model.Param:
    name, expr, location = (element.get(key) for key in ("name", "expr", "location"))
    return model.Param(name=name or "", expr=expr, location=location)


def _raise(element: Element, _problems: Problems) -> model.Raise:
    return model.Raise(event=element.get("event") or "")


def _if(element: Element, problems: Problems) -> model.If:
    arms: list[tuple[str | None, list[Element]]] = [(element.get("cond") or "", [])]
    for child in element.children:
        if child.tag == "elseif":
            arms.append((child.get("cond") or "", []))
        elif child.tag == "else":
            arms.append((None, []))
        else:
            arms[-1][1].append(child)
    if any(when is None for when, _ in arms[:-1]):
        problems.add(element, "<else> is the last part of an <if>")
    return model.If(
        branches=tuple(model.Branch(when=when, actions=actions_of(inner, problems)) for when, inner in arms)
    )


def _foreach(element: Element, problems: Problems) -> model.ForEach:
    array, item = element.get("array") or "", element.get("item") or ""
    actions = actions_of(element.children, problems)
    return model.ForEach(array=array, item=item, index=element.get("index"), actions=actions)


def _log(element: Element, _problems: Problems) -> model.Log:
    return model.Log(label=element.get("label") or "", expr=element.get("expr"))


def _assign(element: Element, problems: Problems) -> model.Assign:
    value = text_value(element, problems)
    return model.Assign(location=element.get("location") or "", expr=element.get("expr"), value=value)


def _send(element: Element, problems: Problems) -> model.Send:
    payload = payload_of(element, problems)
    if (payload.params or payload.names) and element.first("content") is not None:
        problems.add(element, "<send> has either <content> or named values, not both")
    return model.Send(
        event=element.get("event"),
        event_expr=element.get("eventexpr"),
        target=element.get("target"),
        target_expr=element.get("targetexpr"),
        type=element.get("type"),
        type_expr=element.get("typeexpr"),
        id=element.get("id"),
        id_location=element.get("idlocation"),
        delay=_delay(element, problems),
        delay_expr=element.get("delayexpr"),
        payload=payload,
    )


def _delay(element: Element, problems: Problems) -> int:
    try:
        return milliseconds(element.attributes.get("delay", "0s"))
    except ValueError as error:
        problems.add(element, f"the delay of <send> is {error}")
        return 0


def _cancel(element: Element, problems: Problems) -> model.Cancel:
    if not element.attributes:
        problems.add(element, "<cancel> needs sendid or sendidexpr")
    return model.Cancel(id=element.get("sendid"), id_expr=element.get("sendidexpr"))


CONTENT: dict[str, Maker] = {
    "raise": _raise,
    "if": _if,
    "foreach": _foreach,
    "log": _log,
    "assign": _assign,
    "send": _send,
    "cancel": _cancel,
}
