"""What has changed between two versions of a chart, and what each change means for living instances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from headway.clock import spell
from headway.codec import Value
from headway.errors import ExpressionError
from headway.statechart import model
from headway.statechart.chart import Chart, all_actions
from headway.statechart.drawings import labels
from headway.statechart.expressions.parser import Literal as LiteralNode
from headway.statechart.expressions.parser import Name, Path, parse_node, walk
from headway.statechart.functions import changed_functions, fingerprints
from headway.statechart.tree import HISTORY
from headway.statechart.upgrade.renaming import Renaming
from headway.statechart.validation.contents import field_names

Subject = Literal[
    "state", "transition", "guard", "timer", "ask", "work", "fact", "context", "setting", "function"
]
Change = Literal["added", "removed", "renamed", "changed"]
Meaning = Literal["safe", "adapts", "rule"]


class Difference(Value, omit_defaults=False):
    """One change, in words; `meaning` is what it is for living instances.

    `safe`: they do not notice. `adapts`: what they hold is carried over to the new rules. `rule`: the new
    chart must say what becomes of them; `because` gives the reason.
    """

    subject: Subject
    change: Change
    name: str
    said: str
    meaning: Meaning = "safe"
    because: str = ""


Found = Iterator[Difference]


class Pair(NamedTuple):
    """Two versions, and what the newer one says of how instances come to it."""

    old: Chart
    new: Chart
    renaming: Renaming

    @property
    def rule(self) -> model.Upgrade:
        """What the newer one declares."""
        return self.renaming.rule

    def state_now(self, name: str) -> str:
        """What a state is called in the new version: where it goes when that is one place."""
        to = self.rule.states.get(name, (name,))
        return to[0] if isinstance(to, tuple) and len(to) == 1 else name

    def row_now(self, row: model.Transition) -> tuple[str, str]:
        """The name and the source of a row in the new version."""
        return self.renaming.transition(row.name), self.state_now(row.source)


def differences(old: Chart, new: Chart, parents: Iterable[Chart] = ()) -> list[Difference]:
    """All that has changed, in the order of the charts; names are matched as the new chart's upgrade says.

    `parents` are charts that may spawn it: what they count their children by should not be gone.
    """
    pair = Pair(old, new, Renaming(old, new))
    found = [each for compare in COMPARISONS for each in compare(pair)]
    return found + [each for parent in parents if spawns(parent, new.name) for each in _counted(pair, parent)]


def _counted(pair: Pair, parent: Chart) -> Found:
    for status in lost_child_statuses(parent, pair.old, pair.new):
        said = f"{parent.name} v{parent.version} counts children.{status}"
        because = f"first bring {parent.name} to a version that counts what they are then"
        yield Difference("state", "removed", status, said, "rule", because)


def _states(pair: Pair) -> Found:
    before = {state.id: state for state in pair.old.model.states}
    after = {state.id: state for state in pair.new.model.states}
    taken = set()
    for name, state in before.items():
        to = pair.rule.states.get(name)
        now = after.get(pair.state_now(name))
        if to is not None and name not in after:
            taken.add(pair.state_now(name))
            where = "by a function" if isinstance(to, model.Named) else " + ".join(to) or "nowhere"
            change: Change = "renamed" if now is not None else "removed"
            yield Difference("state", change, name, f"goes to {where}", "adapts", "declared in upgrades=")
        elif now is None:
            yield _removed_state(state)
        if now is not None:
            yield from _state(pair, state, now)
    for name, state in after.items():
        if name not in before and name not in taken:
            yield Difference("state", "added", name, _described(state))


def _removed_state(state: model.State) -> Difference:
    if state.kind == "final" and state.parent is None:
        return Difference("state", "removed", state.id, "no longer an end")
    if state.kind in HISTORY:
        return Difference("state", "removed", state.id, "no longer remembered", "adapts", "forgotten")
    because = f'where does it go? states={{"{state.id}": ...}}'
    return Difference("state", "removed", state.id, "is gone", "rule", because)


def _described(state: model.State) -> str:
    notes = "; ".join(labels.notes(state))
    return f"{state.kind}{f': {notes}' if notes else ''}"


def _state(pair: Pair, was: model.State, now: model.State) -> Found:
    if was.kind != now.kind:
        leaves = was.kind == "atomic" and was.id not in pair.rule.states
        because = f'in which state inside? states={{"{was.id}": ...}}' if leaves else ""
        meaning: Meaning = "rule" if leaves else "adapts"
        yield Difference("state", "changed", now.id, f"{was.kind} → {now.kind}", meaning, because)
    if was.parent != now.parent and pair.state_now(was.parent or "") != now.parent:
        said = f"inside {was.parent or 'nothing'} → inside {now.parent or 'nothing'}"
        yield Difference(
            "state", "changed", now.id, said, "adapts", "a state that is new around it is as old"
        )
    for field, said in QUIET.items():
        if getattr(was, field) != getattr(now, field) and was.kind == now.kind:
            yield Difference("state", "changed", now.id, said)
    if was.where != now.where:
        yield Difference(
            "state",
            "changed",
            now.id,
            f"if {was.where} → if {now.where}",
            "adapts",
            "the status is recomputed",
        )
    yield from _ask(now.id, was.ask, now.ask)
    yield from _work(pair, now.id, was.run, now.run)


QUIET = {
    "entry": "what is done on entry: not done again for those inside",
    "exit": "what is done on exit",
    "initial": "where it begins",
    "progress": "its range of progress",
    "data": "its variables",
    "output": "its output",
}
PUT = "put to people at the upgrade; its times count from then"
GONE = "open questions are closed"
KEPT = "open questions keep their id and the time already waited"


def _ask(name: str, was: model.Ask | None, now: model.Ask | None) -> Found:
    if was is None and now is not None:
        yield Difference("ask", "added", name, labels.ask(now), "adapts", PUT)
    elif was is not None and now is None:
        yield Difference("ask", "removed", name, labels.ask(was), "adapts", GONE)
    elif was is not None and now is not None:
        for field in was.__struct_fields__:
            before, after = getattr(was, field), getattr(now, field)
            if before != after:
                said = f"{field}: {_spoken(before)} → {_spoken(after)}"
                yield Difference("ask", "changed", name, said, "adapts", KEPT)


def _work(pair: Pair, name: str, was: model.Run | None, now: model.Run | None) -> Found:
    restarts = name in pair.rule.restarts
    begin: tuple[Meaning, str] = ("adapts", "begun at the upgrade, as declared")
    begin = begin if restarts else ("rule", f'is it begun for those inside? restarts="{name}"')
    if was is None and now is not None:
        yield Difference("work", "added", name, labels.work(now), *begin)
    elif was is not None and now is None:
        yield Difference("work", "removed", name, labels.work(was), "adapts", "open work is cancelled")
    elif was is not None and now is not None:
        for field in was.__struct_fields__:
            before, after = getattr(was, field), getattr(now, field)
            if before != after:
                said = f"{field}: {_spoken(before)} → {_spoken(after)}"
                later: tuple[Meaning, str] = ("safe", "from the next attempt on")
                yield Difference("work", "changed", name, said, *(begin if field in PLACED else later))


PLACED = frozenset({"handler", "queue"})


def _spoken(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_spoken, value)) or "none"
    if isinstance(value, model.Escalation):
        return f"{'/'.join(value.roles)} after {spell(value.after)}"
    if isinstance(value, model.Retry):
        return f"{', '.join(value.on) or 'all'} ×{value.times}"
    if isinstance(value, int) and not isinstance(value, bool):
        return spell(value)
    return "none" if value is None else str(value)


def _rows(pair: Pair) -> Found:
    before, after = _keyed(pair.old, pair.row_now), _keyed(pair.new, lambda row: (row.name, row.source))
    for key, row in before.items():
        now = after.get(key)
        if now is None:
            yield _removed_row(pair, row)
        else:
            yield from _row(pair, row, now)
    for key, row in after.items():
        if key not in before:
            yield Difference(_row_subject(row), "added", row.name, _way(pair.new, row), *_added_row(row))


def _keyed(
    chart: Chart, name: Callable[[model.Transition], tuple[str, str]]
) -> dict[tuple[str, str, int], model.Transition]:
    """Rows by name and source; several of the same are numbered in their order."""
    found: dict[tuple[str, str, int], model.Transition] = {}
    for row in chart.model.transitions:
        number = 0
        while (*name(row), number) in found:
            number += 1
        found[(*name(row), number)] = row
    return found


def _row_subject(row: model.Transition) -> Subject:
    return "transition" if row.after is None else "timer"


def _way(chart: Chart, row: model.Transition) -> str:
    goal = " or ".join(row.lands) if row.lands else " + ".join(row.targets) or "stays"
    return f"{labels.source_name(row)} → {goal}, {labels.trigger(chart, row)}"


def _added_row(row: model.Transition) -> tuple[Meaning, str]:
    if row.after is None:
        return ("adapts", EVIDENCE) if row.distinct_from else ("safe", "")
    return "adapts", "counts from when the state was entered; what is overdue comes at once"


EVIDENCE = "who did it before is taken from the history"


def _removed_row(pair: Pair, row: model.Transition) -> Difference:
    said, subject = _way(pair.old, row), _row_subject(row)
    node = pair.new.nodes.get(pair.state_now(row.source))
    if node is not None and node.atomic and node.kind != "final" and not _leaves(pair.new, node.id):
        return Difference(
            subject, "removed", row.name, said, "rule", f"nothing leads out of {node.id} any more"
        )
    if row.after is not None:
        return Difference(subject, "removed", row.name, said, "adapts", "timers that are set are cancelled")
    return Difference(subject, "removed", row.name, said)


def _leaves(chart: Chart, state: str) -> bool:
    around = {node.id for node in chart.nodes[state].upward}
    return any(row.source in around and (row.targets or row.lands) for row in chart.model.transitions)


def _row(pair: Pair, was: model.Transition, now: model.Transition) -> Found:
    if was.name != now.name:
        yield Difference("transition", "renamed", was.name, f"is called {now.name}", "adapts", "as declared")
    if (
        tuple(map(pair.state_now, was.targets)) != now.targets
        or tuple(map(pair.state_now, was.lands)) != now.lands
    ):
        yield Difference("transition", "changed", now.name, f"{_way(pair.old, was)} → {_way(pair.new, now)}")
    if was.when != now.when:
        said = f"{labels.guard(was) or 'always'} → {labels.guard(now) or 'always'}"
        yield Difference("guard", "changed", now.name, said)
    if (was.after, was.repeats) != (now.after, now.repeats):
        said = f"{labels.trigger(pair.old, was)} → {labels.trigger(pair.new, now)}"
        yield Difference("timer", "changed", now.name, said, "adapts", "the time already waited counts")
    elif was.after is None and tuple(map(pair.renaming.event, was.events)) != now.events:
        before, after = labels.trigger(pair.old, was), labels.trigger(pair.new, now)
        yield Difference("transition", "changed", now.name, f"when {before} → when {after}")
    yield from _duties(was, now)
    if was.actions != now.actions:
        said = "; ".join(labels.effects(now.actions)) or "nothing"
        yield Difference("transition", "changed", now.name, f"does: {said}")
    if (was.takes, was.internal, was.excludes) != (now.takes, now.internal, now.excludes):
        yield Difference("transition", "changed", now.name, "what it takes, or from where")


VOTES = "votes given so far are given back"


def _duties(was: model.Transition, now: model.Transition) -> Found:
    votes = (was.by, was.quorum, was.countersign) != (now.by, now.quorum, now.countersign)
    watched = was.distinct_from != now.distinct_from
    if not votes and not watched and was.no_agent == now.no_agent:
        return
    said = f"{labels.who(was) or 'anyone'} → {labels.who(now) or 'anyone'}"
    counted = max(was.quorum, now.quorum) > 1 or was.countersign or now.countersign
    because = [VOTES] * bool(votes and counted) + [EVIDENCE] * bool(watched and now.distinct_from)
    meaning: Meaning = "adapts" if because else "safe"
    yield Difference("transition", "changed", now.name, said, meaning, "; ".join(because))


def _functions(pair: Pair) -> Found:
    """Guards and actions of the same name whose code has changed."""
    for name in changed_functions(fingerprints(pair.old), fingerprints(pair.new)):
        yield Difference(
            "function", "changed", name, "its code has changed", "adapts", "they follow the new code"
        )


def _facts(pair: Pair) -> Found:
    before = {fact.name: fact for fact in pair.old.model.facts}
    after = {fact.name: fact for fact in pair.new.model.facts}
    for name in before | after:
        was, now = before.get(name), after.get(name)
        if was is None or now is None:
            change: Change = "added" if was is None else "removed"
            known = now or was
            assert known is not None
            yield Difference("fact", change, name, known.kind + (f" {known.key}" if known.key else ""))
        elif (was.kind, was.key) != (now.kind, now.key):
            yield Difference("fact", "changed", name, f"{was.kind} {was.key} → {now.kind} {now.key}")


def _context(pair: Pair) -> Found:
    was, now = (_schema(each.model) for each in (pair.old, pair.new))
    had, has = field_names(was), field_names(now)
    if had is None or has is None:
        if (had is None) != (has is None):
            yield Difference("context", "changed", "context", "its type", *_filled(pair))
        return
    required = now.get("required", ())
    for name in sorted(has - had):
        meaning = _filled(pair) if name in required else ("safe", "has a default")
        yield Difference("context", "added", name, "a field", *meaning)
    for name in sorted(had - has):
        dropped = name in pair.rule.drops
        because = "dropped, as declared" if dropped else f'may it go? drops="{name}"'
        yield Difference("context", "removed", name, "a field", "adapts" if dropped else "rule", because)
    for name in sorted(had & has):
        if was["properties"][name] != now["properties"][name]:
            yield Difference("context", "changed", name, "its type", *_filled(pair))


def _filled(pair: Pair) -> tuple[Meaning, str]:
    if pair.rule.context is not None:
        return "adapts", f"filled in by {pair.rule.context}"
    return "rule", "what stands in it for those that live? context=function"


def _schema(whole: model.Model) -> Mapping[str, Any]:
    schema = whole.schemas.get(whole.context or "", {})
    return schema if isinstance(schema, Mapping) else {}


SETTINGS = (
    "initial",
    "cancel",
    "owner",
    "read_by",
    "computed",
    "max_depth",
    "max_children",
    "children",
    "late_binding",
)


def _settings(pair: Pair) -> Found:
    for name in SETTINGS:
        was, now = getattr(pair.old.model, name), getattr(pair.new.model, name)
        if (tuple(map(pair.state_now, was)) if name == "initial" else was) != now:
            yield Difference("setting", "changed", name, f"{_plain(was)} → {_plain(now)}")


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


COMPARISONS: tuple[Callable[[Pair], Found], ...] = (
    _states,
    _rows,
    _functions,
    _facts,
    _context,
    _settings,
)


def spawns(parent: Chart, child: str) -> bool:
    """Whether a chart says that it has children of this name."""
    return any(isinstance(do, model.Spawn) and do.chart == child for do in all_actions(parent.model))


def lost_child_statuses(parent: Chart, old: Chart, new: Chart) -> tuple[str, ...]:
    """The statuses that a parent asks for by name, and that its children lose with a new version of theirs.

    None when it asks for one that is new with that version: it was made for both. What functions ask for
    cannot be seen.
    """
    before, after = ({node.id for node in chart.root.children} for chart in (old, new))
    if before <= after:
        return ()
    counted = {name for text in _conditions(parent.model) for name in _named_children(text)}
    return () if counted & (after - before) else tuple(sorted(counted & (before - after)))


def _conditions(whole: model.Model) -> Iterator[str]:
    for state in whole.states:
        if state.where is not None:
            yield state.where
    for row in whole.transitions:
        for condition in (*row.when, row.after):
            if isinstance(condition, model.Formula):
                yield condition.text
    for action in all_actions(whole):
        if isinstance(action, model.If):
            yield from (branch.when for branch in action.branches if branch.when is not None)


def _named_children(text: str) -> Iterator[str]:
    try:
        parts = list(walk(parse_node(text)))
    except ExpressionError:
        return
    for part in parts:
        if isinstance(part, Path) and isinstance(part.start, Name) and part.start.name == "children":
            first = part.steps[0]
            if isinstance(first, LiteralNode):
                yield str(first.value)
