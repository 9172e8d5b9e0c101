"""For operators: letters that destinations have not taken, and how far each destination is behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import Query

from headway.api.bodies import NO_NUL, RequestBody, ResponseBody
from headway.api.cursors import CursorCipher, cursor_place, cursor_text, fitting_rows, id_of
from headway.api.idempotency import stored_json
from headway.api.operations.work import DryRun, Name, OfInstance
from headway.api.parameters import PER_PAGE, Cipher, Cursor, Here, Keyed, Limit, Who, Yes, needs
from headway.api.route import Router
from headway.codec import Meta
from headway.engine.requests import Repeatable, Request
from headway.engine.service import LOG
from headway.node import Node
from headway.store.rows import LetterRow

LETTERS = "letters"
SAMPLE = 10
MOST_LETTERS = 1_000
MOST_COUNTED = 1_000
"""Letters of a tenant are counted up to here."""

router = Router(prefix="/v1/operations", tags=["operations"], dependencies=[needs("operate")])

OfDestination = Annotated[
    str | None,
    Query(description="Only those for this destination.", max_length=400, pattern=NO_NUL),
]


class Letter(ResponseBody):
    """A message that a destination has not taken."""

    id: str
    destination: str
    instance: str
    kind: str
    name: str
    at: Annotated[datetime, Meta(description="When it was sent.")]
    attempts: int
    due: Annotated[datetime, Meta(description="When it is tried again, unless it is dead.")]
    error: Annotated[str, Meta(description="Why it was not taken the last time.")]
    dead: bool


class LettersPage(ResponseBody):
    """A page of letters, in the order of their messages."""

    items: list[Letter]
    next: str | None


class RedriveBody(RequestBody):
    """Which dead letters to try again: those that fit all that is given."""

    destination: Name | None = None
    instance: Name | None = None
    ids: Annotated[list[Name], Meta(max_length=MOST_LETTERS)] = []
    limit: Annotated[int, Meta(ge=1, le=MOST_LETTERS)] = MOST_LETTERS
    dry_run: DryRun = True


class DiscardBody(RedriveBody, kw_only=True):
    """Which dead letters of a destination to give up for good, or which that wait."""

    destination: Name
    waiting: Annotated[bool, Meta(description="Those that wait instead of dead ones.")] = False


class LettersChanged(ResponseBody):
    """How many letters it was, or would be."""

    dry_run: bool
    count: int
    more: Annotated[bool, Meta(description="There were more than the limit: call again for the rest.")]
    sample: Annotated[list[Letter], Meta(description="The first of them.")]


class DestinationShown(ResponseBody):
    """A destination, as far as the caller's tenant is concerned."""

    name: str
    served_here: Annotated[bool, Meta(description="This process has it among its destinations.")]
    lag_seconds: Annotated[
        float | None, Meta(description="How long the next message has waited; null if not known here.")
    ]
    waiting: Annotated[int, Meta(description="Letters that will be tried again.")]
    dead: Annotated[int, Meta(description="Letters that will not.")]
    complete: Annotated[bool, Meta(description="False when there are more letters than were counted.")]


class Destinations(ResponseBody):
    """All destinations that have something for the tenant, or may get it."""

    items: list[DestinationShown]
    next: None = None


@router.get("/letters", operation_id="list_letters")
async def list_letters(
    node: Here,
    caller: Who,
    cipher: Cipher,
    *,
    destination: OfDestination = None,
    instance: OfInstance = None,
    dead: Annotated[Yes | None, Query(description="Only dead ones, or those that are tried again.")] = None,
    cursor: Cursor = None,
    limit: Limit = PER_PAGE,
) -> LettersPage:
    """What destinations have not taken of the caller's tenant, in the order of the messages."""
    wanted: dict[str, Any] = {"destination": destination, "instance": instance, "dead": dead}
    rows: list[LetterRow] = []
    after = 0
    if cursor is not None:
        after, last = _place(cursor, cipher)
        shared = await node.letters.list(caller.tenant, **wanted, after=after - 1, limit=1)
        rows = [row for row in shared if row.position == after and row.destination > last]
    rows += await node.letters.list(caller.tenant, **wanted, after=after, limit=limit + 1)
    count = fitting_rows(rows[:limit])
    following = _cursor(rows[count - 1], cipher) if len(rows) > count else None
    return LettersPage(items=[_letter(row) for row in rows[:count]], next=following)


