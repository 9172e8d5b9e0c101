"""Headway: one engine for work that lives long and passes through states."""

from headway.statechart.authoring import (
    Ask,
    Final,
    History,
    Parallel,
    Retry,
    Run,
    State,
    add,
    any_live,
    assign,
    count,
    live,
    put,
    record,
    spawn,
    tell,
    topic,
    webhook,
)
from headway.statechart.define import Statechart, invariant
from headway.statechart.draft import View
from headway.statechart.refusal import No, Refusal
from headway.statechart.snapshot import Actor, Event, Snapshot, agent, person
from headway.statechart.step import Step, start, step
