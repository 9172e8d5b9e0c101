"""Actions: what a transition does besides changing the state, declared as data."""

from __future__ import annotations

from typing import Any, Literal

from headway.statechart import model
from headway.statechart.authoring.declarations import Function, Making

__all__ = [
    "add",
    "assign",
    "clear",
    "count",
    "live",
    "log",
    "put",
    "record",
    "spawn",
    "stamp",
    "tell",
    "topic",
    "webhook",
]


def stamp(*fields: str) -> model.Stamp:
    """Write the time of the step into fields of the context."""
    return model.Stamp(fields=fields)


def clear(*fields: str) -> model.Clear:
    """Set fields of the context back to nothing."""
    return model.Clear(fields=fields)


def log(label: str, expr: str | None = None) -> model.Log:
    """Write a line to the log, with the value of an expression."""
    return model.Log(label=label, expr=expr)


def put(**values: Any) -> model.Put:
    """Write literal values into the context: `do=put(error_code="E_TIMEOUT")`."""
    return model.Put(values=values)


def assign(**expressions: str) -> tuple[model.Assign, ...]:
    """Write values of safe expressions into the context: `do=assign(amount="_event.data.amount")`."""
    return tuple(model.Assign(location=place, expr=text) for place, text in expressions.items())


def count(name: str, by: int | str = 1) -> model.Count:
    """Add a number, or the value of an expression, to a counter of the instance."""
    if isinstance(by, str):
        return model.Count(name=name, expr=by)
    return model.Count(name=name, by=by)


def add(key: str, by: int = 1) -> model.Add:
    """Add to a counter shared between instances; `{name}` in the key is taken from the context."""
    return model.Add(key=key, by=by)


def record(kind: str, key: str, *fields: str) -> model.PutRecord:
    """Store fields of the context as a record; `{name}` in the key is taken from the context."""
    return model.PutRecord(kind=kind, key=key, fields=fields)


def spawn(chart: str, make: Function | None = None, **values: Any) -> Making:
    """Create a child of a chart; `make` answers with the child's context, or with one for each child."""
    return Making(lambda name: model.Spawn(chart=chart, values=values, make=name), make)


def tell(to: str, event: str, *fields: str) -> model.Tell:
    """Send an event to "parent", to "children", or to the instance an expression names."""
    return model.Tell(to=to, event=event, fields=fields)


def topic(name: str, *fields: str, data: Function | None = None) -> Making:
    """A message on a topic, with fields of the context, or with what a function makes of the step."""
    return _publish("topic", name, fields, data)


def webhook(name: str, *fields: str, data: Function | None = None) -> Making:
    """A message to the webhooks that listen to it."""
    return _publish("webhook", name, fields, data)


def live(name: str, *fields: str, data: Function | None = None) -> Making:
    """A message on the live stream."""
    return _publish("live", name, fields, data)


def _publish(
    kind: Literal["topic", "webhook", "live"], name: str, fields: tuple[str, ...], data: Function | None
) -> Making:
    return Making(lambda maker: model.Publish(kind=kind, name=name, fields=fields, data=maker), data)
