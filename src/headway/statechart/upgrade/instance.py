"""Upgrade of one instance to another version of its chart. Pure; nothing is done twice or lost.

No entry or exit action runs: the instance has been where it is all along, under another name. What follows
by itself under the new chart (eventless transitions) does follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any

from headway.codec import Value, as_json, from_data, replace, to_data
from headway.errors import HeadwayError, InputError
from headway.statechart import model
from headway.statechart.chart import Chart
from headway.statechart.effects import ReportToParent
from headway.statechart.people import owner_of, senders, watched_events
from headway.statechart.redaction import redacted_error
from headway.statechart.refusal import Veto
from headway.statechart.snapshot import SYSTEM, Actor, Event, OpenWork, Snapshot
from headway.statechart.step.actions import Fault
from headway.statechart.step.draft import NOTHING, Draft, draft_of
from headway.statechart.step.moves import computed_status, end
from headway.statechart.step.step import Step, in_utc, settle, status_of
from headway.statechart.tree import Arc, StateNode
from headway.statechart.types import Mismatch
from headway.statechart.upgrade.open_items import InstanceUpgrade, add_effects, carry_over
from headway.statechart.upgrade.renaming import Renaming, rule_for

UPGRADE, UNDO = "chart.upgrade", "chart.undo"
"""What lines of history call it; nobody outside can send events of such names."""


class UpgradeGap(Value):
    """Why an instance cannot become one of the new version: what it would take a rule to decide."""

    instance: str
    problems: tuple[str, ...]

    def __str__(self) -> str:
        """All of it."""
        return f"{self.instance}: {'; '.join(self.problems)}"


class UpgradeRecord(Value):
    """What an upgrade has changed, as its line of history keeps it: enough to take it back."""

    version: int
    to: int
    before: dict[str, Any] = {}


Acted = Mapping[str, tuple[str, ...]]


def upgrade_snapshot(
    old: Chart,
    new: Chart,
    snapshot: Snapshot,
    now: datetime,
    *,
    born: datetime | None = None,
    facts: Mapping[str, Any] = NOTHING,
    acted: Acted = NOTHING,
    by: Actor = SYSTEM,
    reason: str | None = None,
) -> Step | UpgradeGap:
    """The instance as one of the new version, by the rule that the new chart declares.

    `born` is when its life began, `acted` who did what the new chart wants to know and the old one did not
    watch. Raises InputError for a snapshot that is not of the old chart.
    """
    if (snapshot.chart, snapshot.version) != (old.name, old.version) or snapshot.ended or not snapshot.states:
        raise InputError(f"not a living instance of {old.name} v{old.version}: {snapshot.instance}")
    new.require_bound()
    event = Event(UPGRADE, by=by, reason=reason)
    problems: list[str] = []
    upgrade = None
    try:
        upgrade = _instance_upgrade(
            old, new, snapshot, event=event, now=in_utc(now), born=born, facts=facts, problems=problems
        )
        if upgrade is not None:
            carry_over(upgrade)
    except (Fault, Veto, HeadwayError) as error:
        problems.append(str(error))
    if upgrade is None or problems or upgrade.problems:
        said = [*problems, *(upgrade.problems if upgrade else ())]
        return UpgradeGap(snapshot.instance, tuple(dict.fromkeys(said)))
    upgrade.draft.acted = _acted(upgrade, acted)
    try:
        return _finished(upgrade)
    except (Fault, Veto) as error:
        return UpgradeGap(snapshot.instance, (f"what would follow by itself fails: {error}",))


def watched_anew(old: Chart, new: Chart) -> frozenset[str]:
    """What the new chart wants to know who did it, and the old one did not keep; by the old names."""
    renaming = Renaming(old, new)
    wanted = watched_events(new.model)
    now = {name: renaming.event(name) for row in old.model.transitions for name in (row.name, *row.events)}
    named = {name for name, called in now.items() if called in wanted} | wanted.difference(now.values())
    return frozenset(named - watched_events(old.model))


def _instance_upgrade(
    old: Chart,
    new: Chart,
    snapshot: Snapshot,
    *,
    event: Event,
    now: datetime,
    born: datetime | None,
    facts: Mapping[str, Any],
    problems: list[str],
) -> InstanceUpgrade | None:
    """The instance where it will stand, without what it holds; None when nobody says where that is."""
    rule = rule_for(new, snapshot.version)
    context = _context(old, new, snapshot, problems)
    came = _destinations(old, new, snapshot, problems)
    if problems:
        return None
    owner = snapshot.owner or owner_of(new.model.owner, snapshot.instance, snapshot.creator or "", context)
    base = replace(snapshot, version=new.version, context=context, owner=owner)
    if new.computed:
        came = _recomputed(draft_of(new, replace(base, states=()), event, now, facts=facts), came)
    states = tuple(sorted(came, key=lambda name: new.nodes[name].index))
    draft = draft_of(new, replace(base, states=states), event, now, facts=facts)
    above = _came_above(old, draft.active, rule, came)
    draft.since = {node.id: _since(snapshot, node, above, draft) for node in draft.active}
    upgrade = InstanceUpgrade(
        old=old,
        new=new,
        rule=rule,
        snapshot=snapshot,
        draft=draft,
        born=born or min(draft.since.values()),
        came=above,
    )
    draft.memory = _memory(upgrade)
    draft.votes = _votes(upgrade)
    return upgrade


def _context(old: Chart, new: Chart, snapshot: Snapshot, problems: list[str]) -> dict[str, Any]:
    rule = rule_for(new, snapshot.version)
    context = {name: value for name, value in snapshot.context.items() if name not in rule.drops}
    if rule.context is not None:
        updates = as_json(_called(old, new, rule.context, snapshot))
        if not isinstance(updates, dict):
            raise InputError(f"{rule.context} must return a mapping of updates, not {type(updates).__name__}")
        context |= updates
    kind = new.context_type
    if kind is None:
        return context
    try:
        cleaned = dict(kind.clean(context))
    except Mismatch as error:
        problems.append(f"its context is {error}: say context=, a function that answers with updates")
        return context
    lost = ", ".join(sorted(context.keys() - cleaned.keys()))
    if lost:
        problems.append(f"its context has no place for {lost} any more: say drops=, or keep it in context=")
    return cleaned


def _called(old: Chart, new: Chart, name: str, snapshot: Snapshot) -> Any:
    try:
        return new.functions[name](deepcopy(snapshot))
    except Exception as error:
        hides = not (old.secrets is new.secrets is None)
        raise InputError(f"{name} failed: {redacted_error(error, hides=hides)}") from error


def _destinations(old: Chart, new: Chart, snapshot: Snapshot, problems: list[str]) -> dict[str, str]:
    """Where each active state goes; by the new name the old one."""
    rule = rule_for(new, snapshot.version)
    came: dict[str, str] = {}
    for state in snapshot.states:
        to = rule.states.get(state, (state,))
        for name in _chosen(old, new, to, snapshot) if isinstance(to, model.Named) else to:
            node = new.nodes.get(name)
            if node is None or not node.atomic:
                problems.append(_homeless(state, name, node))
            elif node.kind == "final" and old.nodes[state].kind != "final":
                problems.append(
                    f"{state} goes to {name}, which is final: an instance ends by an event, not by an upgrade"
                )
            else:
                came.setdefault(name, state)
    if not problems and not new.computed:
        try:
            new.configuration(tuple(sorted(came, key=lambda name: new.nodes[name].index)))
        except InputError as error:
            said = ", ".join(f'"{state}": ...' for state in snapshot.states)
            problems.append(f"{error}: say states={{{said}}}")
    return came


def _homeless(state: str, name: str, node: StateNode | None) -> str:
    if node is not None:
        return f'{name} has states inside now: say in which {state} continues, states={{"{state}": ...}}'
    if name == state:
        return f'there is no state {state} any more: say where it goes, states={{"{state}": ...}}'
    return f"{state} goes to {name}, which does not exist"


def _chosen(old: Chart, new: Chart, function: model.Named, snapshot: Snapshot) -> tuple[str, ...]:
    chosen = _called(old, new, function.name, snapshot)
    names = (chosen,) if isinstance(chosen, str) else chosen
    if isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names):
        return tuple(names)
    raise InputError(f"{function.name} answered with {type(chosen).__name__}: it answers with a state's name")


def _recomputed(draft: Draft, came: dict[str, str]) -> dict[str, str]:
    """The new rules compute the status; the upgrade decides only where inside it the instance goes."""
    status = computed_status(draft)
    inside = {name: was for name, was in came.items() if draft.chart.nodes[name].top is status}
    if inside:
        return inside
    entering = draft.chart.first_entry((status,))
    nodes = entering if isinstance(entering, tuple) else entering.ordered()
    return {node.id: "" for node in nodes if node.atomic}


def _came_above(
    old: Chart, active: Sequence[StateNode], rule: model.Upgrade, came: Mapping[str, str]
) -> dict[str, str]:
    """Where the states around come from as well: by the rule, or those of the same name."""
    found = {name: was for name, was in came.items() if was}
    before = {above.id for was in found.values() for above in old.nodes[was].path} - {*found.values()}
    around = {to[0]: was for was, to in rule.states.items() if isinstance(to, tuple) and was in before and to}
    for node in active:
        was = around.get(node.id, node.id)
        if node.id not in found and was in before:
            found[node.id] = was
    return found


def _since(snapshot: Snapshot, node: StateNode, came: Mapping[str, str], draft: Draft) -> datetime:
    """A state that is new around one that is not has lasted as long as that."""
    if came.get(node.id) in snapshot.since:
        return snapshot.since[came[node.id]]
    inside = [came[each.id] for each in draft.active if node.holds(each) and each.id in came]
    return min((snapshot.since[was] for was in inside if was in snapshot.since), default=draft.now)


def _memory(upgrade: InstanceUpgrade) -> dict[str, tuple[str, ...]]:
    """What history states remember, by the new names."""
    kept = {}
    for name, states in upgrade.snapshot.memory.items():
        [history] = _renamed(upgrade, [name]) or [name]
        node = upgrade.new.nodes.get(history)
        if node is None or node.kind not in {"shallow", "deep"}:
            continue
        remembered = _renamed(upgrade, states)
        gone = [state for state in remembered if not _may_remember(upgrade.new, node, state)]
        if gone:
            said = f"{history} remembers {', '.join(gone)}, which is not there any more"
            upgrade.problems.append(f'{said}: say states={{"{gone[0]}": ...}}')
        kept[history] = tuple(remembered)
    return kept


def _renamed(upgrade: InstanceUpgrade, names: Iterable[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        to = upgrade.rule.states.get(name, (name,))
        if isinstance(to, model.Named):
            to = _chosen(upgrade.old, upgrade.new, to, upgrade.snapshot)
        found += to
    return list(dict.fromkeys(found))


def _may_remember(new: Chart, history: StateNode, state: str) -> bool:
    node, parent = new.nodes.get(state), history.upward[1]
    if node is None or not parent.holds(node):
        return False
    return node.atomic if history.kind == "deep" else node.parent is parent


def _votes(upgrade: InstanceUpgrade) -> dict[str, dict[str, str]]:
    """Votes that were given for the same thing; where other votes are wanted now, people vote again."""
    before = {arc.ballot: arc for arc in upgrade.old.arcs}
    origin = {was: name for name, was in upgrade.came.items()}
    ballots = {arc.ballot: arc for arc in upgrade.new.arcs}
    kept = {}
    for ballot, cast in upgrade.snapshot.votes.items():
        state, _, name = ballot.partition("/")
        name, slash, number = name.partition("/")
        ballot_now = f"{origin.get(state, state)}/{upgrade.renamed(name)}{slash}{number}"
        arc, was = ballots.get(ballot_now), before.get(ballot)
        if arc is not None and was is not None and _wanted(arc) == _wanted(was):
            kept[ballot_now] = cast
    return kept


def _wanted(arc: Arc) -> tuple[object, ...]:
    return arc.by, arc.model.quorum, arc.model.countersign


def _acted(upgrade: InstanceUpgrade, further: Acted) -> dict[str, tuple[str, ...]]:
    renaming = Renaming(upgrade.old, upgrade.new)
    acted: dict[str, tuple[str, ...]] = {}
    for known in (upgrade.snapshot.acted, further):
        for name, who in known.items():
            key = renaming.event(name)
            acted[key] = senders(acted.get(key, ()), *who)
    return acted


def _finished(upgrade: InstanceUpgrade) -> Step:
    draft, before = upgrade.draft, upgrade.snapshot
    event = draft.event
    draft.row(UPGRADE, before.states, event, since=before.reached)
    add_effects(draft, before, upgrade.old, upgrade.came)
    settle(draft)
    if draft.ended:
        end(draft)
    _report(draft, upgrade.old, before)
    after = draft.snapshot()
    data = to_data(UpgradeRecord(before.version, after.version, changed(before, after)))
    rows = [replace(draft.rows[0], data=data), *draft.rows[1:]]
    return Step(after, tuple(rows), tuple(draft.effects))


def changed(before: Snapshot, after: Snapshot) -> dict[str, Any]:
    """What of a snapshot is not as it was, and how it was; the numbers that only count on aside."""
    return {
        field: to_data(getattr(before, field))
        for field in Snapshot.__struct_fields__
        if field not in {"seq", "version"} and getattr(before, field) != getattr(after, field)
    }


def _report(draft: Draft, chart: Chart, before: Snapshot) -> None:
    """The parent hears of another status, and of errors that are more or fewer than the child had before."""
    parent, was, now = before.parent, status_of(chart, before.states), draft.active[0].top.id
    errors = draft.counters.get("errors", 0) - before.counters.get("errors", 0)
    if parent is not None and (was != now or errors):
        draft.effects.append(
            ReportToParent(id=draft.identify(), parent=parent, before=was, after=now, errors=errors)
        )


def restore_snapshot(
    old: Chart,
    new: Chart,
    snapshot: Snapshot,
    now: datetime,
    *,
    record: UpgradeRecord,
    by: Actor = SYSTEM,
    reason: str | None = None,
) -> Step:
    """The instance as it was before an upgrade after which nothing has happened to it.

    Work that the upgrade has ended or restarted starts again, as a further attempt: numbers never go back.
    """
    if (snapshot.version, new.version, old.version) != (record.to, record.to, record.version):
        raise InputError(f"{snapshot.instance} is not as an upgrade from version {record.version} left it")
    was = from_data(Snapshot, {**to_data(snapshot), **record.before, "version": record.version})
    attempts = {work.id: work for work in snapshot.work.values()}
    work = {state: _again(each, attempts.get(each.id)) for state, each in was.work.items()}
    event = Event(UNDO, {"version": record.to, "to": record.version}, by, reason=reason)
    draft = draft_of(old, replace(was, work=work, ended=False), event, in_utc(now), facts=NOTHING)
    draft.row(UNDO, snapshot.states, event, since=snapshot.reached)
    states = {ask.id: state for state, ask in snapshot.asks.items()}
    came = {state: states.get(ask.id, "") for state, ask in was.asks.items()}
    add_effects(draft, snapshot, new, came)
    _report(draft, new, snapshot)
    return Step(draft.snapshot(), tuple(draft.rows), tuple(draft.effects))


def _again(was: OpenWork, now: OpenWork | None) -> OpenWork:
    if now is not None and now.attempt == was.attempt:
        return was
    return replace(was, attempt=max(was.attempt, 0 if now is None else now.attempt) + 1, due=None)
