"""What drawings and tables call the things of a chart, in few words."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

from headway.clock import spell
from headway.statechart import model
from headway.statechart.chart import Chart
from headway.statechart.people import spelled
from headway.statechart.tree import names_matching

Trigger = Literal["person", "timer", "error", "automatic", "event"]
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)
ANY_LIVE = "any live state"

_SPOKEN = {
    "done.work.": "work done",
    "done.state.": "done",
    "error.work.": "work fails",
    "deadline.": "deadline",
    "answer.": "answered",
    "remind.": "reminder",
    "escalate.": "escalation",
}
_TRIGGERS: dict[str, Trigger] = {
    "done": "automatic",
    "child": "automatic",
    "error": "error",
    "deadline": "timer",
    "remind": "timer",
    "escalate": "timer",
    "after": "timer",
    "answer": "person",
}


def trigger(chart: Chart, row: model.Transition) -> str:
    """What makes a transition happen: an event, `after 5m`, `deadline 2d`, `work fails: CODE`, `at once`."""
    if row.after is not None:
        return f"{'every' if row.repeats else 'after'} {_delay(row.after)}"
    return ", ".join(_event(chart, row.source, event) for event in row.events) or "at once"


def trigger_kind(row: model.Transition) -> Trigger:
    """Who or what a transition waits for."""
    if row.by:
        return "person"
    if row.after is not None:
        return "timer"
    if not row.events:
        return "automatic"
    return _TRIGGERS.get(row.events[0].partition(".")[0], "event")


def source_name(row: model.Transition) -> str:
    """The state a transition leaves, or any live state but some."""
    if row.source != model.ROOT:
        return row.source
    return f"{ANY_LIVE} but {', '.join(row.excludes)}" if row.excludes else ANY_LIVE


def guard(row: model.Transition) -> str:
    """The conditions of a transition."""
    return " and ".join(_condition(condition) for condition in row.when)


def duties(row: model.Transition) -> list[str]:
    """What is asked of those who act, besides their role."""
    found = [f"not who did {event}" for event in row.distinct_from]
    found += [f"{row.quorum} people"] if row.quorum > 1 else []
    found += [f"countersigned by {spelled((role,))}" for role in row.countersign]
    return [*found, "no agent"] if row.no_agent else found


def who(row: model.Transition) -> str:
    """The roles and people that may act, and their duties."""
    return "; ".join([spelled(row.by), *duties(row)] if row.by else duties(row))


def effects(actions: Iterable[model.Action]) -> list[str]:
    """What each action does."""
    return [_EFFECTS[type(action)](action) for action in actions]


def ask(wanted: model.Ask) -> str:
    """Whom a state asks, and until when: `ask manager ≤ 2d`."""
    limit = f" ≤ {spell(wanted.deadline)}" if wanted.deadline is not None else ""
    further = "".join(f", {spelled(each.roles, '/')} after {spell(each.after)}" for each in wanted.escalate)
    return f"ask {spelled(wanted.roles)}{further}{limit}"


def work(run: model.Run) -> str:
    """Which handler runs, how often it is retried, and its time limit: `run pay ×5 ≤ 1m`.

    How often its host may be lost is said where the chart says it: `run pay ×5, host lost ×20`.
    """
    times = [policy.times for policy in run.retry if policy.times != 0]
    retried = "" if not times else " ×∞" if None in times else f" ×{max(t for t in times if t is not None)}"
    limit = f" ≤ {spell(run.timeout)}" if run.timeout is not None else ""
    lost = f", host lost ×{run.lost}" if run.lost is not None else ""
    return f"run {run.handler}{retried}{limit}{lost}"


def notes(state: model.State) -> list[str]:
    """What there is to say about a state besides its name."""
    found = [f"waits for {state.waits_for}"] if state.waits_for else []
    found += [ask(state.ask)] if state.ask else []
    found += [work(state.run)] if state.run else []
    found += [f"if {state.where}"] if state.where is not None else []
    found += ["{}–{} %".format(*state.progress)] if state.progress else []
    for moment, blocks in (("entry", state.entry), ("exit", state.exit)):
        done = _names(effect for block in blocks for effect in effects(block))
        found += [f"{moment} / {done}"] if done else []
    return found


def plain(text: str) -> str:
    """The text on one line, with a visible mark for each character that no page can show."""
    return "".join(_visible(character) for character in " ".join(text.split()))


def cut(text: str, longest: int) -> str:
    """The plain text, ended by … where it would be longer."""
    line = plain(text)
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def _visible(character: str) -> str:
    if character.isprintable() or character == " ":
        return character
    # Marks of direction and joining (Cf) could make a name look like another one.
    return "" if unicodedata.category(character) == "Cf" else "\ufffd"


def _condition(condition: model.Condition) -> str:
    return condition.name if isinstance(condition, model.Named) else condition.text


def _delay(delay: int | model.Condition) -> str:
    return spell(delay) if isinstance(delay, int) else _condition(delay)


def _event(chart: Chart, source: str, event: str) -> str:
    for prefix, words in _SPOKEN.items():
        rest = event.removeprefix(prefix)
        state = next((name for name in names_matching(rest) if name in chart.nodes), None)
        if rest != event and state is not None:
            return words + _detail(chart, state, source, rest[len(state) + 1 :])
    return event


def _detail(chart: Chart, state: str, source: str, code: str) -> str:
    place = "" if state == source else f" in {state}"
    asked = chart.nodes[state].model.ask
    return f"{place}: {code}" if code else place or _limit(asked)


def _limit(asked: model.Ask | None) -> str:
    return f" {spell(asked.deadline)}" if asked and asked.deadline is not None else ""


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _send(action: model.Send) -> str:
    late = f" after {spell(action.delay)}" if action.delay else ""
    late = f" after {action.delay_expr}" if action.delay_expr else late
    return f"send {action.event or action.event_expr or ''}{late}"


def _if(action: model.If) -> str:
    arms = [
        f"{f'if {branch.when}' if branch.when is not None else 'else'}: {_names(effects(branch.actions))}"
        for branch in action.branches
    ]
    return "; ".join(arms)


_VERBS = {"topic": "emit", "webhook": "webhook", "live": "live"}
_EFFECTS: dict[type[model.Action], Callable[[Any], str]] = {
    model.Call: lambda do: do.name,
    model.Put: lambda do: f"put {_names(do.values)}",
    model.Assign: lambda do: f"{do.location} = {do.expr if do.expr is not None else do.value}",
    model.Stamp: lambda do: f"set {_names(do.fields)}",
    model.Clear: lambda do: f"clear {_names(do.fields)}",
    model.Count: lambda do: f"count {do.name}" + (f" by {do.expr or do.by}" if do.expr or do.by != 1 else ""),
    model.Raise: lambda do: f"raise {do.event}",
    model.Send: _send,
    model.Cancel: lambda do: f"cancel {do.id or do.id_expr or ''}",
    model.If: _if,
    model.ForEach: lambda do: f"for each {do.item} in {do.array}: {_names(effects(do.actions))}",
    model.Log: lambda do: f"log {do.label or do.expr or ''}",
    model.Publish: lambda do: f"{_VERBS[do.kind]} {do.name}",
    model.Spawn: lambda do: f"spawn {do.chart}",
    model.Tell: lambda do: f"tell {do.to} {do.event}",
    model.PutRecord: lambda do: f"record {do.kind}",
    model.Add: lambda do: f"add to {do.key}",
}
