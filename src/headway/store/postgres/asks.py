"""Asks on PostgreSQL: what a unit does to them, all of it merged, and the queries that find them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.codec import encode
from headway.store.postgres.database import PostgresDatabase
from headway.store.postgres.tables import ASK, DELETE, Where, found_by_key, listed
from headway.store.queries import AskQuery
from headway.store.rows import ASK_CHANGES, ASK_CLOSINGS, AskChange, AskClosing, AskRow, Key, changed_ask
from headway.store.unit import Changes

Values = list[tuple[Any, ...]]

PERSON = "@"
"""Begins the name of a person in an audience; no role does."""

CHANGE_ASK = (
    "UPDATE ask AS held SET "
    + ", ".join(
        f"{name} = CASE WHEN given.changes THEN given.{name} ELSE held.{name} END" for name in ASK_CHANGES
    )
    + "".join(f", {name} = given.{name}" for name in ASK_CLOSINGS)
    + " FROM {found} AS given WHERE held.ctid = given.place RETURNING 1"
)
# Asked in this way, that it is open does not tempt the planner to go through all that are.
IS_OPEN = "num_nulls(closed_at) = 1"
FIND_ASK = found_by_key(ASK.name, f"tenant = given.tenant AND id = given.id AND {IS_OPEN}", more=", given.*")
# An ask that is stored already knows itself when it was opened.
PUT_AUDIENCE = f"""
INSERT INTO ask_audience (tenant, audience, opened_at, ask)
SELECT given.tenant, name, coalesce(given.opened_at, held.opened_at), given.ask
FROM unnest({{rows}}) AS given CROSS JOIN unnest(given.audience) AS name
LEFT JOIN LATERAL (
    SELECT id, opened_at FROM ask
    WHERE given.opened_at IS NULL AND tenant = given.tenant AND id = given.ask AND {IS_OPEN} OFFSET 0
) AS held ON true
WHERE given.opened_at IS NOT NULL OR held.id IS NOT NULL
ON CONFLICT DO NOTHING
"""
FIND_AUDIENCE = found_by_key(
    "ask_audience", "tenant = given.tenant AND ask = given.ask AND audience <> ALL (given.audience)"
)
TAKE_AUDIENCE = DELETE.format(table="ask_audience", found="{found}")
MISFILED = """
WITH wanted AS MATERIALIZED (
    SELECT tenant, '@' || delegated_to AS audience, opened_at, id FROM ask
    WHERE closed_at IS NULL AND delegated_to IS NOT NULL
    UNION SELECT tenant, role, opened_at, id
    FROM ask CROSS JOIN LATERAL jsonb_array_elements_text(roles::jsonb) AS role
    WHERE closed_at IS NULL AND delegated_to IS NULL
), listed AS (SELECT tenant, audience, opened_at, ask AS id FROM ask_audience)
SELECT tenant, id FROM (SELECT * FROM wanted EXCEPT SELECT * FROM listed) AS missing
UNION SELECT tenant, id FROM (SELECT * FROM listed EXCEPT SELECT * FROM wanted) AS surplus
ORDER BY 1, 2 LIMIT $1
"""
ONE_ASK = f"{ASK.select} WHERE tenant = $1 AND id = $2"
AFTER = "(SELECT opened_at, id FROM ask WHERE tenant = $1 AND id = {})"
# For each role the first of its asks, straight from the index, however many there are.
INBOX = f"""
SELECT {listed(ASK.columns, "ask.")} FROM (
    SELECT DISTINCT found.opened_at, found.ask
    FROM unnest($2::text[]) AS wanted (audience) CROSS JOIN LATERAL (
        SELECT opened_at, ask FROM ask_audience
        WHERE tenant = $1 AND audience = wanted.audience AND {{after}}
        ORDER BY opened_at, ask LIMIT $3
    ) AS found
    ORDER BY found.opened_at, found.ask LIMIT $3
) AS first CROSS JOIN LATERAL (SELECT * FROM ask WHERE tenant = $1 AND id = first.ask) AS ask
ORDER BY ask.opened_at, ask.id
"""
FOR_ONE_OF = """
CASE WHEN delegated_to IS NULL THEN roles::jsonb ?| {names}::text[]
ELSE '@' || delegated_to = ANY({names}::text[]) END
"""


class PostgresAsks:
    """The asks of a database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def get(self, key: Key) -> AskRow | None:
        """One ask, open or closed."""
        return await self._database.row(ASK, ONE_ASK, *key)

    async def page(self, query: AskQuery) -> Sequence[AskRow]:
        """A page of asks, the oldest first."""
        sql, values = page_of_asks(query)
        return await self._database.rows(ASK, sql, *values)

    async def misfiled(self, limit: int) -> Sequence[Key]:
        """The keys of asks whose entries in the inbox index do not match their audience."""
        return [(tenant, ask) for tenant, ask in await self._database.fetch(MISFILED, limit)]


