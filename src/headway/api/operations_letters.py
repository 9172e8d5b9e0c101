"""For operators: letters that destinations have not taken, and how far each destination is behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Query

from headway.api import operations_shapes as shapes
from headway.api.call import (
    PER_PAGE,
    Cursor,
    Here,
    Keyed,
    Limit,
    Sealed,
    Who,
    Yes,
    fitting_rows,
    needs,
)
from headway.api.cursors import cursor_place, cursor_text
from headway.api.idempotency import stored_model
from headway.api.operations import OfInstance, id_of
from headway.api.route import Router
from headway.api.seals import Seal
from headway.engine.requests import Repeatable, Request
from headway.engine.service import LOG
from headway.node import Node
from headway.store.rows import LetterRow

LETTERS = "letters"
SAMPLE = 10
MOST_COUNTED = 1_000
"""Letters of a tenant are counted up to here."""

router = Router(prefix="/v1/operations", tags=["operations"], dependencies=[needs("operate")])

OfDestination = Annotated[
    str | None,
    Query(description="Only those for this destination.", max_length=400, pattern=shapes.NO_NUL),
]


@router.get("/letters", operation_id="list_letters")
async def list_letters(
    node: Here,
    caller: Who,
    seal: Sealed,
    *,
    destination: OfDestination = None,
    instance: OfInstance = None,
    dead: Annotated[Yes | None, Query(description="Only dead ones, or those that are tried again.")] = None,
    cursor: Cursor = None,
    limit: Limit = PER_PAGE,
) -> shapes.LettersPage:
    """What destinations have not taken of the caller's tenant, in the order of the messages."""
    wanted: dict[str, Any] = {"destination": destination, "instance": instance, "dead": dead}
    rows: list[LetterRow] = []
    after = 0
    if cursor is not None:
        after, last = _place(cursor, seal)
        shared = await node.letters.list(caller.tenant, **wanted, after=after - 1, limit=1)
        rows = [row for row in shared if row.position == after and row.destination > last]
    rows += await node.letters.list(caller.tenant, **wanted, after=after, limit=limit + 1)
    count = fitting_rows(rows[:limit])
    following = _cursor(rows[count - 1], seal) if len(rows) > count else None
    return shapes.LettersPage(items=[_letter(row) for row in rows[:count]], next=following)


@router.post("/letters/redrive", operation_id="redrive_letters")
async def redrive_letters(
    body: shapes.RedriveBody, node: Here, caller: Who, keyed: Keyed
) -> shapes.LettersChanged:
    """Have dead letters tried again at once, with all their attempts. A dry run, unless told otherwise."""
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
async def discard_letters(
    body: shapes.DiscardBody, node: Here, caller: Who, keyed: Keyed
) -> shapes.LettersChanged:
    """Give dead letters of a destination up for good, or some that wait. A dry run, unless told otherwise."""
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
async def list_destinations(node: Here, caller: Who) -> shapes.Destinations:
    """Where messages of the caller's tenant go, and what waits or is dead there."""
    letters = await node.letters.list(caller.tenant, dead=None, limit=MOST_COUNTED)
    counts = Counter((row.destination, row.dead) for row in letters)
    served = {
        relay.destination.name: relay
        for relay in node.relays
        if relay.destination.wants.tenant in {None, caller.tenant}
    }
    items = [
        shapes.DestinationShown(
            name=name,
            served_here=name in served,
            lag_seconds=await served[name].lag(caller.tenant) if name in served else None,
            waiting=counts[name, False],
            dead=counts[name, True],
            complete=len(letters) < MOST_COUNTED,
        )
        for name in sorted({*served, *(row.destination for row in letters)})
    ]
    return shapes.Destinations(items=items)


def _cursor(row: LetterRow, seal: Seal) -> str:
    return cursor_text(LETTERS, (seal.close(LETTERS, row.position), row.destination))


def _place(cursor: str, seal: Seal) -> tuple[int, str]:
    position, destination = cursor_place(LETTERS, tuple[str, str], cursor)
    return seal.open(LETTERS, position)[0], id_of(destination)


def _wanted(body: shapes.RedriveBody) -> dict[str, Any]:
    return {"destination": body.destination, "instance": body.instance, "ids": body.ids}


async def _letters(node: Node, tenant: str, body: shapes.RedriveBody, *, dead: bool) -> Sequence[LetterRow]:
    """The letters that a body names, and one more if there are more than its limit."""
    return await node.letters.list(tenant, **_wanted(body), dead=dead, limit=body.limit + 1)


def _once(
    body: shapes.RedriveBody, found: Sequence[LetterRow], keyed: Request | None
) -> Repeatable[int] | None:
    return (
        None if keyed is None else Repeatable(keyed, lambda count: stored_model(_changed(body, found, count)))
    )


def _changed(body: shapes.RedriveBody, found: Sequence[LetterRow], count: int) -> shapes.LettersChanged:
    return shapes.LettersChanged(
        dry_run=body.dry_run,
        count=count,
        more=len(found) > body.limit,
        sample=[_letter(row) for row in found[:SAMPLE]],
    )


def _letter(row: LetterRow) -> shapes.Letter:
    return shapes.Letter(**{name: getattr(row, name) for name in shapes.Letter.model_fields})
