"""The world follows an upgrade: effects for what an instance holds now and did not hold so before."""

from __future__ import annotations

from collections.abc import Mapping

from headway.statechart.chart import Chart
from headway.statechart.draft import Draft
from headway.statechart.effects import CancelTimer, CancelWork, ClosedAsk, RenewedAsk, SetTimer
from headway.statechart.snapshot import OpenAsk, OpenWork, Snapshot
from headway.statechart.tree import Node
from headway.statechart.work import start_work


def follow(draft: Draft, before: Snapshot, old: Chart, came: Mapping[str, str]) -> None:
    """The effects by which the world follows: what the instance holds now that it did not hold so before."""
    for key, timer in draft.timers.items():
        if before.timers.get(key) != timer:
            draft.effects.append(SetTimer(draft.identify(), key, timer.due, timer.event, timer.state))
    for key in before.timers.keys() - draft.timers.keys():
        draft.effects.append(CancelTimer(draft.identify(), key))
    _follow_work(draft, before.work)
    asked = {ask.id for ask in draft.asks.values()}
    for ask in before.asks.values():
        if ask.id not in asked:
            draft.effects.append(ClosedAsk(draft.identify(), ask.id, draft.event.name, draft.event.by.id))
    for state, ask in draft.asks.items():
        was = came.get(state, "")
        if before.asks.get(was) != ask or was != state or _put(old, was) != _put(draft.chart, state):
            draft.effects.append(_renewed(draft, draft.chart.nodes[state], ask))


def _follow_work(draft: Draft, before: Mapping[str, OpenWork]) -> None:
    attempts = {work.id: work.attempt for work in before.values()}
    wanted = {work.id for work in draft.work.values()}
    for work in before.values():
        if work.id not in wanted:
            draft.effects.append(CancelWork(draft.identify(), work.id))
    for state, work in draft.work.items():
        run = draft.chart.nodes[state].model.run
        if attempts.get(work.id) != work.attempt and run is not None:
            start_work(draft, work.id, state, run, attempt=work.attempt, due=work.due)


def _put(chart: Chart, state: str) -> tuple[object, ...] | None:
    """How a question is put."""
    node = chart.nodes.get(state)
    ask = node.model.ask if node is not None else None
    return None if node is None or ask is None else (ask.form, ask.shows, node.answers)


def _renewed(draft: Draft, node: Node, held: OpenAsk) -> RenewedAsk:
    ask = node.model.ask
    assert ask is not None
    return RenewedAsk(
        id=draft.identify(),
        ask=held.id,
        state=node.id,
        roles=held.roles,
        answers=node.answers,
        opened_at=held.since or draft.since[node.id],
        form=ask.form,
        deadline=held.deadline,
        shows=draft.tell(ask.shows),
        schema=draft.chart.model.schemas.get(ask.form or ""),
        claimed_by=held.claimed_by,
        claimed_until=held.claimed_until,
        delegated_to=held.delegated_to,
    )
