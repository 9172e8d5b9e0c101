"""Headway: an engine for durable statecharts. This module has the words that a chart is declared with."""

from headway.statechart.authoring.declarations import Ask, AtMost, Retry, Run, Upgrade
from headway.statechart.authoring.statechart import Statechart, invariant
from headway.statechart.authoring.states import Final, History, Parallel, State, any_live
from headway.statechart.check.check import check
from headway.statechart.explain import explain
from headway.statechart.refusal import No, Refusal
from headway.statechart.snapshot import Actor, Event, Snapshot, agent, person
from headway.statechart.step.draft import View
from headway.statechart.step.step import Step, start, step

__all__ = [
    "Actor",
    "Ask",
    "AtMost",
    "Event",
    "Final",
    "History",
    "No",
    "Parallel",
    "Refusal",
    "Retry",
    "Run",
    "Snapshot",
    "State",
    "Statechart",
    "Step",
    "Upgrade",
    "View",
    "agent",
    "any_live",
    "check",
    "explain",
    "invariant",
    "person",
    "start",
    "step",
]
