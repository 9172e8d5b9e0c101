"""Leaving and entering states, in SCXML's order, with the timers, work and asks that belong to them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from headway.statechart import model
from headway.statechart.effects import CancelWork, ClosedAsk
from headway.statechart.expressions.budget import ExhaustedError
from headway.statechart.expressions.expressions import truthy
from headway.statechart.people import senders
from headway.statechart.refusal import Veto
from headway.statechart.snapshot import Event, OpenWork, reached
from headway.statechart.step.actions import (
    Fault,
    as_delay,
    call,
    cancel_timer,
    payload_of,
    perform,
    set_timer,
    value_of,
)
from headway.statechart.step.asks import open_ask
from headway.statechart.step.draft import Draft
from headway.statechart.step.work import start_work
from headway.statechart.tree import (
    Arc,
    Entering,
    Move,
    StateNode,
    domain_given,
    entry_set,
    quiet_move,
)

MOST_MOVES = 64
"""How many prepared moves an arc keeps: enough for every real chart, and bounded for all others."""


def microstep(draft: Draft, arcs: list[Arc], event: Event) -> None:
    """Take transitions together: leave, act, enter; then write one line of history."""
    before, since = draft.states, draft.since
    draft.before = before
    if len(arcs) == 1:
        arc = arcs[0]
        name = arc.name
        leaf = draft.active[-1]
        alone = not (draft.timers or draft.votes) and len(leaf.path) == len(draft.active)
        move = (arc.moves[leaf.index] if leaf.index in arc.moves else _prepared(arc, leaf)) if alone else None
        if move is not None:
            _glide(draft, arc, move)
        elif arc.domain is None:
            _act(draft, arc)
        else:
            domain = _domain(draft, arc)
            _leave(draft, _inside(draft, domain))
            _act(draft, arc)
            _enter(draft, arc.entry if arc.entry is not None else _dynamic(draft, arc, domain))
            draft.settle()
    else:
        name = ", ".join(arc.name for arc in arcs)
        _together(draft, arcs)
        draft.settle()
    if draft.chart.computed and not draft.ended:
        _compute(draft, arcs)
        draft.settle()
    draft.row(name, before, event, since=None if draft.since is since else _left(draft, before, since))


def _left(draft: Draft, before: tuple[str, ...], since: Mapping[str, datetime]) -> datetime | None:
    """When the states before were reached, if they were left, also to be entered again; else None."""
    earlier = reached(before, since)
    stays = before == draft.states and earlier == reached(before, draft.since)
    return None if stays else earlier


def _prepared(arc: Arc, leaf: StateNode) -> Move | None:
    """The move of an arc from the only active leaf, made when it is first taken."""
    move = quiet_move(arc, leaf)
    if len(arc.moves) < MOST_MOVES:
        arc.moves[leaf.index] = move
    return move


def _glide(draft: Draft, arc: Arc, move: Move) -> None:
    if arc.busy:
        draft.active = move.kept
        _act(draft, arc)
    since = dict.fromkeys(move.entered, draft.now)
    if move.kept:
        since = {**draft.since, **since}
        for state in move.left:
            if state not in move.entered:
                since.pop(state, None)
    draft.since = since
    draft.active = move.active
    draft.states = move.states


def _inside(draft: Draft, domain: StateNode) -> list[StateNode]:
    first, last = domain.index, domain.last
    return [node for node in draft.active if first < node.index <= last]


def _act(draft: Draft, arc: Arc) -> None:
    row = arc.model
    draft.in_place_of = draft.represented.get(arc.index, ())
    if row.actions:
        if draft.typed:
            draft.payload = draft.typed.get(arc.index, draft.current.data)
        perform(draft, row.actions)
    if arc.watched:
        acted, others = draft.own("acted"), [each.id for each in draft.in_place_of]
        for name in arc.watched:
            acted[name] = senders(acted.get(name, ()), *others, draft.event.by.id)


def _together(draft: Draft, arcs: list[Arc]) -> None:
    moving = [(arc, _domain(draft, arc)) for arc in arcs if arc.domain is not None]
    leaving = {node.index: node for _, domain in moving for node in _inside(draft, domain)}
    _leave(draft, [leaving[index] for index in sorted(leaving)])
    for arc in arcs:
        _act(draft, arc)
    whole = Entering()
    for arc, domain in moving:
        part = _dynamic(draft, arc, domain)
        whole.nodes.update(part.nodes)
        whole.by_default |= part.by_default
        whole.contents.update(part.contents)
    _enter(draft, whole)


def _domain(draft: Draft, arc: Arc) -> StateNode:
    domain = domain_given(arc, draft.memory, draft.chart.nodes)
    assert domain is not None
    return domain


def _dynamic(draft: Draft, arc: Arc, domain: StateNode) -> Entering:
    nodes = draft.chart.nodes
    memory = {key: tuple(nodes[name] for name in names) for key, names in draft.memory.items()}
    entering = entry_set(arc.targets, domain, memory)
    assert entering is not None
    return entering


def _leave(draft: Draft, leaving: list[StateNode]) -> None:
    active = draft.active = list(draft.active)
    since = draft.since = dict(draft.since)
    for node in leaving:
        if node.history:
            _remember(draft, node)
    for node in reversed(leaving):
        if not node.idle:
            for block in node.model.exit:
                perform(draft, block)
            _close(draft, node)
        since.pop(node.id, None)
        active.remove(node)
    if draft.votes:
        _forget_votes(draft, leaving)
    if draft.timers:
        gone = {node.id for node in leaving}
        for key, timer in list(draft.timers.items()):
            if timer.state in gone:
                cancel_timer(draft, key)


def _remember(draft: Draft, node: StateNode) -> None:
    memory = draft.own("memory")
    for history in node.history:
        if history.kind == "deep":
            kept = [active.id for active in draft.active if active.atomic and node.holds(active)]
        else:
            kept = [active.id for active in draft.active if active.parent is node]
        memory[history.id] = tuple(kept)


def _close(draft: Draft, node: StateNode) -> None:
    if node.id in draft.work:
        work = draft.own("work").pop(node.id)
        draft.effects.append(CancelWork(id=draft.identify(), work=work.id))
    if node.id in draft.asks:
        ask = draft.own("asks").pop(node.id)
        closed = ClosedAsk(id=draft.identify(), ask=ask.id, event=draft.current.name, by=draft.event.by.id)
        draft.effects.append(closed)


def _forget_votes(draft: Draft, leaving: list[StateNode]) -> None:
    gone = {node.id for node in leaving}
    for key in [key for key in draft.votes if key.partition("/")[0] in gone]:
        del draft.own("votes")[key]


def _enter(draft: Draft, entering: Entering | tuple[StateNode, ...]) -> None:
    active = draft.active = list(draft.active)
    since = draft.own("since")
    remaining = len(active)
    if isinstance(entering, tuple):
        for node in entering:
            active.append(node)
            since[node.id] = draft.now
            if not node.idle:
                _begin(draft, node)
    else:
        _enter_each(draft, active, entering)
    if remaining:
        active.sort(key=_position)


def _enter_each(draft: Draft, active: list[StateNode], entering: Entering) -> None:
    """As `_enter`, with the content that default entries and history states bring along."""
    for node in entering.ordered():
        active.append(node)
        draft.since[node.id] = draft.now
        if not node.idle:
            _begin(draft, node)
        if node.index in entering.by_default:
            perform(draft, node.model.initial_actions)
        if node.index in entering.contents:
            perform(draft, entering.contents[node.index])


def _position(node: StateNode) -> int:
    return node.index


def _begin(draft: Draft, node: StateNode) -> None:
    state = node.model
    if state.data:
        declare(draft, state.data)
    for block in state.entry:
        perform(draft, block)
    if state.progress is not None:
        draft.progress = float(state.progress[0])
    if state.ask is not None:
        open_ask(draft, node, state.ask)
    if state.run is not None:
        work_id = draft.identify()
        draft.own("work")[node.id] = OpenWork(id=work_id)
        start_work(draft, work_id, node.id, state.run)
    if node.after:
        _set_timers(draft, node)
    if node.kind == "final":
        _finish(draft, node)


def declare(draft: Draft, data: tuple[model.Datum, ...]) -> None:
    """Give variables that have no value yet their first ones; one that fails has none."""
    for datum in data:
        if datum.id in draft.context:
            continue
        value = datum.value
        if datum.expr is not None:
            try:
                value = value_of(draft, datum.expr)
            except Fault as fault:
                draft.internal.append(Event("error.execution", {"message": str(fault)}))
                value = None
        draft.context = {**draft.context, datum.id: value}


def _set_timers(draft: Draft, node: StateNode) -> None:
    for arc in node.after:
        set_after(draft, node, arc)


def repeat_timer(draft: Draft, state: str, event: str) -> None:
    """Set a timer again that comes each time its delay has passed."""
    node = draft.chart.nodes.get(state, draft.chart.root)
    for arc in node.after:
        if arc.model.repeats and event in arc.model.events:
            set_after(draft, node, arc)


def set_after(draft: Draft, node: StateNode, arc: Arc) -> None:
    """Set the timer of a transition that comes after a time."""
    after = arc.model.after
    try:
        if isinstance(after, int):
            wait = after
        elif isinstance(after, model.Named):
            wait = as_delay(draft, call(draft, after.name))
        else:
            assert after is not None
            wait = as_delay(draft, value_of(draft, after.text))
        set_timer(draft, wait, arc.model.events[0], node.id)
    except Fault as fault:
        raise Veto("fault", f"the delay of {arc.name}: {fault}") from fault


def _finish(draft: Draft, node: StateNode) -> None:
    output = None
    if node.model.output is not None:
        try:
            output = payload_of(draft, node.model.output)
        except Fault as fault:
            draft.internal.append(Event("error.execution", {"message": str(fault)}))
    parent = node.parent
    if parent is None or parent.parent is None:
        draft.ended = True
        draft.output = output
        return
    draft.internal.append(Event(f"done.state.{parent.id}", output))
    above = parent.parent
    active = {node.index for node in draft.active}
    if above.kind == "parallel" and all(_is_done(child, active) for child in above.children):
        draft.internal.append(Event(f"done.state.{above.id}"))


def _is_done(node: StateNode, active: set[int]) -> bool:
    if node.kind == "compound":
        return any(child.kind == "final" and child.index in active for child in node.children)
    if node.kind == "parallel":
        return all(_is_done(child, active) for child in node.children)
    return False


def end(draft: Draft) -> None:
    """The life is over: what was open in states that remain active is closed."""
    for node in reversed(draft.active):
        for block in node.model.exit:
            perform(draft, block)
        _close(draft, node)
    for key in list(draft.timers):
        cancel_timer(draft, key)


def computed_status(draft: Draft) -> StateNode:
    """The state whose rule holds first; raises Veto when none does."""
    view = draft.view
    for node, rule in draft.chart.rules:
        try:
            holds = truthy(rule.evaluate(view))
        except ExhaustedError:
            raise
        except Exception as error:
            raise Veto("fault", f"the rule of {node.id} failed: {error}") from error
        if holds:
            return node
    raise Veto("fault", "no rule gives a status for these facts")


def _compute(draft: Draft, arcs: list[Arc]) -> None:
    status = computed_status(draft)
    current = draft.active[0].top if draft.active else None
    lands = {name for arc in arcs for name in arc.model.lands}
    if lands and status.id not in lands:
        said = ", ".join(sorted(lands))
        raise Veto("landing", f"{arcs[0].name} would land in {status.id}; it is declared to land in {said}")
    if status is not current:
        _leave(draft, list(draft.active))
        _enter(draft, draft.chart.first_entry((status,)))


def begin(draft: Draft) -> None:
    """Enter the chart for the first time."""
    chart = draft.chart
    targets = (computed_status(draft),) if chart.computed else chart.root.completion
    perform(draft, chart.model.initial_actions)
    _enter(draft, chart.first_entry(targets))
    draft.settle()
    _set_timers(draft, chart.root)
