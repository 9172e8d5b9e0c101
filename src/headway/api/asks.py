"""Asks: the caller's inbox, and the ways to take an ask on, give it back, pass it on and answer it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Path
from starlette.responses import Response

from headway.api.access import Caller, readable_row
from headway.api.bodies import NO_NUL, ActorId, RequestBody, ResponseBody, wrong
from headway.api.call import HttpCall
from headway.api.cursors import cursor_place, cursor_text, fitting_rows
from headway.api.idempotency import secret_shown
from headway.api.instances import Standing, standing_reply
from headway.api.keyring import MOST_ROLES
from headway.api.parameters import PER_PAGE, Cursor, Here, Limit, RequestId, Who, needs
from headway.api.problems import Problem
from headway.api.route import Router
from headway.codec import Meta, decode
from headway.engine.asks import CLAIM_LASTS, LINK_LASTS, is_answered_by
from headway.engine.orders import DAY
from headway.engine.requests import store_answer
from headway.errors import InputError, LinkError, UnknownAskError, UnknownInstanceError
from headway.node import Node
from headway.statechart.people import AUDIENCE
from headway.statechart.snapshot import Actor, is_reserved
from headway.store.rows import AskRow

router = Router(prefix="/v1/asks", tags=["asks"])
links = Router(prefix="/v1/links", tags=["asks"])

Id = Annotated[str, Path(description="The ask's id.", max_length=400)]
Token = Annotated[str, Path(description="The token that a person was sent.", max_length=4_000)]
Text = Annotated[str, Meta(min_length=1, max_length=200, pattern=NO_NUL)]
AtMostADay = Annotated[
    str,
    Meta(
        pattern=r"^([1-9][0-9]{0,3}s|[1-9][0-9]{0,2}m|([1-9]|1[0-9]|2[0-4])h)(?!\n)$", examples=["15m", "2h"]
    ),
]
LinkLasts = Annotated[
    str, Meta(pattern=r"^([1-9][0-9]{0,4}(s|m|h)|[1-9][0-9]{0,2}d)(?!\n)$", examples=["12h", "2d"])
]
Reason = Annotated[str, Meta(max_length=10_000, pattern=NO_NUL)]


class AskShown(ResponseBody):
    """A question to people: what it shows them, what they may answer, who has taken it on."""

    id: str
    instance: str
    state: str
    roles: list[str]
    people: Annotated[list[str], Meta(description="The ids of people whom it asks by name.")]
    answers: list[str]
    shows: dict[str, Any]
    opened_at: datetime
    deadline: datetime | None
    claimed_by: str | None
    claimed_until: datetime | None
    delegated_to: str | None
    closed_at: datetime | None
    closed_by: str | None
    closed_event: str | None


class AskWithForm(AskShown):
    """An ask, and the JSON Schema of the data that an answer carries; none when it carries nothing."""

    form: dict[str, Any] | None
    yours: Annotated[
        list[str],
        Meta(
            description="The answers that roles, delegation and duties leave open to the caller. "
            "Without one the caller can neither claim nor delegate the ask. Claims and "
            "guards are checked when it is answered."
        ),
    ]


class InboxPage(ResponseBody):
    """A page of asks, the oldest first."""

    items: list[AskShown]
    next: str | None


class AskClaimBody(RequestBody):
    """For how long nobody else may answer."""

    lasts: Annotated[AtMostADay, Meta(description="A number with `s`, `m` or `h`; a day at most.")] = (
        CLAIM_LASTS
    )


class DelegationBody(RequestBody):
    """The delegate of an ask: the id of a person, who alone may answer then."""

    to: Annotated[ActorId, Meta(description="The person's id.")]


class AnswerBody(RequestBody):
    """One of the ask's answers, what its form asks for, and perhaps a reason."""

    answer: Annotated[Text, Meta(description="One of the ask's `answers`.")] = "answer"
    data: Annotated[Any, Meta(description="What the ask's `form` asks for.")] = None
    reason: Annotated[Reason | None, Meta(description="Why, for the history.")] = None


