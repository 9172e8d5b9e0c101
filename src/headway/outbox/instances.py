"""Messages from instance to instance: each is sent as an event, once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any

from headway.codec import from_data, replace
from headway.engine.engine import Engine
from headway.engine.orders import CURRENT, Answer, parent_named, tracing
from headway.engine.service import LOG
from headway.errors import (
    EngineError,
    HeadwayError,
    InputError,
    NotHereError,
    PermanentError,
    RequestReusedError,
    TooLargeError,
    UnfinishedError,
    UnknownInstanceError,
    UnknownVersionError,
)
from headway.outbox.destination import SOON, DeliveryPolicy, MessageFilter
from headway.outbox.message import Message
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import INSTANCE, SYSTEM, Actor, Event
from headway.store.queries import InstanceQuery

CHILDREN = "children"
PAGE = 500
LONGEST_PART = 2.0
"""Seconds after which other messages are delivered before more children get the event."""
REMEMBERED = timedelta(days=30)
"""How long requests are remembered: longer than any message is retried, so that none takes effect twice."""
OVER = frozenset({"terminal", "already"})
NOT_WAITING = OVER | {"illegal", "unknown_event"}
"""Refusals that are no failure for a message to all children: they are in different states and charts."""
HOPELESS = (UnknownInstanceError, TooLargeError, RequestReusedError, InputError)

Part = tuple[str | None, Counter[str]]
"""The last child that got the event, and the reasons of refusals so far."""
Call = Callable[[str], Awaitable[Answer]]
"""Sends the event to one receiver, or cancels it."""


class InstanceDestination:
    """Sends each message as an event, once, however often it is delivered.

    To one instance: a refusal is ignored if the receiver has ended, is already where the event leads, or no
    longer waits for the attempt that the event reports; any other refusal makes a dead letter. To all
    `children`: live children that do not wait for the event are skipped; if others refuse it, the message is
    a dead letter after all of them got it. Very many children are served in parts, with other messages
    between them.
    """

    name = "instances"
    filter = MessageFilter(("deliver",))
    policy = DeliveryPolicy(begins="first", at_once=64, backoff=SOON)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.tally: Counter[str] = Counter()
        self.longest_part = LONGEST_PART
        self._parts: dict[str, Part] = {}

    async def deliver(self, message: Message) -> None:
        """Send the event.

        Raises PermanentError if the receiver refuses it or does not exist, NotHereError if this node does not
        know its version, and UnfinishedError if there are more children.
        """
        data = message.data
        if not isinstance(data, dict) or not isinstance(data.get("to"), str):
            raise PermanentError("the message names no receiver")
        call = self._cancelling(message, data) if data.get("cancel") else self._sending(message, data)
        try:
            with tracing(CURRENT.get() or message.trace):
                if data["to"] == CHILDREN:
                    await self._send_to_children(message, call, _last_step(message, data))
                else:
                    await self._send_to(message, data["to"], call)
        except UnknownVersionError as error:
            raise NotHereError(str(error), (error.chart, error.version)) from error

    async def close(self) -> None:
        """Nothing to close: the engine belongs to the node."""

    def _sending(self, message: Message, data: dict[str, Any]) -> Call:
        by = from_data(Actor, data["by"]) if "by" in data else sender(message.instance)
        event = Event(message.name, data.get("data"), by, data.get("ref"), data.get("attempt", 0))
        return lambda to: self._engine.send(
            message.tenant,
            to,
            event,
            request_id=data.get("request") or _request(message, to),
            lasts=REMEMBERED,
            keeps_refusals=False,
        )

    def _cancelling(self, message: Message, data: dict[str, Any]) -> Call:
        """Cancel on behalf of the actor who cancelled the parent, with the roles of the system added."""
        by = from_data(Actor, data["by"]) if "by" in data else sender(message.instance)
        by = Actor(id=by.id, kind=by.kind, roles=by.roles | SYSTEM.roles)
        return lambda to: self._engine.cancel(
            message.tenant,
            to,
            by=by,
            reason=f"{message.instance} was cancelled",
            request_id=_request(message, to),
            lasts=REMEMBERED,
            keeps_refusals=False,
        )

    async def _send_to(self, message: Message, to: str, call: Call) -> None:
        try:
            answer = await call(to)
        except HOPELESS as error:
            if isinstance(error, UnknownInstanceError) and to == parent_named(message.instance):
                self.tally["dropped"] += 1  # the parent has ended and was pruned
                return
            raise PermanentError(_reason(error)) from error
        if not isinstance(answer, Refusal):
            self.tally["sent"] += 1
        elif answer.code in OVER or (answer.code == "stale" and "attempt" in message.data):
            self.tally["dropped"] += 1
        else:
            self.tally["refused"] += 1
            raise PermanentError(f"{to} refused it: {_reason(answer)}")

    async def _send_to_children(self, message: Message, call: Call, last: int) -> None:
        """Send to live children that were spawned by the parent's steps up to `last`, page by page."""
        time = asyncio.get_running_loop().time
        until = time() + self.longest_part
        after, refused = self._parts.get(message.id, (None, Counter()))
        query = InstanceQuery(tenant=message.tenant, parent=message.instance, ended=False, limit=PAGE)
        while True:
            children = await self._engine.list(replace(query, after=after))
            there = [child.id for child in children if _step(child.id) <= last]
            refused = refused + await self._send_to_page(there, call)
            if len(children) < PAGE:
                break
            after = children[-1].id
            self._parts[message.id] = after, refused
            if time() >= until:
                raise UnfinishedError("there are more children")
        self._parts.pop(message.id, None)
        if refused:
            reasons = "; ".join(f"{count} × {reason}" for reason, count in refused.most_common(3))
            raise PermanentError(f"{refused.total()} children refused it: {reasons}")

    async def _send_to_page(self, children: Sequence[str], call: Call) -> Counter[str]:
        """Send to a page of children; answers with the reasons of refusals that count."""
        answers = await asyncio.gather(*map(call, children), return_exceptions=True)
        reasons = [self._objection(child, answer) for child, answer in zip(children, answers, strict=True)]
        return Counter(reason for reason in reasons if reason is not None)

    def _objection(self, child: str, answer: Answer | BaseException) -> str | None:
        """The reason of a refusal that counts; None if the child accepted the event or may ignore it."""
        if isinstance(answer, UnknownInstanceError) or getattr(answer, "code", None) in NOT_WAITING:
            self.tally["dropped"] += 1
            return None
        if isinstance(answer, (Refusal, *HOPELESS)) or type(answer) is EngineError:
            self.tally["refused"] += 1
            LOG.warning("instances: %s: %s", child, _reason(answer))
            return _reason(answer)
        if isinstance(answer, BaseException):
            raise answer
        self.tally["sent"] += 1
        return None


def sender(instance: str) -> Actor:
    """An instance as an actor: it has the roles of the system, and an id that no person can have."""
    return Actor(id=f"{INSTANCE}{instance}", kind="system", roles=SYSTEM.roles)


def _request(message: Message, to: str) -> str:
    """A request id for a message and a receiver, whose name may be long."""
    return f"deliver:{message.id}:{sha256(to.encode()).hexdigest()[:32]}"


def _last_step(message: Message, data: dict[str, Any]) -> int:
    """The last step of the parent whose children get a message.

    A cancellation is not sent to the children of its own step: they do the cleanup.
    """
    sent = _step(message.effect)
    return sent - 1 if data.get("cancel") else sent


def _step(name: str) -> int:
    """The parent's step in which a child was spawned or a message sent: it is part of both ids.

    Times would not do: the clock of a database may be set back between the two.
    """
    return int(name.rsplit(":", 2)[1])


def _reason(answer: Refusal | HeadwayError) -> str:
    if isinstance(answer, Refusal):
        return f"{answer.code}: {answer.message}"
    return f"{type(answer).__name__}: {answer}"
