"""A first value for an editor: the smallest data that a JSON Schema lets through, as far as it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from headway.cli.explorer.session import ExplorerSession
from headway.clock import spell
from headway.codec import to_data
from headway.statechart.chart import Chart, all_actions
from headway.statechart.drawings import labels
from headway.statechart.explain import Way, Why, explain
from headway.statechart.model import Run, Spawn
from headway.statechart.refusal import Refusal

DEEPEST = 6
FORMATS = {
    "date-time": "2026-01-01T12:00:00Z",
    "date": "2026-01-01",
    "time": "12:00:00Z",
    "duration": "PT1M",
    "email": "someone@example.org",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}

Schema = Mapping[str, Any]


def example(schema: Schema) -> Any:
    """A value for a schema: its default, or the least it asks for."""
    return _example(schema, schema, DEEPEST)


def _example(schema: Schema, whole: Schema, depth: int) -> Any:
    for fixed in ("default", "const"):
        if fixed in schema:
            return schema[fixed]
    if schema.get("examples") or schema.get("enum"):
        return (schema.get("examples") or schema["enum"])[0]
    if depth == 0:
        return None
    if "$ref" in schema:
        return _example(_definition(schema["$ref"], whole), whole, depth - 1)
    for choice in ("anyOf", "oneOf", "allOf"):
        if schema.get(choice):
            return _example(schema[choice][0], whole, depth - 1)
    return _BY_TYPE.get(schema.get("type", ""), _nothing)(schema, whole, depth)


def _definition(reference: str, whole: Schema) -> Schema:
    found: Any = whole.get("$defs", {}).get(reference.rpartition("/")[2], {})
    return found if isinstance(found, Mapping) else {}


def _nothing(_schema: Schema, _whole: Schema, _depth: int) -> None:
    return None


def _object(schema: Schema, whole: Schema, depth: int) -> dict[str, Any]:
    properties = schema.get("properties", {})
    return {name: _example(part, whole, depth - 1) for name, part in properties.items()}


def _array(schema: Schema, whole: Schema, depth: int) -> list[Any]:
    return [_example(schema.get("items", {}), whole, depth - 1)] * min(schema.get("minItems", 0), 10)


def _string(schema: Schema, _whole: Schema, _depth: int) -> str:
    least: str = "x" * min(schema.get("minLength", 0), 100)
    return FORMATS.get(str(schema.get("format")), least)


def _number(schema: Schema, _whole: Schema, _depth: int) -> Any:
    return schema["exclusiveMinimum"] + 1 if "exclusiveMinimum" in schema else schema.get("minimum", 0)


def _boolean(_schema: Schema, _whole: Schema, _depth: int) -> bool:
    return False


_BY_TYPE: dict[str, Callable[[Schema, Schema, int], Any]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "number": _number,
    "integer": _number,
    "boolean": _boolean,
}


MOST_ROWS = 200


def session_view(session: ExplorerSession) -> dict[str, Any]:
    """All that the page shows of a session."""
    snapshot, now = session.snapshot, session.now
    why = explain(session.chart, snapshot, now, facts=session.facts)
    active = session.chart.configuration(snapshot.states)
    shown: dict[str, Any] = {
        "id": session.id,
        "chart": session.slug,
        "now": now,
        "states": snapshot.states,
        "active": [node.id for node in active],
        "marks": [f"state-{node.index}" for node in active],  # what `dot` calls them in a drawing
        "about": [
            {"id": node.id, "meaning": node.model.meaning, "waits_for": node.model.waits_for}
            for node in active
        ],
        "ended": snapshot.ended,
        "output": snapshot.output,
        "progress": snapshot.progress if any(node.model.progress for node in session.chart.order) else None,
        "context": snapshot.context,
        "counters": snapshot.counters,
        "facts": session.facts,
        "why": {"text": str(why), "stuck": why.stuck, "waits": why.waits, "since": why.since},
        "events": _events(session, why),
        "timers": _timers(session),
        "work": _work(session),
        "children": _children(session),
        "history": [row for moment in session.moments for row in moment.history][-MOST_ROWS:],
        "effects": session.moment.effects,
        "can_go_back": len(session.moments) > 1,
    }
    data: dict[str, Any] = to_data(shown)
    return data


def refusal_view(refusal: Refusal) -> dict[str, Any]:
    """A refusal with all it says."""
    data: dict[str, Any] = to_data(
        {
            "code": refusal.code,
            "message": refusal.message,
            "event": refusal.event,
            "states": refusal.states,
            "objections": refusal.objections,
            "allowed": [
                {"event": each.event, "by": each.by, "targets": each.targets} for each in refusal.allowed
            ],
        }
    )
    return data


def roles(chart: Chart) -> list[str]:
    """Every role a chart knows, in the order it names them."""
    named: list[str] = []
    for row in chart.model.transitions:
        named += [*row.by, *row.countersign]
    for state in chart.model.states:
        if state.ask:
            named += [*state.ask.roles, *(role for level in state.ask.escalate for role in level.roles)]
    return list(dict.fromkeys(named))


def first_context(chart: Chart) -> Any:
    """A context to start with: what the chart's type asks for at least."""
    return example(chart.context_type.schema()) if chart.context_type else {}