class NewLinkBody(RequestBody):
    """The person of a link, and how long it is valid."""

    person: Annotated[
        ActorId, Meta(description="The person's id: anyone who has the link answers as this person.")
    ]
    roles: Annotated[
        list[ActorId],
        Meta(max_length=MOST_ROLES),
        Meta(description="Those that the chart asks for. A few: they all stand in the link."),
    ] = []
    lasts: Annotated[LinkLasts, Meta(description="A number with `s`, `m`, `h` or `d`; 999 days at most.")] = (
        LINK_LASTS
    )


class NewLink(ResponseBody):
    """A link, as its token: anyone who has the token may open and answer the ask. It is shown only once."""

    ask: str
    person: str
    roles: list[str]
    expires_at: datetime
    token: str


class LinkAnswerBody(RequestBody):
    """One of the ask's answers, and what its form asks for."""

    answer: Annotated[Text, Meta(description="One of the ask's `answers`.")] = "answer"
    data: Annotated[Any, Meta(description="What the ask's `form` asks for.")] = None


class LinkShown(ResponseBody):
    """What a person is asked by a link, and until when the link is good."""

    person: str
    expires_at: datetime
    state: str
    answers: list[str]
    shows: dict[str, Any]
    form: dict[str, Any] | None
    deadline: datetime | None
    closed: bool


MOVED: dict[str, Any] = {"response_model": Standing, "dependencies": [needs("send", own=True)]}


@router.get("", operation_id="list_asks", dependencies=[needs("read", own=True)])
async def inbox(caller: Who, node: Here, cursor: Cursor = None, limit: Limit = PER_PAGE) -> InboxPage:
    """The open asks that the caller may answer, each with the answers that the caller may give.

    A page may hold fewer than `limit` though there is a `next` one.
    """
    after = None if cursor is None else cursor_place("asks", str, cursor)
    rows, last = await node.asks.inbox_page(caller.tenant, caller.actor, after=after, limit=limit)
    if (count := fitting_rows(rows)) < len(rows):
        rows, last = rows[:count], rows[count - 1].id
    more = None if last is None else cursor_text("asks", last)
    return InboxPage(items=[AskShown(**_ask(row)) for row in rows], next=more)


async def readable_ask(node: Node, caller: Caller, id: str) -> AskRow:  # noqa: A002 - the name in the path
    """An ask that the caller may read or answer; raises UnknownAskError, as for one that is not there."""
    row = await node.asks.get(caller.tenant, id)
    try:
        await readable_row(node.engine, caller, row.instance)
    except UnknownInstanceError as error:
        if not is_answered_by(row, caller.actor) and not await node.asks.yours(row, caller.actor):
            raise UnknownAskError(f"there is no ask {id}") from error
    return row


@router.get("/{id}", operation_id="get_ask", dependencies=[needs("read", own=True)])
async def get_ask(id: Id, caller: Who, node: Here) -> AskWithForm:  # noqa: A002 - the name in the path
    """One ask of the caller's tenant, open or closed, with its form."""
    row = await readable_ask(node, caller, id)
    form, yours = await node.asks.form(row), await node.asks.yours(row, caller.actor)
    return AskWithForm(**_ask(row), form=form, yours=[*yours])


@router.post("/{id}/claim", operation_id="claim_ask", **MOVED)
async def claim(
    id: Id,  # noqa: A002 - the name in the path
    caller: Who,
    node: Here,
    *,
    request_id: RequestId,
    body: AskClaimBody | None = None,
) -> Response:
    """Take an ask on: nobody else can answer it until it is released or the claim has run out."""
    lasts = (body or AskClaimBody()).lasts
    return standing_reply(
        await node.asks.claim(caller.tenant, id, by=caller.actor, lasts=lasts, request_id=request_id)
    )


@router.post("/{id}/release", operation_id="release_ask", **MOVED)
async def release(
    id: Id,  # noqa: A002 - the name in the path
    caller: Who,
    node: Here,
    request_id: RequestId,
) -> Response:
    """Give an ask back that the caller has claimed, or that was passed on to the caller."""
    return standing_reply(await node.asks.release(caller.tenant, id, by=caller.actor, request_id=request_id))


