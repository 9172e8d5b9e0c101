"""A name on PostgreSQL belongs to a session, which may be lost while its process lives."""

from contextlib import suppress

import asyncpg
import pytest

from headway.errors import StoreUnavailableError
from headway.store.postgres.store import PostgresStore
from headway.store.queries import WorkQuery
from tests.store.contract.acts import writing
from tests.store.contract.place import NEVER, work

pytestmark = pytest.mark.mission("ENG-10", "ENG-17")
END_SESSIONS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_locks
WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def test_a_name_whose_session_was_lost_is_taken_again(postgres_address: str) -> None:
    """The process that has it takes it again with the next look, and its own leases go on."""
    store = PostgresStore(postgres_address)
    await store.open()
    assert await store.leases.take_name("mill", "me")
    await store.run(writing(work=[work("a", worker="me", leased_until=NEVER)]))
    other = await asyncpg.connect(postgres_address)
    assert await other.fetch(END_SESSIONS)
    with suppress(StoreUnavailableError):  # unless the end of the session was noticed before
        await store.leases.take_name("mill", "me")
    assert await store.leases.take_name("mill", "me")
    [row] = await store.work.page(WorkQuery(tenant="acme"))
    assert row.leased_until == NEVER
    await other.close()
    await store.close()
