"""Lists of instances on SQLite."""

from __future__ import annotations

from headway.store.port import InstanceQuery
from headway.store.rows import InstanceRow
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.tables import HISTORY, INSTANCE

FILTERS = {
    "chart": "chart = :chart",
    "status": "status = :status",
    "parent": "parent = :parent",
    "owner": "owner = :owner",
}
AFTER = "no > (SELECT no FROM instance WHERE tenant = :tenant AND id = :after)"
NAMES = "SELECT tenant, id FROM instance WHERE (tenant, id) > (?, ?) ORDER BY tenant, id LIMIT ?"
LIVING = (
    f"{INSTANCE.select} WHERE (tenant, id) > (?, ?) AND +chart = ? AND +ended = 0 ORDER BY tenant, id LIMIT ?"
)
# All that live are looked at: whoever asks for several versions asks once.
LIVING_VERSIONS = "SELECT DISTINCT chart, version FROM instance WHERE ended = 0"
JOURNALS = (
    "SELECT DISTINCT tenant, instance FROM history WHERE (tenant, instance) > (?, ?)"
    " ORDER BY tenant, instance LIMIT ?"
)
OWNED = {
    table: f"SELECT tenant, id, instance FROM {table} WHERE (tenant, id) > (?, ?) ORDER BY tenant, id LIMIT ?"
    for table in ("timer", "work", "ask")
}
PAGE_OF_HISTORY = (
    f"{HISTORY.select} WHERE tenant = ? AND instance = ? AND position > ? ORDER BY position LIMIT ?"
)


def list_instances(connection: Connection, query: InstanceQuery) -> list[InstanceRow]:
    """A page of instances, in the order they were created."""
    values = {name: getattr(query, name) for name in ("tenant", "after", "limit", *FILTERS)}
    return INSTANCE.rows(connection.fetch(page(query), values))


def page(query: InstanceQuery) -> str:
    """The statement for the filters that are set, so that each combination finds its index."""
    terms = ["tenant = :tenant"]
    terms += [term for name, term in FILTERS.items() if getattr(query, name) is not None]
    terms += [] if query.ended is None else [f"ended = {query.ended:d}"]
    terms += [] if query.after is None else [AFTER]
    return f"{INSTANCE.select} WHERE {' AND '.join(terms)} ORDER BY no LIMIT :limit"