@router.post("/{id}/delegate", operation_id="delegate_ask", **MOVED)
async def delegate(
    id: Id,  # noqa: A002 - the name in the path
    body: DelegationBody,
    caller: Who,
    node: Here,
    *,
    request_id: RequestId,
) -> Response:
    """Pass an ask on to a person, who alone may answer it then."""
    return standing_reply(
        await node.asks.delegate(caller.tenant, id, to=body.to, by=caller.actor, request_id=request_id)
    )


@router.post("/{id}/answer", operation_id="answer_ask", **MOVED)
async def answer(
    id: Id,  # noqa: A002 - the name in the path
    body: AnswerBody,
    caller: Who,
    node: Here,
    *,
    request_id: RequestId,
) -> Response:
    """Answer an ask. The chart decides whether the caller may, and what late and second answers get."""
    return standing_reply(
        await node.asks.answer(
            caller.tenant,
            id,
            body.answer,
            body.data,
            by=caller.actor,
            reason=body.reason,
            request_id=request_id,
        )
    )


@router.post("/{id}/link", operation_id="make_link", status_code=201, dependencies=[needs("admin")])
async def make_link(
    id: Id,  # noqa: A002 - the name in the path
    body: NewLinkBody,
    caller: Who,
    node: Here,
    *,
    call: HttpCall,
) -> NewLink:
    """Make a link by which one person answers an open ask once, without a login.

    Its token is in this answer and nowhere else. Put it into a URL of your own.
    """
    row = await node.asks.get(caller.tenant, id)
    if row.closed_at is not None:
        raise Problem("late", f"the ask {id} is closed")
    person = Actor(body.person, "person", frozenset(body.roles))
    if is_reserved(person):
        raise wrong("body.person", "it is reserved for the engine")
    try:
        token = await node.asks.link(caller.tenant, id, for_=person, lasts=body.lasts)
        made, _ = await node.asks.open_link(token)
    except LinkError as error:
        raise Problem("not_possible", str(error)) from error
    except InputError as error:
        raise wrong("body.roles", str(error)) from error
    if call.keyed is not None:
        await store_answer(node.engine.store, call.keyed, secret_shown(call.path), DAY)
    return NewLink(
        ask=id, person=made.by.id, roles=sorted(made.by.roles), expires_at=made.expires_at, token=token
    )


@links.get("/{token}", operation_id="open_link")
async def open_link(token: Token, node: Here) -> LinkShown:
    """What a person is asked by a link; looking at it uses nothing up. The token is all it takes.

    Its `answers` are those that the person may give. While there are none, it shows no data and no form,
    unless the person has given the answer.
    """
    link, row = await node.asks.open_link(token)
    answers = await node.asks.yours(row, link.by)
    is_theirs = bool(answers) or is_answered_by(row, link.by)
    return LinkShown(
        person=link.by.id,
        expires_at=link.expires_at,
        state=row.state,
        answers=[*answers],
        shows=decode(dict[str, Any], row.shows) if is_theirs else {},
        form=await node.asks.form(row) if is_theirs else None,
        deadline=row.deadline,
        closed=row.closed_at is not None,
    )


@links.post("/{token}", operation_id="answer_link", response_model=Standing)
async def answer_link(token: Token, body: LinkAnswerBody, node: Here) -> Response:
    """Answer by a link, once: the same answer again gets the first reply, another one is refused."""
    return standing_reply(await node.asks.answer_link(token, body.answer, body.data))


def _ask(row: AskRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "instance": row.instance,
        "state": row.state,
        "roles": [each for each in row.roles if not each.startswith(AUDIENCE)],
        "people": [each.removeprefix(AUDIENCE) for each in row.roles if each.startswith(AUDIENCE)],
        "answers": [*row.answers],
        "shows": decode(dict[str, Any], row.shows),
        "opened_at": row.opened_at,
        "deadline": row.deadline,
        "claimed_by": row.claimed_by,
        "claimed_until": row.claimed_until,
        "delegated_to": row.delegated_to,
        "closed_at": row.closed_at,
        "closed_by": row.closed_by,
        "closed_event": row.closed_event,
    }
