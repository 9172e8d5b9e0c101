"""Calls to the engine: how their arguments are checked, the trace they belong to, and what they answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from hashlib import sha256
from typing import Any

from headway.clock import milliseconds
from headway.codec import Plain, Scratch, Value, decode, encode, fingerprint, require_finite
from headway.errors import EngineError, InputError, shown
from headway.statechart.identity import STANDS_FOR_A_PERSON, normal_id, require_id, require_role
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import SYSTEM, Actor, Event
from headway.statechart.upgrade.instance import UpgradeRecord
from headway.store.queries import InstanceQuery
from headway.store.rows import Key

HOUR = timedelta(hours=1)
DAY = timedelta(hours=24)
NO_SEQ = -1
CASCADES = "with its children"
CHILD = re.compile(r"(.+):\d+:\d+", re.DOTALL)
TEXT_OR_NONE = (str, type(None))
CURRENT: ContextVar[str | None] = ContextVar("headway_trace", default=None)
"""The trace of what runs now, as a W3C `traceparent`."""
TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class Receipt(Plain):
    """The answer to an event that went through: where the instance stands now."""

    instance: str
    chart: str
    version: int
    seq: int
    status: str
    states: tuple[str, ...]
    ended: bool = False

    def __str__(self) -> str:
        """Where the instance stands."""
        return f"{self.instance} is in {' + '.join(self.states)}"

    def unwrap(self) -> Receipt:
        """The receipt itself: for callers who know that the event must go through."""
        return self


Answer = Receipt | Refusal


class Answered(Value):
    """An answer as it is stored for a request id."""

    receipt: Receipt | None = None
    refusal: Refusal | None = None


def answer_text(answer: Answer) -> str:
    """An answer as text."""
    if isinstance(answer, Receipt):
        return encode(Answered(receipt=answer)).decode()
    return encode(Answered(refusal=answer)).decode()


def answer_of(text: str) -> Answer:
    """The answer that a text holds."""
    answered = decode(Answered, text)
    answer = answered.receipt or answered.refusal
    if answer is None:
        raise EngineError(f"not an answer: {text}")
    return answer


class Creation(Plain):
    """What a new instance begins with."""

    chart: str
    context: Mapping[str, Any] | None = None
    by: Actor = SYSTEM
    seed: int = 0
    parent: str | None = None
    depth: int = 0


class Upgrading(Value):
    """An instance becomes one of another version; with the record of an upgrade, of the one before it.

    `acted` is who did what only the new version wants to know.
    """

    to: int
    by: Actor = SYSTEM
    reason: str | None = None
    acted: dict[str, tuple[str, ...]] = {}
    record: UpgradeRecord | None = None


class Order(Scratch):
    """One call to the engine: an event for an instance, its creation, or its change to another version.

    What `cascades` is a cancellation that the instance's children get too. A request id that does not
    keep refusals can be used again after one. An `unnamed` creation has an id that was made up for it: it is
    no part of what was asked. `trace` goes along with what follows from the call.
    """

    key: Key
    act: Event | Creation | Upgrading
    request_id: str | None = None
    lasts: timedelta = HOUR
    expected_seq: int | None = None
    cascades: bool = False
    unnamed: bool = False
    keeps_refusals: bool = True
    answer: Answer | None = None
    error: BaseException | None = None
    replayed: bool = False
    body: str = ""
    trace: str | None = None

    def fingerprint(self) -> str:
        """A text of what was asked, which shows when a request id is used again with another body."""
        if not self.body:
            expected = NO_SEQ if self.expected_seq is None else self.expected_seq
            name = "" if self.unnamed else self.key[1]
            asked = (name, self.act, expected, *([CASCADES] if self.cascades else []))
            self.body = fingerprint(asked).decode()
        return self.body

    def digest(self) -> str:
        """The same as a hash, so that the stored value reveals nothing of the call."""
        return sha256(self.fingerprint().encode()).hexdigest()

    def require_json(self) -> None:
        """Raises InputError when what is brought along would not come back as it is."""
        if "null" in self.fingerprint() and not isinstance(self.act, Upgrading):
            require_finite(self.act.context if isinstance(self.act, Creation) else self.act.data)


def own_id(kind: str, request_id: str, part: str | int) -> str:
    """The request id of one part of a call; no other request id, and no other part, makes the same."""
    return f"{kind}/{sha256(encode((request_id, part))).hexdigest()}"


def parent_named(name: str) -> str | None:
    """The parent whose child an instance of this name is: it is named after it, and nobody else may be."""
    child = CHILD.fullmatch(name)
    return None if child is None else child[1]


def lineage(key: Key) -> list[Key]:
    """An instance and all above it, by their names."""
    above = [key]
    while (parent := parent_named(above[-1][1])) is not None:
        above.append((key[0], parent))
    return above


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
    if value.kind != "system":  # ids of system actors may contain ids of instances
        require_id(f"the id of the actor {word}=", value.id)
    require_roles(value)


def require_roles(actor: Actor) -> None:
    """Raises InputError for a role that stands for a person, such as `{owner}`: the chart resolves those."""
    for role in actor.roles:
        if role[:1] in STANDS_FOR_A_PERSON:
            require_role(role)


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
    """A duration; raises InputError for an invalid one."""
    try:
        return timedelta(milliseconds=milliseconds(duration))
    except ValueError as error:
        raise InputError(str(error)) from error


def traceparent(text: str | None) -> str | None:
    """A header's text if it is a `traceparent`; else None, as the standard asks for."""
    return text if text is not None and TRACEPARENT.fullmatch(text) else None


@contextmanager
def tracing(trace: str | None) -> Iterator[None]:
    """Let what runs in a block belong to a trace."""
    token = CURRENT.set(trace)
    try:
        yield
    finally:
        CURRENT.reset(token)
