"""The storage of instances: SQLite or PostgreSQL behind one interface.

`Node` opens and migrates a database by itself; this is for programs that do it themselves.
"""

from headway.store import migrate
from headway.store.address import database_at, store_at
from headway.store.port import Store

__all__ = ["Store", "database_at", "migrate", "store_at"]
