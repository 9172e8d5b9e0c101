"""Asks: inboxes, claims, delegations, answers, and signed links that answer without a login."""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from logging import getLogger
from typing import Any, NamedTuple

from headway.codec import Value, decode, encode, replace
from headway.engine.commit import stored_snapshot
from headway.engine.engine import Engine
from headway.engine.orders import Answer, lasting, require_actor, require_number, require_text, require_texts
from headway.errors import (
    HeadwayError,
    InputError,
    LinkError,
    RequestReusedError,
    UnknownAskError,
    UnknownInstanceError,
)
from headway.statechart.explain import answers_open_to
from headway.statechart.identity import require_role, same_id
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import (
    Actor,
    Event,
    claim_ask,
    delegate_ask,
    is_reserved,
    release_ask,
)
from headway.statechart.step.asks import HOLDING
from headway.store.queries import AskQuery
from headway.store.rows import AskRow, InstanceRow, Key

LOG = getLogger("headway")
MOST_READ = 1_000
"""How many asks are read for one page: those that an actor is barred from are read and not shown."""


class AskPage(NamedTuple):
    """Some asks, and the id of the last one that was read if there may be more."""

    asks: list[AskRow]
    next: str | None


class Inbox:
    """Reads the inboxes of an engine's tenants."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._unreadable: set[Key] = set()

    async def page(self, tenant: str, actor: Actor, after: str | None, limit: int) -> AskPage:
        """At most `limit` asks, the oldest first; a page may be short though there is a next one."""
        found: list[AskRow] = []
        read = 0
        while True:
            rows = await self._named(tenant, actor, after, limit + 1)
            answers = await self.answers(rows, actor)
            for row in rows:
                if len(found) == limit:
                    return AskPage(found, after)
                after = row.id
                if answers[row.id]:
                    found.append(replace(row, answers=answers[row.id]))
            read += len(rows)
            if len(rows) <= limit:
                return AskPage(found, None)
            if read >= MOST_READ:
                return AskPage(found, after)

    async def answers(self, rows: Sequence[AskRow], actor: Actor) -> dict[str, tuple[str, ...]]:
        """By ask: the answers that roles, delegation and duties leave open to an actor."""
        keys = {(row.tenant, row.instance) for row in rows if row.closed_at is None}
        instances = await self._engine.store.instances.look_up(keys) if keys else ()
        known = {(row.tenant, row.id): row for row in instances}
        return {
            row.id: await self._open_to(row, known.get((row.tenant, row.instance)), actor) for row in rows
        }

    async def _named(self, tenant: str, actor: Actor, after: str | None, limit: int) -> Sequence[AskRow]:
        roles = () if actor.own else tuple(sorted(actor.roles))
        query = AskQuery(tenant=tenant, roles=roles, person=actor.id, after=after, limit=limit)
        return await self._engine.store.asks.page(query)

    async def _open_to(self, row: AskRow, instance: InstanceRow | None, actor: Actor) -> tuple[str, ...]:
        if instance is None or row.closed_at is not None:
            return ()
        chart = await self._engine.visibility.chart(instance)
        if chart is None:
            # A chart that nobody has stored says nothing about duties, nor whose an instance is.
            return () if actor.own else row.answers
        try:
            return answers_open_to(chart, stored_snapshot(instance), row.id, actor)
        except InputError as error:  # its chart was changed under its version: one must not hide the others
            self._warn_once(instance, error)
            return ()

    def _warn_once(self, instance: InstanceRow, error: InputError) -> None:
        key = (instance.tenant, instance.id)
        if key not in self._unreadable and len(self._unreadable) < MOST_READ:
            self._unreadable.add(key)
            LOG.warning("the asks of %s are in no inbox: %s", instance.id, error)


SHORTEST_SECRET = 16
LONGEST_TOKEN = 4_000
MARK = b"headway link 1:"


class Link(Value):
    """What a link allows: this person, in these roles, answers this ask until then."""

    tenant: str
    ask: str
    opened_at: datetime
    by: Actor
    expires_at: datetime
    nonce: str

    @property
    def request_id(self) -> str:
        """The request id of the link's one use: a double click gets the first answer again."""
        return f"link:{self.nonce}"


