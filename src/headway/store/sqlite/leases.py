"""Leases on names, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence

from headway.store.rows import Key
from headway.store.sqlite.connection import Connection

HOLD = """
INSERT INTO lease (tenant, name, holder, until) VALUES (:tenant, :name, :holder, :until)
ON CONFLICT (tenant, name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE lease.holder = excluded.holder OR lease.until <= :now
RETURNING tenant, name
"""
LET_GO = "DELETE FROM lease WHERE tenant = ? AND name = ? AND holder = ?"
IS_HELD = "SELECT 1 FROM lease WHERE tenant = ? AND name = ? AND holder = ? AND until > ?"


def hold(
    connection: Connection, names: Sequence[Key], holder: str, *, now: int, milliseconds: int
) -> list[Key]:
    """Take or extend leases; belongs in a transaction."""
    terms = {"holder": holder, "now": now, "until": now + milliseconds * 1_000}
    return [key for key in names if connection.fetch(HOLD, {"tenant": key[0], "name": key[1], **terms})]


def let_go(connection: Connection, names: Sequence[Key], holder: str) -> None:
    """Give up leases that the holder has."""
    connection.write(LET_GO, [(*name, holder) for name in names])


def is_held(connection: Connection, name: Key, holder: str, now: int) -> bool:
    """Whether someone has a name now."""
    return bool(connection.fetch(IS_HELD, (*name, holder, now)))