def asks_opened(changes: Changes) -> Values:
    """Asks as they are in the end: what is asked and answered in the same unit is closed."""
    return ASK.values(_opened(changes).values())


def asks_changed(changes: Changes) -> Values:
    """What becomes of asks that are stored: one line each, for the last change and for the closing."""
    opened = _opened(changes)
    changed, closed = _latest(changes.asks_changed), _closings(changes)
    keys = (changed.keys() | closed.keys()) - opened.keys()
    return [(*key, *_change(changed.get(key)), *_closing(closed.get(key))) for key in keys]


def audience_of(changes: Changes) -> Values:
    """Whom asks are for that are open in the end; the time of those that are stored is not known here."""
    opened = [
        (row.tenant, row.id, row.opened_at, _audience(row))
        for row in _opened(changes).values()
        if row.closed_at is None
    ]
    return opened + [values for values in audience_changed(changes) if values[-1]]


def audience_changed(changes: Changes) -> Values:
    """Whom stored asks are for from now on: nobody, when they are closed."""
    opened = _opened(changes)
    after = {key: _audience(change) for key, change in _latest(changes.asks_changed).items()}
    after |= {key: [] for key in _closings(changes)}
    return [(*key, None, names) for key, names in after.items() if key not in opened]


def audience_gone(changes: Changes) -> Values:
    """Whom stored asks are for in the end, so that all others can be taken out."""
    opened = _opened(changes)
    renewed = [opened[row.tenant, row.id] for row in changes.asks_renewed]
    ends = [(row.tenant, row.id, None, [] if row.closed_at else _audience(row)) for row in renewed]
    return audience_changed(changes) + ends


def page_of_asks(query: AskQuery) -> tuple[str, list[Any]]:
    """The statement for the filters that are set."""
    names = [role for role in query.roles if not role.startswith(PERSON)]
    if query.person is not None:
        names.append(PERSON + query.person)
    for_all = not query.roles and query.person is None
    if query.open and query.instance is None and not for_all:
        return _inbox(query, names)
    where = Where()
    where.equal(tenant=query.tenant, instance=query.instance)
    where.add(f"closed_at IS {'' if query.open else 'NOT '}NULL")
    if not for_all:
        where.add(FOR_ONE_OF.format(names=where.bind(names)))
    if query.after is not None:
        where.add(f"(opened_at, id) > {AFTER}", query.after)
    limit = where.bind(query.limit)
    return f"{ASK.select} {where} ORDER BY opened_at, id LIMIT {limit}", where.values


def _inbox(query: AskQuery, names: Sequence[str]) -> tuple[str, list[Any]]:
    values = [query.tenant, names, query.limit]
    if query.after is None:
        return INBOX.format(after="true"), values
    return INBOX.format(after=f"(opened_at, ask) > {AFTER.format('$4')}"), [*values, query.after]


def _opened(changes: Changes) -> dict[Key, AskRow]:
    opened = {(row.tenant, row.id): row for row in (*changes.asks, *changes.asks_renewed)}
    later: list[AskChange | AskClosing] = [*changes.asks_changed, *changes.asks_closed]
    for change in later:
        key = (change.tenant, change.id)
        if key in opened:
            opened[key] = changed_ask(opened[key], change)
    return opened


def _latest(changed: Sequence[AskChange]) -> dict[Key, AskChange]:
    return {(change.tenant, change.id): change for change in changed}


def _closings(changes: Changes) -> dict[Key, AskClosing]:
    return {(closing.tenant, closing.id): closing for closing in changes.asks_closed}


def _change(change: AskChange | None) -> tuple[Any, ...]:
    if change is None:
        return (False, *[None] * len(ASK_CHANGES))
    values = (getattr(change, name) for name in ASK_CHANGES)
    return (True, *(encode(value).decode() if isinstance(value, tuple) else value for value in values))


def _closing(closing: AskClosing | None) -> tuple[Any, ...]:
    return tuple(None if closing is None else getattr(closing, name) for name in ASK_CLOSINGS)


def _audience(ask: AskRow | AskChange) -> list[str]:
    """Roles and people, or the one person it is delegated to."""
    if ask.delegated_to is not None:
        return [PERSON + ask.delegated_to]
    return [*ask.roles]