def _events(session: ExplorerSession, why: Why) -> list[dict[str, Any]]:
    """What can be sent now, once for each name."""
    found: dict[str, dict[str, Any]] = {}
    for way in why.ways:
        for event in way.events:
            known = found.setdefault(event, _event(session, event))
            known["by"] = list(dict.fromkeys([*known["by"], *way.by]))
            known["ways"].append(_way(session.chart, way))
            if not known["takes"]:
                known.update(_payload(session.chart, way))
    return list(found.values())


def _event(session: ExplorerSession, event: str) -> dict[str, Any]:
    """The empty entry of an event; the answer to an ask names the ask."""
    kind, _, state = event.partition(".")
    ask = session.snapshot.asks.get(state) if kind == "answer" else None
    shown: dict[str, Any] = {
        "event": event,
        "sends": event,
        "ref": None,
        "by": [],
        "ways": [],
        "takes": None,
        "example": None,
    }
    if ask is not None:
        asked = session.chart.nodes[state].model.ask
        form = asked.form if asked else None
        shown |= {"sends": "answer", "ref": ask.id, "by": list(ask.roles)}
        shown |= {"takes": form, "example": _first_value(session.chart, form)} if form else {}
    return shown


def _way(chart: Chart, way: Way) -> dict[str, Any]:
    rows = [row for row in chart.model.transitions if row.name == way.transition]
    return {
        "transition": way.transition,
        "targets": way.targets,
        "meaning": next((row.meaning for row in rows if row.meaning), ""),
        "duties": list(dict.fromkeys(duty for row in rows for duty in labels.duties(row))),
        "says_no": list(way.says_no.values()),
        "barred": way.barred,
        "votes": way.votes,
    }


def _payload(chart: Chart, way: Way) -> dict[str, Any]:
    kinds = [arc.takes or arc.form for arc in chart.arcs if arc.name == way.transition]
    takes = [kind.name for kind in kinds if kind is not None]
    return {"takes": takes[0], "example": _first_value(chart, takes[0])} if takes else {}


def _first_value(chart: Chart, name: str) -> Any:
    return example(chart.types[name].schema()) if name in chart.types else None


def _timers(session: ExplorerSession) -> list[dict[str, Any]]:
    timers = sorted(session.snapshot.timers.items(), key=lambda item: (item[1].due, item[0]))
    return [
        {
            "id": name,
            "event": timer.event,
            "state": timer.state,
            "due": timer.due,
            "in": until(timer.due, session.now),
        }
        for name, timer in timers
    ]


def until(moment: datetime, now: datetime) -> str:
    """How long it takes, as people write it."""
    return spell(max(round((moment - now).total_seconds() * 1_000), 0))


def _work(session: ExplorerSession) -> list[dict[str, Any]]:
    shown = []
    for state, work in session.snapshot.work.items():
        run = session.chart.nodes[state].model.run
        shown.append(
            {
                "id": work.id,
                "state": state,
                "handler": run.handler if run else state,
                "attempt": work.attempt,
                "in": until(work.due, session.now) if work.due and work.due > session.now else None,
                "codes": _codes(run) if run else [],
            }
        )
    return shown


def _codes(run: Run) -> list[str]:
    named: Iterable[str] = (*run.errors, *(code for policy in run.retry for code in policy.on))
    return list(dict.fromkeys([*named, run.timeout_code, run.lost_code]))


def _children(session: ExplorerSession) -> dict[str, Any] | None:
    """The counts of children by status, for charts that have any."""
    spawns = [action.chart for action in all_actions(session.chart.model) if isinstance(action, Spawn)]
    if not spawns and not session.snapshot.children:
        return None
    return {"charts": list(dict.fromkeys(spawns)), "counts": session.snapshot.children}
