"""API keys: make, list, look at, rotate and revoke them, and see how they were used."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path

from headway.api.bodies import NO_NUL, ActorId, Duration, RequestBody, ResponseBody
from headway.api.call import HttpCall
from headway.api.cursors import cursor_place, cursor_text, paged
from headway.api.idempotency import secret_shown
from headway.api.keyring import HIGHEST_RATE, LONGEST_TEXT, MOST_ROLES, OVERLAP, NewKey, Scope
from headway.api.parameters import PER_PAGE, Cursor, Door, Limit, Who, needs
from headway.api.route import Router
from headway.codec import Meta
from headway.engine.requests import Repeatable
from headway.statechart.snapshot import Actor
from headway.store.rows import KeyNoteRow, KeyRow

router = Router(prefix="/v1/keys", tags=["keys"], dependencies=[needs("admin")])

Id = Annotated[str, Path(description="The key's id: the part between `hw_` and its secret.", max_length=400)]


Overlap = Annotated[
    str, Meta(pattern=r"^(0s|[1-9][0-9]{0,4}(ms|s|m|h)|[1-9][0-9]{0,3}d)(?!\n)$", examples=["1h", "0s"])
]
Rate = Annotated[int, Meta(ge=1, le=HIGHEST_RATE)]


class KeyActor(ResponseBody):
    """The actor of calls with a key. Charts decide by kind and roles."""

    id: str
    kind: str
    roles: tuple[str, ...]


class NewKeyActor(RequestBody):
    """The actor of calls with a new key. `system` and `instance:…` are reserved for the engine."""

    id: Annotated[ActorId, Meta(description="Its id in histories.")]
    kind: Annotated[
        Literal["person", "agent", "service"],
        Meta(description="What it is: a chart may keep agents from something."),
    ] = "service"
    roles: Annotated[
        list[ActorId], Meta(max_length=MOST_ROLES), Meta(description="Those that charts ask for.")
    ] = []


class NewKeyBody(RequestBody, kw_only=True):
    """A key to be made. `lasts` is a duration, none is for ever; `rate` is in calls a second."""

    name: Annotated[
        str, Meta(max_length=LONGEST_TEXT, pattern=NO_NUL), Meta(description="What it is for, for people.")
    ] = ""
    actor: NewKeyActor
    scopes: Annotated[
        list[Scope],
        Meta(min_length=1, max_length=10),
        Meta(description="What it may do; `admin` is all of it."),
    ]
    lasts: Annotated[Duration | None, Meta(description="For how long it is valid; for ever without it.")] = (
        None
    )
    rate: Annotated[Rate | None, Meta(description="How many calls a second it may make.")] = None


class RotationBody(RequestBody):
    """For how long the old secret stays valid beside the new one."""

    overlap: Annotated[Overlap, Meta(description="A number and its unit; `0s` ends the old one at once.")] = (
        OVERLAP
    )


class Key(ResponseBody):
    """A key, without its secret."""

    id: str
    name: str
    actor: KeyActor
    scopes: list[str]
    rate: int | None
    made_at: datetime
    made_by: str
    expires_at: datetime | None
    old_secret_until: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None


class KeyWithSecret(Key):
    """A key with its text, which is shown only once."""

    key: str


class Keys(ResponseBody):
    """A page of keys."""

    items: list[Key]
    next: str | None


class Note(ResponseBody):
    """What was done to a key or with it.

    `made`, `rotated` and `revoked` have one entry each. `used` and `refused: …` are counted by day.
    """

    what: str
    count: int
    first_at: datetime
    last_at: datetime
    by: str


class Notes(ResponseBody):
    """A page of notes, the newest first."""

    items: list[Note]
    next: str | None


@router.post("", operation_id="make_key", status_code=201)
async def make_key(body: NewKeyBody, caller: Who, access: Door, call: HttpCall) -> KeyWithSecret:
    """Make a key for the caller's tenant. Its text is in this answer and nowhere else."""
    actor = Actor(body.actor.id, body.actor.kind, frozenset(body.actor.roles))
    made = await access.keyring.make(
        caller.tenant,
        actor,
        body.scopes,
        name=body.name,
        lasts=body.lasts,
        rate=body.rate,
        by=caller.actor.id,
        once=_once(call),
    )
    return _with_secret(made)


@router.get("", operation_id="list_keys")
async def list_keys(caller: Who, access: Door, cursor: Cursor = None, limit: Limit = PER_PAGE) -> Keys:
    """The keys of the caller's tenant, the oldest first."""
    after = None if cursor is None else cursor_place("keys", str, cursor)
    rows, more = await paged(
        lambda most: access.keyring.list(caller.tenant, after=after, limit=most),
        limit,
        lambda row: cursor_text("keys", row.id),
    )
    return Keys(items=[Key(**_shown(row)) for row in rows], next=more)


@router.get("/{id}", operation_id="get_key")
async def get_key(id: Id, caller: Who, access: Door) -> Key:  # noqa: A002 - the name in the path
    """One key."""
    return Key(**_shown(await access.keyring.get(caller.tenant, id)))


@router.post("/{id}/rotate", operation_id="rotate_key")
async def rotate_key(
    id: Id,  # noqa: A002 - the name in the path
    caller: Who,
    access: Door,
    *,
    call: HttpCall,
    body: RotationBody | None = None,
) -> KeyWithSecret:
    """Give a key a new secret. The old one stays valid for the overlap, so that no caller is cut off."""
    overlap = (body or RotationBody()).overlap
    once = _once(call)
    made = await access.keyring.rotate(caller.tenant, id, overlap=overlap, by=caller.actor.id, once=once)
    return _with_secret(made)


@router.post("/{id}/revoke", operation_id="revoke_key")
async def revoke_key(id: Id, caller: Who, access: Door) -> Key:  # noqa: A002 - the name in the path
    """End a key: at once on this node, within seconds on others. Its notes stay."""
    return Key(**_shown(await access.keyring.revoke(caller.tenant, id, by=caller.actor.id)))


@router.get("/{id}/audit", operation_id="list_key_notes")
async def list_notes(
    id: Id,  # noqa: A002 - the name in the path
    caller: Who,
    access: Door,
    *,
    cursor: Cursor = None,
    limit: Limit = PER_PAGE,
) -> Notes:
    """What was done to a key and with it, the newest first, for 400 days."""
    before = None if cursor is None else cursor_place("notes", tuple[datetime, str], cursor)
    rows, more = await paged(
        lambda most: access.keyring.notes(caller.tenant, id, before=before, limit=most),
        limit,
        lambda row: cursor_text("notes", (row.at, row.what)),
    )
    return Notes(items=[_note(row) for row in rows], next=more)


def _shown(row: KeyRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "actor": KeyActor(row.actor, row.kind, row.roles),
        "scopes": [*row.scopes],
        "rate": row.rate,
        "made_at": row.made_at,
        "made_by": row.made_by,
        "expires_at": row.expires_at,
        "old_secret_until": row.old_until,
        "revoked_at": row.revoked_at,
        "used_at": row.used_at,
    }


def _once(call: HttpCall) -> Repeatable[KeyRow] | None:
    """What is stored for a request that makes a secret: that it was carried out, and for which key."""
    if call.keyed is None:
        return None
    return Repeatable(call.keyed, lambda key: secret_shown(call.path, key=key.id))


def _with_secret(made: NewKey) -> KeyWithSecret:
    return KeyWithSecret(**_shown(made.key), key=made.text)


def _note(row: KeyNoteRow) -> Note:
    return Note(what=row.what, count=row.count, first_at=row.first_at, last_at=row.last_at, by=row.by)
