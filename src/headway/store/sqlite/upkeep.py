"""What SQLite forgets: rows that have had their time, a bounded number in each transaction."""

from __future__ import annotations

from headway.store.rows import Key
from headway.store.sqlite.asks import HIDE_ASKS_OF_INSTANCE
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.events import forgetting

LINES = 5_000
"""So many lines of history go in one transaction, so that nobody waits long."""

PRUNE_REQUESTS = """
DELETE FROM idempotency WHERE (tenant, key) IN (
    SELECT tenant, key FROM idempotency WHERE expires_at <= ? ORDER BY expires_at LIMIT ?
)
"""
# Messages stand in the order of time, but for a clock that was set back: one that is too young ends the turn.
OLD_MESSAGES = """
SELECT position FROM (
    SELECT position, at FROM outbox
    WHERE position <= coalesce((SELECT min(position) FROM consumer), 9223372036854775807)
    ORDER BY position LIMIT ?2
) WHERE at < ?1
"""
PRUNE_MESSAGES = f"DELETE FROM outbox WHERE position IN ({OLD_MESSAGES})"
# Later messages never stand before earlier ones, so the last of them has the last line, too.
FORGET_MESSAGES = forgetting(
    f"""
SELECT line, position FROM (
    SELECT line, max(position) AS position FROM outbox WHERE kind = 'live' AND position IN ({OLD_MESSAGES})
) WHERE position IS NOT NULL
"""
)
FORGET_LINES = forgetting(
    "SELECT position, 0 FROM history WHERE tenant = ? AND instance = ? ORDER BY position DESC LIMIT 1"
)
# They stay, but without their instance nobody knows whose they are.
FORGET_LIVE = forgetting(
    "SELECT line, position FROM outbox WHERE kind = 'live' AND tenant = ? AND instance = ?"
    " ORDER BY position DESC LIMIT 1"
)
CHARTS_WITH_ENDED = """
WITH RECURSIVE step (chart) AS (
    SELECT min(chart) FROM instance WHERE ended = 1
    UNION ALL
    SELECT (SELECT min(chart) FROM instance WHERE ended = 1 AND chart > step.chart)
    FROM step WHERE chart IS NOT NULL
)
SELECT chart FROM step WHERE chart IS NOT NULL
"""
ENDED = """
SELECT tenant, id FROM instance WHERE ended = 1 AND chart = ? AND updated_at < ?
ORDER BY updated_at, no LIMIT ?
"""
PRUNE_HISTORY = """
DELETE FROM history WHERE position IN (
    SELECT position FROM history WHERE tenant = ? AND instance = ? ORDER BY position LIMIT ?
)
"""
LAST_TO_GO = "SELECT hash FROM history WHERE tenant = ? AND instance = ? ORDER BY position LIMIT 1 OFFSET ?"
# What is left of a history must tell that the engine took the rest.
NOTE_PRUNED = "UPDATE instance SET pruned = ? WHERE tenant = ? AND id = ?"
PRUNED = "SELECT pruned FROM instance WHERE tenant = ? AND id = ? AND pruned IS NOT NULL"
PRUNE_OPEN_ASKS = """
DELETE FROM ask INDEXED BY ask_open_by_instance WHERE tenant = ? AND instance = ? AND closed_at IS NULL
"""
PRUNE_CLOSED_ASKS = """
DELETE FROM ask INDEXED BY ask_closed_by_instance WHERE tenant = ? AND instance = ? AND closed_at IS NOT NULL
"""
PRUNE_INSTANCE = "DELETE FROM instance WHERE tenant = ? AND id = ?"
ALL_OF_AN_INSTANCE = (HIDE_ASKS_OF_INSTANCE, PRUNE_OPEN_ASKS, PRUNE_CLOSED_ASKS, PRUNE_INSTANCE)


def prune_requests(connection: Connection, now: int, limit: int) -> int:
    """Delete request ids that have expired."""
    return connection.write(PRUNE_REQUESTS, [(now, limit)])


def prune_messages(connection: Connection, before: int, limit: int) -> int:
    """Delete messages that all consumers are past, from before a time."""
    connection.write(FORGET_MESSAGES, [(before, limit)])
    return connection.write(PRUNE_MESSAGES, [(before, limit)])


def prune_instances(connection: Connection, before: int, limit: int, chart: str | None) -> tuple[int, bool]:
    """Delete instances that have ended before a time; answers how many, and whether that is all for now."""
    lines, count = LINES, 0
    for key in _ended(connection, before, limit, chart):
        connection.write(FORGET_LINES, [key])
        connection.write(FORGET_LIVE, [key])
        last = connection.fetch(LAST_TO_GO, (*key, lines - 1))
        lines -= connection.write(PRUNE_HISTORY, [(*key, lines)])
        if last:
            connection.write(NOTE_PRUNED, [(*last[0], *key)])
            return count, False
        for statement in ALL_OF_AN_INSTANCE:
            connection.write(statement, [key])
        count += 1
    return count, True


def pruned(connection: Connection, key: Key) -> str:
    """The hash of the last line of an instance that was deleted before all of it was; empty when none was."""
    return next((str(last) for (last,) in connection.fetch(PRUNED, key)), "")


def _ended(connection: Connection, before: int, limit: int, chart: str | None) -> list[Key]:
    charts = connection.fetch(CHARTS_WITH_ENDED) if chart is None else [(chart,)]
    found: list[tuple[str, str]] = []
    for (name,) in charts:
        found += [
            (tenant, key) for tenant, key in connection.fetch(ENDED, (name, before, limit - len(found)))
        ]
    return found
