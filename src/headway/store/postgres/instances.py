"""Instances and their history: pages of them, and the end of those that are long over."""

from __future__ import annotations

from typing import Any

from headway.store.port import InstanceQuery
from headway.store.postgres.events import FORGET
from headway.store.postgres.query import Where
from headway.store.postgres.tables import HISTORY, INSTANCE
from headway.store.rows import AFTER_LINES

IN_ORDER = "no > 0"
"""What all instances have, and what only those who list them say: it opens the indexes for lists to them."""
ONE_INSTANCE = f"{INSTANCE.select} WHERE tenant = $1 AND id = $2"
# One look into the index for each key, whatever is thought about the size of the table.
SOME_INSTANCES = f"""
SELECT found.* FROM unnest($1::key_given[]) AS given
CROSS JOIN LATERAL ({INSTANCE.select} WHERE tenant = given.tenant AND id = given.key LIMIT 1) AS found
"""
AFTER = "no > (SELECT no FROM instance WHERE tenant = $1 AND id = {})"
NAMES = "SELECT tenant, id FROM instance WHERE (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT $3"
LIVING = (
    f"{INSTANCE.select} WHERE (tenant, id) > ($1, $2) AND chart = $3 AND NOT ended"
    " ORDER BY tenant, id LIMIT $4"
)
# All that live are looked at: whoever asks for several versions asks once.
LIVING_VERSIONS = "SELECT DISTINCT chart, version FROM instance WHERE NOT ended"
JOURNALS = (
    "SELECT DISTINCT tenant, instance FROM history WHERE (tenant, instance) > ($1, $2)"
    " ORDER BY tenant, instance LIMIT $3"
)
OWNED = {
    table: f"SELECT tenant, id, instance FROM {table} WHERE (tenant, id) > ($1, $2)"
    " ORDER BY tenant, id LIMIT $3"
    for table in ("timer", "work", "ask")
}
PAGE_OF_HISTORY = (
    f"{HISTORY.select} WHERE tenant = $1 AND instance = $2 AND position > $3 ORDER BY position LIMIT $4"
)
# As in `found_by_key`: a join that is planned for an empty table would read the whole of it later.
BY_KEY = (
    "{given} CROSS JOIN LATERAL (SELECT ctid AS place FROM {table} WHERE {match} OFFSET 0) AS found"
    " WHERE held.ctid = found.place"
)
OF_THE_OLD = "tenant = old.tenant AND instance = old.id"
OF_THE_ASKED = "tenant = asked.tenant AND ask = asked.id"
# The first part steps from chart to chart: each may be kept for a time of its own.
# The live messages of its last step have the stamp of its last line. They stay, but whose they are is gone.
PRUNE_INSTANCES = f"""
WITH RECURSIVE kind AS (
    (SELECT chart FROM instance WHERE ended AND $3::text IS NULL ORDER BY chart LIMIT 1)
    UNION ALL
    SELECT next.chart FROM kind CROSS JOIN LATERAL (
        SELECT chart FROM instance WHERE ended AND chart > kind.chart ORDER BY chart LIMIT 1
    ) AS next
), old AS MATERIALIZED (
    SELECT ended.* FROM (SELECT chart FROM kind UNION ALL SELECT $3::text) AS kind CROSS JOIN LATERAL (
        SELECT ctid AS location, tenant, id FROM instance
        WHERE ended AND chart = kind.chart AND ended_at < $1
        ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ) AS ended LIMIT $2
), lines AS (
    DELETE FROM history AS held USING {BY_KEY.format(given="old", table="history", match=OF_THE_OLD)}
    RETURNING held.stamp
), last AS (
    SELECT max(stamp) AS stamp, {AFTER_LINES} AS position, {AFTER_LINES} AS message
    FROM lines HAVING count(*) > 0
), noted AS (
    {FORGET}
), asked AS (
    DELETE FROM ask AS held USING {BY_KEY.format(given="old", table="ask", match=OF_THE_OLD)}
    RETURNING held.tenant, held.id
), audience AS (
    DELETE FROM ask_audience AS held
    USING {BY_KEY.format(given="asked", table="ask_audience", match=OF_THE_ASKED)}
)
DELETE FROM instance AS held USING old WHERE held.ctid = old.location RETURNING 1
"""


def page_of_instances(query: InstanceQuery) -> tuple[str, list[Any]]:
    """The statement for the filters that are set."""
    where = Where()
    where.add(IN_ORDER)
    where.equal(
        tenant=query.tenant, chart=query.chart, status=query.status, parent=query.parent, owner=query.owner
    )
    if query.ended is not None:
        where.add("ended" if query.ended else "NOT ended")
    if query.after is not None:
        where.add(AFTER, query.after)
    limit = where.bind(query.limit)
    return f"{INSTANCE.select} {where} ORDER BY no LIMIT {limit}", where.values
