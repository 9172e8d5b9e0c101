"""What callers pass, judged before it goes anywhere: a wrong argument is told in the caller's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from headway.clock import milliseconds
from headway.errors import InputError, shown
from headway.statechart.identity import normal_id, require_id
from headway.statechart.snapshot import Actor, Event
from headway.store.queries import InstanceQuery

TEXT_OR_NONE = (str, type(None))


def require_event(instance: object, event: object, request_id: object, expected_seq: object) -> None:
    """Raises InputError unless an event can be sent like this. Every send pays for it: no loops."""
    if (
        type(event) is Event
        and type(event.by) is Actor
        and type(event.by.id) is str
        and normal_id(event.by.id) == event.by.id
        and type(instance) is str
        and request_id.__class__ in TEXT_OR_NONE
        and (expected_seq is None or type(expected_seq) is int)
    ):
        return
    require_text("instance", instance)
    if not isinstance(event, Event):
        raise InputError(
            f"an event must be made by its transition, as Expense.approve(by=bob), not {shown(event)}"
        )
    require_actor("by", event.by)
    require_request(request_id)
    if expected_seq is not None:
        require_number("expected_seq", expected_seq, least=0)


def require_pairs(events: object) -> None:
    """Raises InputError unless it is a list of instances, each with its event."""
    if not isinstance(events, Sequence) or isinstance(events, str):
        raise InputError(
            f"events must be a list of pairs, as [('e1', Expense.approve(by=bob))], not {shown(events)}"
        )
    for pair in events:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:  # noqa: PLR2004 - a pair
            raise InputError(f"each event needs its instance, as ('e1', event), not {shown(pair)}")


def require_text(word: str, value: object) -> None:
    """Raises InputError for anything but a text."""
    if not isinstance(value, str):
        name = getattr(value, "id", None)
        hint = f" (pass its id, {name!r})" if isinstance(name, str) else ""
        raise InputError(f"{word} must be a string{hint}, not {shown(value)}")


def require_texts(**words: object) -> None:
    """Raises InputError for anything but texts, and None."""
    for word, value in words.items():
        if value is not None:
            require_text(word, value)


def require_request(request_id: object) -> None:
    """Raises InputError for a request id that is neither a text nor left out."""
    require_texts(request_id=request_id)


def require_actor(word: str, value: object) -> None:
    """Raises InputError for anything but an actor."""
    if not isinstance(value, Actor):
        name = value if isinstance(value, str) else "bob"
        raise InputError(f"{word}= must be an actor, as person({name!r}, 'manager'), not {shown(value)}")
    if value.kind != "system":  # those that the engine makes carry names of instances
        require_id(f"the id of the actor {word}=", value.id)


def require_number(word: str, value: object, *, least: int | None = None) -> None:
    """Raises InputError for anything but a whole number, or for one that is too small."""
    if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
        most = "" if least is None else f" of at least {least}"
        raise InputError(f"{word}= must be a whole number{most}, not {shown(value)}")


def require_context(context: object) -> None:
    """Raises InputError for a context that is no mapping."""
    if context is not None and not isinstance(context, Mapping):
        raise InputError(f"a context must be a mapping, as {{'amount': 12}}, not {shown(context)}")


def require_query(query: InstanceQuery) -> None:
    """Raises InputError for a query that no store could answer."""
    require_text("tenant", query.tenant)
    require_texts(
        chart=query.chart, status=query.status, parent=query.parent, owner=query.owner, after=query.after
    )
    if query.ended not in (None, True, False):
        raise InputError(f"ended= must be True, False or left out, not {shown(query.ended)}")
    require_number("limit", query.limit, least=1)


def lasting(duration: str | float | timedelta) -> timedelta:
    """A duration; raises InputError for what is none."""
    try:
        return timedelta(milliseconds=milliseconds(duration))
    except ValueError as error:
        raise InputError(str(error)) from error
