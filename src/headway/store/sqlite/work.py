"""Work on SQLite: what a worker may do with what it holds, and lists of work."""

from __future__ import annotations

from collections.abc import Sequence

from headway.codec import encode
from headway.store.port import Attempt, WorkQuery
from headway.store.rows import Key, WorkRow
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.tables import WORK

HELD = """
WHERE tenant = :tenant AND id = :id AND attempt = :attempt AND worker = :worker AND leased_until > :now
RETURNING tenant, id
"""
EXTEND = f"UPDATE work SET leased_until = :now + lease * 1000 {HELD}"
RELEASE = f"""
UPDATE work SET worker = NULL, leased_until = NULL, due = coalesce(:due, due),
    place = CASE WHEN :due > :now THEN NULL ELSE place END {HELD}
"""
HASTEN = """
UPDATE work SET due = :now
WHERE tenant = :tenant AND id = :id AND attempt = :attempt AND worker IS NULL AND due > :now
RETURNING tenant, id
"""
# Where it waits depends on its version: it gets its place anew when somebody claims.
SET_VERSION = "UPDATE work SET version = ?3, place = NULL WHERE tenant = ?1 AND id = ?2"
CHECKPOINT = f"UPDATE work SET checkpoint = :data {HELD}"
EXPIRED_WORK = f"""
{WORK.select} WHERE worker IS NOT NULL AND leased_until <= ?
AND json_array(chart, version) IN (SELECT value FROM json_each(?))
ORDER BY leased_until, tenant, id LIMIT ?
"""
NEXT_WORK = """
SELECT min(at) FROM (
    SELECT min(due) AS at FROM work INDEXED BY work_for_later
    WHERE worker IS NULL AND place IS NULL AND due > :now
    UNION ALL
    SELECT min(leased_until) FROM work INDEXED BY work_leased WHERE worker IS NOT NULL AND leased_until > :now
)
"""
FILTERS = {
    "ids": "id IN (SELECT value FROM json_each(:ids))",
    "queue": "queue = :queue",
    "after": "id > :after",
}


def extend(connection: Connection, worker: str, items: Sequence[Attempt], now: int) -> list[Key]:
    """Extend the leases that a worker still holds; belongs in a transaction."""
    return [item[:2] for item in items if _changed(connection, EXTEND, worker, item, now=now)]


def release(
    connection: Connection, worker: str, items: Sequence[Attempt], *, now: int, due: int | None
) -> list[Key]:
    """Hand back what a worker holds; belongs in a transaction."""
    return [item[:2] for item in items if _changed(connection, RELEASE, worker, item, now=now, due=due)]


def hasten(connection: Connection, items: Sequence[Attempt], now: int) -> list[Key]:
    """Let work be due now that waits for its time; belongs in a transaction."""
    return [item[:2] for item in items if _changed(connection, HASTEN, "", item, now=now)]


def keep_checkpoint(connection: Connection, worker: str, item: Attempt, *, now: int, data: str) -> bool:
    """Keep how far an attempt has come that a worker holds; belongs in a transaction."""
    return _changed(connection, CHECKPOINT, worker, item, now=now, data=data)


def list_work(connection: Connection, query: WorkQuery) -> list[WorkRow]:
    """A page of a tenant's work, by id."""
    values = {name: getattr(query, name) for name in ("tenant", "queue", "after", "limit")}
    values["ids"] = encode(query.ids).decode()
    return WORK.rows(connection.fetch(page(query), values))


def page(query: WorkQuery) -> str:
    """The statement for the filters that are set.

    What is named or leased is found by an index; else the tenant's work is gone through.
    """
    terms = ["tenant = :tenant"]
    terms += [term for name, term in FILTERS.items() if getattr(query, name) is not None]
    if query.leased is not None:
        terms.append(f"worker IS {'NOT NULL' if query.leased else 'NULL'}")
    return f"{WORK.select} {_index(query)} WHERE {' AND '.join(terms)} ORDER BY id LIMIT :limit"


def _index(query: WorkQuery) -> str:
    return "INDEXED BY work_leased" if query.leased and query.ids is None else ""


def _changed(
    connection: Connection, sql: str, worker: str, item: Attempt, **values: str | int | None
) -> bool:
    tenant, work, attempt = item
    held = {"tenant": tenant, "id": work, "attempt": attempt, "worker": worker}
    return bool(connection.fetch(sql, held | values))
