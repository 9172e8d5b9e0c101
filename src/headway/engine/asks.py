"""Asks: what people are asked, and the ways in which they take it on, pass it on and answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from headway.engine import arguments
from headway.engine.engine import Engine
from headway.engine.links import Link, Signer
from headway.engine.orders import Answer
from headway.errors import InputError, LinkError, RequestReusedError, UnknownAskError
from headway.statechart.asks import HOLDING
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Actor, Event, delegate_ask, release_ask
from headway.store.port import AskQuery
from headway.store.rows import AskRow

CLAIM_LASTS = "15m"
LINK_LASTS = "7d"
STEP_AND_EFFECT = 2


class Asks:
    """The asks of an engine. Every change goes through the engine's one door, so the chart decides it."""

    def __init__(self, engine: Engine, secrets: Sequence[str] = ()) -> None:
        """`secrets` sign the links: the first one signs, all are accepted."""
        if isinstance(secrets, str):
            raise InputError("secrets is a list of texts")
        self._engine = engine
        self._signer_or_none = Signer(secrets) if secrets else None

    async def inbox(
        self, tenant: str, actor: Actor, *, after: str | None = None, limit: int = 100
    ) -> Sequence[AskRow]:
        """The open asks that an actor may answer, the oldest first: by a role, or by delegation."""
        arguments.require_actor("actor", actor)
        arguments.require_texts(after=after)
        arguments.require_number("limit", limit, least=1)
        roles = tuple(sorted(actor.roles))
        query = AskQuery(tenant=tenant, roles=roles, person=actor.id, after=after, limit=limit)
        return await self._engine.store.asks(query)

    async def of_instance(self, tenant: str, instance: str, *, limit: int = 100) -> Sequence[AskRow]:
        """The open asks of an instance."""
        return await self._engine.store.asks(AskQuery(tenant=tenant, instance=instance, limit=limit))

    async def get(self, tenant: str, ask: str) -> AskRow:
        """One ask, open or closed; raises UnknownAskError."""
        arguments.require_text("ask", ask)
        row = await self._engine.store.ask((tenant, ask))
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
        # For how long, not until when: a repeat of the request must be the same request.
        milliseconds = arguments.lasting(lasts) // timedelta(milliseconds=1)
        event = Event("ask.claim", {"lasts": milliseconds}, by=by, ref=ask)
        return await self._send(tenant, ask, event, request_id)

    async def release(self, tenant: str, ask: str, *, by: Actor, request_id: str | None = None) -> Answer:
        """Give a claim or a delegation back."""
        return await self._send(tenant, ask, release_ask(ask, by), request_id)

    async def delegate(
        self, tenant: str, ask: str, *, to: str, by: Actor, request_id: str | None = None
    ) -> Answer:
        """Pass an ask on to a person, who alone may answer it then."""
        arguments.require_text("to", to)
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
        arguments.require_text("answer", answer)
        if answer in HOLDING:
            raise InputError(f"{answer} is no answer")
        event = Event(answer, data, by=by, ref=ask, reason=reason)
        return await self._send(tenant, ask, event, request_id)

    async def link(self, tenant: str, ask: str, *, for_: Actor, lasts: str = LINK_LASTS) -> str:
        """A signed token by which one person answers one ask once, without a login."""
        arguments.require_actor("for_", for_)
        span = arguments.lasting(lasts)
        row = await self.get(tenant, ask)
        if row.closed_at is not None:
            raise LinkError(f"the ask {ask} is closed")
        return self._signer().sign(row, for_, await self._engine.store.now() + span)

    async def open_link(self, token: str) -> tuple[Link, AskRow]:
        """What a token is for; raises LinkError when it is forged or has run out."""
        link = self._signer().read(token, await self._engine.store.now())
        row = await self.get(link.tenant, link.ask)
        if row.opened_at != link.opened_at:
            raise LinkError("the link is for a question of an earlier life")
        return link, row

    async def answer_link(self, token: str, answer: str = "answer", data: Any = None) -> Answer:
        """Answer by a token. The same answer again gets the first reply; another one raises LinkError."""
        now = await self._engine.store.now()
        link = self._signer().read(token, now)
        if answer in HOLDING:
            raise LinkError("a link answers, and does nothing else")
        ask = await self.get(link.tenant, link.ask)
        if ask.opened_at != link.opened_at:
            raise LinkError("the link is for a question of an earlier life")
        event = Event(answer, data, by=link.by, ref=link.ask)
        try:
            return await self._engine.send(
                link.tenant,
                _instance_of(link.ask),
                event,
                request_id=link.request_id,
                lasts=link.expires_at - now,
                keeps_refusals=False,  # who has mistyped may try again
            )
        except RequestReusedError as error:
            raise LinkError("the link was used for another answer") from error

    def _signer(self) -> Signer:
        if self._signer_or_none is None:
            raise LinkError("links need a secret, the setting link_secrets: none was given")
        return self._signer_or_none

    async def _send(self, tenant: str, ask: str, event: Event, request_id: str | None) -> Answer:
        answer = await self._engine.send(tenant, _instance_of(ask), event, request_id=request_id)
        if isinstance(answer, Refusal):
            await self.get(tenant, ask)  # to one that never was, "no longer open" is no answer
        return answer


def _instance_of(ask: str) -> str:
    """Whose ask it is: an ask's id is the instance, the step and the effect that opened it."""
    arguments.require_text("ask", ask)
    instance, *rest = ask.rsplit(":", 2)
    if len(rest) != STEP_AND_EFFECT:
        raise InputError(f"not the id of an ask: {ask}")
    return instance
