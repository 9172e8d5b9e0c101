"""The life of a question: opened with its state, reminded of, escalated, claimed, released, delegated."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from headway.codec import replace
from headway.statechart import model
from headway.statechart.actions import set_timer
from headway.statechart.claims import answered, kept_from, may_answer
from headway.statechart.draft import Draft
from headway.statechart.effects import ChangedAsk, EscalateAsk, OpenedAsk, RemindAsk
from headway.statechart.refusal import Veto
from headway.statechart.snapshot import Actor, Event, OpenAsk
from headway.statechart.tree import Arc, Node

LONGEST_CLAIM = timedelta(hours=24)
MILLISECOND = timedelta(milliseconds=1)
LONGEST_ID = 200
NOBODY: dict[str, Any] = {"claimed_by": None, "claimed_until": None, "delegated_to": None}


def open_ask(draft: Draft, node: Node, ask: model.Ask) -> None:
    """Ask the people of a state that is entered."""
    ask_id = draft.identify()
    deadline = None if ask.deadline is None else draft.now + timedelta(milliseconds=ask.deadline)
    draft.own("asks")[node.id] = OpenAsk(id=ask_id, roles=ask.roles, deadline=deadline)
    draft.effects.append(
        OpenedAsk(
            id=ask_id,
            ask=ask_id,
            state=node.id,
            roles=ask.roles,
            answers=node.answers,
            form=ask.form,
            deadline=deadline,
            shows=draft.tell(ask.shows),
            schema=draft.chart.model.schemas.get(ask.form or ""),
        )
    )
    if ask.deadline is not None:
        set_timer(draft, ask.deadline, f"deadline.{node.id}", node.id)
    if ask.remind is not None:
        set_timer(draft, ask.remind, f"remind.{node.id}", node.id)
    for index, escalation in enumerate(ask.escalate):
        set_timer(draft, escalation.after, f"escalate.{node.id}", node.id, data=index)


def _remind(draft: Draft, state: str, _data: Any) -> None:
    ask = draft.asks[state]
    draft.effects.append(
        RemindAsk(id=draft.identify(), ask=ask.id, roles=ask.roles, delegated_to=ask.delegated_to)
    )
    again = draft.chart.nodes[state].model.ask
    assert again is not None
    assert again.remind is not None
    following = draft.now + timedelta(milliseconds=again.remind)
    if ask.deadline is None or following < ask.deadline:
        set_timer(draft, again.remind, f"remind.{state}", state)


def _escalate(draft: Draft, state: str, index: Any) -> None:
    ask = draft.asks[state]
    declared = draft.chart.nodes[state].model.ask
    assert declared is not None
    roles = declared.escalate[index].roles
    draft.effects.append(EscalateAsk(id=draft.identify(), ask=ask.id, roles=roles))
    # It is everybody's again: whoever held it did not answer in time.
    _change(draft, state, replace(ask, **NOBODY, roles=tuple(dict.fromkeys((*ask.roles, *roles)))))


ASK_TIMERS: dict[str, Callable[[Draft, str, Any], None]] = {"remind": _remind, "escalate": _escalate}


def is_overdue(draft: Draft, state: str) -> bool:
    """Whether the deadline of a question has passed, though its timer has not come yet."""
    ask = draft.asks.get(state)
    if ask is None or ask.deadline is None or draft.now < ask.deadline:
        return False
    # Once the deadline has come and the chart chose to stay, the question is open again.
    return any(timer.event == f"deadline.{state}" for timer in draft.timers.values())


def hold(draft: Draft, event: Event) -> Event:
    """Somebody takes a question on, gives it back or hands it over; raises Veto when it is not theirs to."""
    state = next((state for state, ask in draft.asks.items() if ask.id == event.ref), None)
    if event.ref is None:
        raise Veto("reserved", f"{event.name} names the ask it belongs to")
    if state is None:
        raise Veto("late", f"{event.name} belongs to {event.ref}, which is no longer open")
    _change(draft, state, HOLDING[event.name](draft, state, draft.asks[state], event))
    draft.row(event.name, draft.states, event)
    draft.finished = True
    return event


def _change(draft: Draft, state: str, ask: OpenAsk) -> None:
    draft.own("asks")[state] = ask
    draft.effects.append(
        ChangedAsk(
            id=draft.identify(),
            ask=ask.id,
            roles=ask.roles,
            claimed_by=ask.claimed_by,
            claimed_until=ask.claimed_until,
            delegated_to=ask.delegated_to,
        )
    )


def _must_be_theirs(draft: Draft, state: str, ask: OpenAsk, actor: Actor) -> None:
    """Raises Veto unless somebody could answer the question now."""
    kept = kept_from(state, ask, actor, draft.now)
    if kept is not None:
        raise Veto(*kept)
    must_be_asked(state, ask, actor)
    if is_overdue(draft, state):
        raise Veto("late", f"{state} could be answered until its deadline, which has passed")


def must_be_asked(state: str, ask: OpenAsk, actor: Actor) -> None:
    """Raises Veto for somebody to whom the question was not put."""
    if not may_answer(ask, actor):
        asked = ask.delegated_to or " or ".join(ask.roles)
        raise Veto("actor", f"{state} asks {asked}, not {actor.id}")


def _claim(draft: Draft, state: str, ask: OpenAsk, event: Event) -> OpenAsk:
    _must_be_theirs(draft, state, ask, event.by)
    until = _lasting(_said(event, "lasts"), draft.now) or _moment(_said(event, "until"))
    if until is None or not timedelta() < until - draft.now <= LONGEST_CLAIM:
        raise Veto(
            "payload",
            "ask.claim carries until: a time with its zone, within the next 24 hours; or lasts: milliseconds",
        )
    return replace(ask, claimed_by=event.by.id, claimed_until=until)


def _release(draft: Draft, state: str, ask: OpenAsk, event: Event) -> OpenAsk:
    holds = {ask.claimed_by, ask.delegated_to} - {None}
    if not holds:
        raise Veto("illegal", f"nobody has claimed {state}, nor was it delegated")
    if event.by.id not in holds and event.by.kind != "system":
        kept = kept_from(state, ask, event.by, draft.now)
        raise Veto(*kept) if kept else Veto("illegal", f"{event.by.id} has not claimed {state}")
    return replace(ask, **NOBODY)


def _delegate(draft: Draft, state: str, ask: OpenAsk, event: Event) -> OpenAsk:
    _must_be_theirs(draft, state, ask, event.by)
    to = _said(event, "to")
    if not isinstance(to, str) or not to.strip() or len(to) > LONGEST_ID:
        raise Veto("payload", f"ask.delegate carries to: a person's id, of at most {LONGEST_ID} characters")
    if to == event.by.id:
        raise Veto("payload", f"{to} cannot delegate {state} to {to}")
    return replace(ask, claimed_by=None, claimed_until=None, delegated_to=to)


HOLDING: dict[str, Callable[[Draft, str, OpenAsk, Event], OpenAsk]] = {
    "ask.claim": _claim,
    "ask.release": _release,
    "ask.delegate": _delegate,
}


def _said(event: Event, field: str) -> object:
    return event.data.get(field) if isinstance(event.data, dict) else None


def _lasting(milliseconds: object, now: datetime) -> datetime | None:
    """The time after so many milliseconds; None when that is no number of them, or beyond any claim."""
    if type(milliseconds) is not int or not 0 < milliseconds <= LONGEST_CLAIM / MILLISECOND:
        return None
    return now + milliseconds * MILLISECOND


def _moment(text: object) -> datetime | None:
    """The time that a text says, in UTC; None when it says none, or not in which zone."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        return None if moment is None or moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def give_back(draft: Draft, arc: Arc, actor: Actor) -> None:
    """Whoever has voted on a question holds it no longer: the others have to vote too."""
    for node, ask in list(answered(draft, arc)):
        if actor.id in {ask.claimed_by, ask.delegated_to}:
            _change(draft, node.id, replace(ask, **NOBODY))