class Signer:
    """Makes links and reads them. The first secret signs; all are accepted, so that one can be replaced."""

    def __init__(self, secrets_: Sequence[str]) -> None:
        if not secrets_ or min(map(len, secrets_)) < SHORTEST_SECRET:
            raise LinkError(f"links need a secret of at least {SHORTEST_SECRET} characters")
        self._keys = [secret.encode() for secret in secrets_]

    def sign(self, ask: AskRow, by: Actor, expires_at: datetime) -> str:
        """A token that allows one answer to an ask, and to no later one of the same id.

        Raises InputError when names and roles are too long for one.
        """
        nonce = secrets.token_urlsafe(12)
        link = Link(ask.tenant, ask.id, ask.opened_at, by, expires_at=expires_at, nonce=nonce)
        body = encode(link)
        token = f"{_text(body)}.{_text(_signature(self._keys[0], body))}"
        if len(token) > LONGEST_TOKEN:
            raise InputError("names and roles are too long for a link")
        return token

    def read(self, token: str, now: datetime) -> Link:
        """What a token allows; raises LinkError when it is forged or has run out."""
        link = self._verified(token)
        if link.expires_at <= now:
            raise LinkError("the link has expired")
        return link

    def _verified(self, token: str) -> Link:
        body, _, signature = token.partition(".") if len(token) <= LONGEST_TOKEN else ("", "", "")
        try:
            raw, given = _bytes(body), _bytes(signature)
        except ValueError as error:
            raise LinkError("not a link") from error
        if not any(hmac.compare_digest(_signature(key, raw), given) for key in self._keys):
            raise LinkError("this link was not issued here")
        try:
            return decode(Link, raw)
        except HeadwayError as error:
            raise LinkError("not a link of this version") from error


def _signature(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, MARK + body, sha256)


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))


CLAIM_LASTS = "15m"
LINK_LASTS = "7d"
STEP_AND_EFFECT = 2