@router.post("/letters/redrive", operation_id="redrive_letters")
async def redrive_letters(body: RedriveBody, node: Here, caller: Who, keyed: Keyed) -> LettersChanged:
    """Try dead letters again at once, with all their attempts. A dry run unless `dry_run` is false."""
    found = await _letters(node, caller.tenant, body, dead=True)
    if body.dry_run:
        return _changed(body, found, min(len(found), body.limit))
    once = _once(body, found, keyed)
    count = await node.letters.redrive(caller.tenant, **_wanted(body), limit=body.limit, once=once)
    LOG.info("%s has had %d dead letters of %s tried again", caller.actor.id, count, caller.tenant)
    for relay in node.relays:
        relay.wake()
    await node.engine.store.announce(["messages"])
    return _changed(body, found, count)


@router.post("/letters/discard", operation_id="discard_letters")
async def discard_letters(body: DiscardBody, node: Here, caller: Who, keyed: Keyed) -> LettersChanged:
    """Delete dead letters of a destination, or letters that wait. A dry run unless `dry_run` is false."""
    found = await _letters(node, caller.tenant, body, dead=not body.waiting)
    if body.dry_run:
        return _changed(body, found, min(len(found), body.limit))
    wanted: dict[str, Any] = {**_wanted(body), "destination": body.destination, "waiting": body.waiting}
    once = _once(body, found, keyed)
    count = await node.letters.discard(caller.tenant, **wanted, limit=body.limit, once=once)
    LOG.info(
        "%s has discarded %d letters of %s for %s, %s",
        *(caller.actor.id, count, caller.tenant, body.destination, "waiting" if body.waiting else "dead"),
    )
    return _changed(body, found, count)


@router.get("/destinations", operation_id="list_destinations")
async def list_destinations(node: Here, caller: Who) -> Destinations:
    """Where messages of the caller's tenant go, and what waits or is dead there."""
    letters = await node.letters.list(caller.tenant, dead=None, limit=MOST_COUNTED)
    counts = Counter((row.destination, row.dead) for row in letters)
    served = {
        relay.destination.name: relay
        for relay in node.relays
        if relay.destination.filter.tenant in {None, caller.tenant}
    }
    items = [
        DestinationShown(
            name=name,
            served_here=name in served,
            lag_seconds=await served[name].lag(caller.tenant) if name in served else None,
            waiting=counts[name, False],
            dead=counts[name, True],
            complete=len(letters) < MOST_COUNTED,
        )
        for name in sorted({*served, *(row.destination for row in letters)})
    ]
    return Destinations(items=items)


def _cursor(row: LetterRow, cipher: CursorCipher) -> str:
    return cursor_text(LETTERS, (cipher.close(LETTERS, row.position), row.destination))


def _place(cursor: str, cipher: CursorCipher) -> tuple[int, str]:
    position, destination = cursor_place(LETTERS, tuple[str, str], cursor)
    return cipher.open(LETTERS, position)[0], id_of(destination)


def _wanted(body: RedriveBody) -> dict[str, Any]:
    return {"destination": body.destination, "instance": body.instance, "ids": body.ids}


async def _letters(node: Node, tenant: str, body: RedriveBody, *, dead: bool) -> Sequence[LetterRow]:
    """The letters that a body names, and one more if there are more than its limit."""
    return await node.letters.list(tenant, **_wanted(body), dead=dead, limit=body.limit + 1)


def _once(body: RedriveBody, found: Sequence[LetterRow], keyed: Request | None) -> Repeatable[int] | None:
    return (
        None if keyed is None else Repeatable(keyed, lambda count: stored_json(_changed(body, found, count)))
    )


def _changed(body: RedriveBody, found: Sequence[LetterRow], count: int) -> LettersChanged:
    return LettersChanged(
        dry_run=body.dry_run,
        count=count,
        more=len(found) > body.limit,
        sample=[_letter(row) for row in found[:SAMPLE]],
    )


def _letter(row: LetterRow) -> Letter:
    return Letter(**{name: getattr(row, name) for name in Letter.__struct_fields__})
