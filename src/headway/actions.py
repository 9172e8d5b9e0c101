"""What a transition can do besides moving on: the actions a chart declares as data."""

from headway.statechart.authoring.actions import (
    add,
    assign,
    clear,
    count,
    live,
    log,
    put,
    record,
    spawn,
    stamp,
    tell,
    topic,
    webhook,
)

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