class Asks:
    """The asks of an engine. Every change is an event that the engine sends, so the chart decides it."""

    def __init__(self, engine: Engine, secrets: Sequence[str] = ()) -> None:
        """`secrets` sign the links: the first one signs, all are accepted."""
        if isinstance(secrets, str):
            raise InputError("secrets must be a list of strings")
        self._engine = engine
        self._inbox = Inbox(engine)
        self._signer_or_none = Signer(secrets) if secrets else None

    async def inbox(
        self, tenant: str, actor: Actor, *, after: str | None = None, limit: int = 100
    ) -> Sequence[AskRow]:
        """The open asks that an actor may answer, each with the answers they may give; the oldest first."""
        page = await self.inbox_page(tenant, actor, after=after, limit=limit)
        found = page.asks
        while page.next is not None and len(found) < limit:
            page = await self.inbox_page(tenant, actor, after=page.next, limit=limit - len(found))
            found += page.asks
        return found

    async def inbox_page(
        self, tenant: str, actor: Actor, *, after: str | None = None, limit: int = 100
    ) -> AskPage:
        """The same, but bounded in what it reads: a page may be short though there is a next one."""
        require_actor("actor", actor)
        require_texts(after=after)
        require_number("limit", limit, least=1)
        return await self._inbox.page(tenant, actor, after, limit)

    async def yours(self, ask: AskRow, actor: Actor) -> tuple[str, ...]:
        """The answers to an open ask that roles, delegation and duties leave open to an actor."""
        require_actor("actor", actor)
        return (await self._inbox.answers([ask], actor))[ask.id]

    async def of_instance(self, tenant: str, instance: str, *, limit: int = 100) -> Sequence[AskRow]:
        """The open asks of an instance."""
        return await self._engine.store.asks.page(AskQuery(tenant=tenant, instance=instance, limit=limit))

    async def get(self, tenant: str, ask: str) -> AskRow:
        """One ask, open or closed; raises UnknownAskError."""
        require_text("ask", ask)
        row = await self._engine.store.asks.get((tenant, ask))
        if row is None:
            raise UnknownAskError(f"there is no ask {ask}")
        return row

    async def form(self, ask: AskRow) -> dict[str, Any] | None:
        """The JSON Schema of what an answer carries; None when it carries nothing."""
        if ask.form is None:
            return None
        row = await self._engine.row(ask.tenant, ask.instance)
        return self._engine.charts.chart(row.chart, row.version).types[ask.form].schema()

    async def claim(
        self, tenant: str, ask: str, *, by: Actor, lasts: str = CLAIM_LASTS, request_id: str | None = None
    ) -> Answer:
        """Take an ask on: nobody else can answer it until the claim is released or has run out."""
        return await self._send(tenant, ask, claim_ask(ask, lasting(lasts), by), request_id)

    async def release(self, tenant: str, ask: str, *, by: Actor, request_id: str | None = None) -> Answer:
        """Give a claim or a delegation back."""
        return await self._send(tenant, ask, release_ask(ask, by), request_id)

    async def delegate(
        self, tenant: str, ask: str, *, to: str, by: Actor, request_id: str | None = None
    ) -> Answer:
        """Pass an ask on to a person, who alone may answer it then."""
        require_text("to", to)
        return await self._send(tenant, ask, delegate_ask(ask, to, by), request_id)

    async def answer(
        self,
        tenant: str,
        ask: str,
        answer: str = "answer",
        data: Any = None,
        *,
        by: Actor,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Answer:
        """Answer an ask by one of its answers; late and second answers get what the chart says."""
        require_text("answer", answer)
        if answer in HOLDING:
            raise InputError(f"{answer} is not an answer")
        event = Event(answer, data, by=by, ref=ask, reason=reason)
        return await self._send(tenant, ask, event, request_id)

    async def link(self, tenant: str, ask: str, *, for_: Actor, lasts: str = LINK_LASTS) -> str:
        """A signed token by which one person answers one ask once, without a login."""
        require_actor("for_", for_)
        if is_reserved(for_):
            raise InputError(f"the actor {for_.id} is reserved for the engine")
        for role in for_.roles:
            require_role(role)
        span = lasting(lasts)
        row = await self.get(tenant, ask)
        if row.closed_at is not None:
            raise LinkError(f"the ask {ask} is closed")
        return self._signer().sign(row, for_, await self._engine.store.now() + span)

    async def open_link(self, token: str) -> tuple[Link, AskRow]:
        """What a token is for; raises LinkError when it is forged or has run out."""
        link = self._signer().read(token, await self._engine.store.now())
        row = await self.get(link.tenant, link.ask)
        if row.opened_at != link.opened_at:
            raise LinkError("the link is for an earlier ask of the same id")
        return link, row

    async def answer_link(self, token: str, answer: str = "answer", data: Any = None) -> Answer:
        """Answer by a token. The same answer again gets the first reply; another one raises LinkError."""
        now = await self._engine.store.now()
        link = self._signer().read(token, now)
        if answer in HOLDING:
            raise LinkError("a link can only be used to answer")
        ask = await self.get(link.tenant, link.ask)
        if ask.opened_at != link.opened_at:
            raise LinkError("the link is for an earlier ask of the same id")
        event = Event(answer, data, by=link.by, ref=link.ask)
        try:
            return await self._send(
                link.tenant,
                link.ask,
                event,
                link.request_id,
                lasts=link.expires_at - now,
                keeps_refusals=False,  # who has mistyped may try again
            )
        except RequestReusedError as error:
            raise LinkError("the link was used for another answer") from error

    def _signer(self) -> Signer:
        if self._signer_or_none is None:
            raise LinkError("links need a secret: set link_secrets")
        return self._signer_or_none

    async def _send(
        self, tenant: str, ask: str, event: Event, request_id: str | None, **options: Any
    ) -> Answer:
        instance = _instance_of(ask)
        try:
            answer = await self._engine.send(tenant, instance, event, request_id=request_id, **options)
        except UnknownInstanceError as error:  # the chart may hide the instance from who asks
            raise UnknownAskError(f"there is no ask {ask}") from error
        if isinstance(answer, Refusal):
            await self.get(tenant, ask)  # to one that never was, "no longer open" is no answer
        return answer


def is_answered_by(ask: AskRow, actor: Actor) -> bool:
    """Whether an ask was closed by an answer of this actor, who may go on to read it."""
    return same_id(ask.closed_by, actor.id) and ask.closed_event in ask.answers


def _instance_of(ask: str) -> str:
    """Whose ask it is: an ask's id is the instance, the step and the effect that opened it."""
    require_text("ask", ask)
    instance, *rest = ask.rsplit(":", 2)
    if len(rest) != STEP_AND_EFFECT:
        raise UnknownAskError(f"there is no ask {ask}")
    return instance
