"""The life of a question: opened with its state, reminded of, escalated, claimed, released, delegated."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import takewhile
from typing import Any

from headway.codec import from_data, replace
from headway.errors import InputError
from headway.statechart import model
from headway.statechart.effects import ChangedAsk, EscalateAsk, OpenedAsk, RemindAsk
from headway.statechart.identity import normal_id, require_id, same_id
from headway.statechart.people import AUDIENCE, audience, is_person, names, wanted
from headway.statechart.refusal import Veto
from headway.statechart.snapshot import (
    CLAIM,
    DELEGATE,
    RELEASE,
    Actor,
    AskClaim,
    AskDelegation,
    Event,
    OpenAsk,
)
from headway.statechart.step.actions import set_timer
from headway.statechart.step.authority import answered, is_asked, kept_from
from headway.statechart.step.draft import Draft
from headway.statechart.step.duties import kept_from_all
from headway.statechart.tree import Arc, StateNode

LONGEST_CLAIM = timedelta(hours=24)
MILLISECOND = timedelta(milliseconds=1)
MOST_PASSED_ON = 20
NOBODY: dict[str, Any] = {
    "claimed_by": None,
    "claimed_until": None,
    "delegated_to": None,
    "delegated_by": (),
}


def open_ask(draft: Draft, node: StateNode, ask: model.Ask) -> None:
    """Ask the people of a state that is entered."""
    ask_id = draft.identify()
    deadline = None if ask.deadline is None else draft.now + timedelta(milliseconds=ask.deadline)
    draft.own("asks")[node.id] = OpenAsk(id=ask_id, roles=ask.roles, deadline=deadline)
    draft.effects.append(
        OpenedAsk(
            id=ask_id,
            ask=ask_id,
            roles=audience(ask.roles, draft),
            deadline=deadline,
            **question(draft, node, ask),
        )
    )
    if ask.deadline is not None:
        set_timer(draft, ask.deadline, f"deadline.{node.id}", node.id)
    if ask.remind is not None:
        set_timer(draft, ask.remind, f"remind.{node.id}", node.id)
    for index, escalation in enumerate(ask.escalate):
        set_timer(draft, escalation.after, f"escalate.{node.id}", node.id, data=index)


def question(draft: Draft, node: StateNode, ask: model.Ask) -> dict[str, Any]:
    """The fields of an ask for its effects: the same when it is opened again after an upgrade."""
    return {
        "state": node.id,
        "answers": node.answers,
        "form": ask.form,
        "shows": draft.tell(ask.shows),
        "schema": draft.chart.model.schemas.get(ask.form or ""),
    }


def _remind(draft: Draft, state: str, _data: Any) -> None:
    ask = draft.asks[state]
    draft.effects.append(
        RemindAsk(
            id=draft.identify(), ask=ask.id, roles=audience(ask.roles, draft), delegated_to=ask.delegated_to
        )
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
    draft.effects.append(EscalateAsk(id=draft.identify(), ask=ask.id, roles=audience(roles, draft)))
    # Everybody who is asked may answer again: the holder did not answer in time.
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
        raise Veto("reserved", f"{event.name} must name its ask")
    if state is None:
        raise Veto("late", f"{event.name} came too late: the ask {event.ref} is no longer open")
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
            roles=audience(ask.roles, draft),
            claimed_by=ask.claimed_by,
            claimed_until=ask.claimed_until,
            delegated_to=ask.delegated_to,
        )
    )


def renew_audiences(draft: Draft) -> None:
    """An open ask that names people is for the people that the entries resolve to after the step.

    Who holds it through somebody whom it no longer names gives it back.
    """
    for state, ask in [*draft.asks.items()]:
        before = draft.base.asks.get(state)
        if before is None or before.id != ask.id:
            continue
        asked, now = audience(ask.roles, draft.base), audience(ask.roles, draft)
        if asked != now:
            through = (ask.claimed_by, ask.delegated_to, *(each.id for each in ask.delegated_by))
            people = {AUDIENCE + normal_id(each) for each in through if each is not None}
            gone = people.intersection(asked).difference(now)
            _change(draft, state, replace(ask, **NOBODY) if gone else ask)


def _must_be_theirs(draft: Draft, state: str, ask: OpenAsk, actor: Actor) -> None:
    """Raises Veto unless somebody could answer the question now: by role, duties, claims and deadline."""
    kept = kept_from(state, ask, actor, draft.now)
    if kept is not None:
        raise Veto(*kept)
    must_be_asked(draft, state, ask, actor)
    if is_overdue(draft, state):
        raise Veto("late", f"the deadline of {state} has passed")
    objection = kept_from_all(draft, state, actor)
    if objection is not None:
        raise Veto(objection.code, f"{actor.id} cannot answer {state}: {objection.reason}")


def must_be_asked(draft: Draft, state: str, ask: OpenAsk, actor: Actor) -> None:
    """Raises Veto for an actor who may not answer the ask."""
    if is_asked(draft, state, ask, actor):
        return
    asked = wanted(ask.roles, draft).removeprefix("the role ")
    if same_id(ask.delegated_to, actor.id):
        raise Veto("actor", f"{state} is delegated to {actor.id}, who does not have the role {asked}")
    raise Veto("actor", f"{state} asks {ask.delegated_to or asked}, not {actor.id}")


def _claim(draft: Draft, state: str, ask: OpenAsk, event: Event) -> OpenAsk:
    _must_be_theirs(draft, state, ask, event.by)
    try:
        lasts = from_data(AskClaim, event.data).lasts
    except InputError:
        lasts = 0
    if not 0 < lasts <= LONGEST_CLAIM / MILLISECOND:
        raise Veto("payload", "ask.claim needs lasts: a number of milliseconds, at most 24 hours")
    return replace(ask, claimed_by=event.by.id, claimed_until=draft.now + lasts * MILLISECOND)


def _release(draft: Draft, state: str, ask: OpenAsk, event: Event) -> OpenAsk:
    """The holder of an ask may release it, even without the right to answer: else it could stay blocked."""
    if ask.claimed_by is None and ask.delegated_to is None:
        raise Veto("illegal", f"{state} is neither claimed nor delegated")
    holds = same_id(event.by.id, ask.claimed_by) or same_id(event.by.id, ask.delegated_to)
    if not holds and event.by.kind != "system":
        kept = kept_from(state, ask, event.by, draft.now)
        raise Veto(*kept) if kept else Veto("illegal", f"{event.by.id} has not claimed {state}")
    return replace(ask, **NOBODY)


def _delegate(draft: Draft, state: str, ask: OpenAsk, event: Event) -> OpenAsk:
    _must_be_theirs(draft, state, ask, event.by)
    to = _recipient(event)
    if same_id(to, event.by.id):
        raise Veto("payload", f"{to} cannot delegate {state} to themselves")
    named = _presumed(draft, state, ask, to)
    objection = kept_from_all(draft, state, named)
    if objection is not None:
        raise Veto(objection.code, f"{to} cannot answer {state}: {objection.reason}")
    principals = _principals(draft, state, ask, event.by, to=to)
    return replace(ask, **NOBODY | {"delegated_to": to, "delegated_by": principals})


def _presumed(draft: Draft, state: str, ask: OpenAsk, to: str) -> Actor:
    """A delegate with the roles they could have: these are checked when they answer, the id is known now."""
    delegate, declared = Actor(to, "person"), draft.chart.nodes[state].model.ask
    lent = declared is not None and declared.delegate == "anyone"
    roles = (role for role in ask.roles if lent or not is_person(role) or names(role, draft, delegate))
    return replace(delegate, roles=frozenset(roles))


def _recipient(event: Event) -> str:
    try:
        to = from_data(AskDelegation, event.data).to
        require_id("the id of a person", to)
    except InputError as error:
        raise Veto("payload", f"ask.delegate needs `to`, the id of a person: {error}") from error
    return to


def _principals(draft: Draft, state: str, ask: OpenAsk, actor: Actor, *, to: str) -> tuple[Actor, ...]:
    """In whose place a delegate would answer: of who delegates, and of those that one stands in for."""
    asked = replace(actor, roles=actor.roles.intersection(ask.roles))
    earlier = () if kept_from_all(draft, state, asked, alone=True) is None else ask.delegated_by
    principals = tuple(takewhile(lambda each: not same_id(each.id, to), (*earlier, actor)))
    if len(principals) > MOST_PASSED_ON:
        raise Veto(
            "illegal",
            f"{state} was delegated {MOST_PASSED_ON} times: {actor.id} can only answer or release it",
        )
    return principals


HOLDING: dict[str, Callable[[Draft, str, OpenAsk, Event], OpenAsk]] = {
    CLAIM: _claim,
    RELEASE: _release,
    DELEGATE: _delegate,
}


def give_back(draft: Draft, arc: Arc, actor: Actor) -> None:
    """A vote releases the voter's claim on the ask: the others have to vote too."""
    for node, ask in list(answered(draft, arc)):
        if same_id(actor.id, ask.claimed_by) or same_id(actor.id, ask.delegated_to):
            _change(draft, node.id, replace(ask, **NOBODY))
