"""Claims on PostgreSQL: exact where limits are counted on several nodes, and not slowed by what waits."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from headway.codec import replace
from headway.store.postgres.claims import CLAIM, CLAIM_LIMITED, LOCK, LOCKS
from headway.store.postgres.store import PostgresStore
from headway.store.queries import Claim
from headway.store.rows import WorkRow
from tests.store.contract.acts import writing
from tests.store.contract.place import KNOWN, work
from tests.store.postgres_clients import opened, someone, until_waiting

pytestmark = pytest.mark.mission("ENG-10", "ENG-17")

ALL_LOCKS = [*range(LOCKS)]
HOUR = 3_600_000


@pytest.fixture
def store(postgres_address: str, runner: asyncio.Runner) -> Iterator[PostgresStore]:
    """An opened store."""
    store = PostgresStore(postgres_address)
    runner.run(store.open())
    yield store
    runner.run(store.close())


def wanted(worker: str, limit: int) -> tuple[Any, ...]:
    """The parameters of a claim."""
    return (None, worker, ["default"], None, None, limit, "", [*KNOWN])


def many(count: int, **fields: Any) -> list[WorkRow]:
    """Work with these fields."""
    return [work(f"w{n:04}", **fields) for n in range(count)]


@pytest.mark.parametrize(
    "limits",
    [{"concurrency": "k", "at_once": 5}, {"rate": "r", "rate_most": 5, "rate_per": HOUR}],
    ids=["concurrency", "rate"],
)
async def test_a_claim_waits_for_another_nodes_claim_of_the_same_key(
    store: PostgresStore, postgres_address: str, limits: dict[str, Any]
) -> None:
    """It counts what the other has taken, even what was not committed when it began."""
    await store.run(writing(work=many(20, **limits)))
    async with someone(postgres_address) as other:
        await other.execute("BEGIN")
        await other.fetch(LOCK, ALL_LOCKS)
        taken = await other.fetch(CLAIM_LIMITED, *wanted("x", 3), ALL_LOCKS)
        claim = asyncio.create_task(store.work.claim(Claim("w", ("default",), 20, KNOWN)))
        await until_waiting(postgres_address)
        await other.execute("COMMIT")
        rows = await claim
    assert (len(taken), len(rows)) == (3, 2)


async def test_unlimited_work_does_not_wait_for_a_claim_of_a_key(
    store: PostgresStore, postgres_address: str
) -> None:
    """Locks are for what is counted; nothing is, where no limit has room or none is set."""
    full = replace(
        work("full", concurrency="full"), worker="x", leased_until=datetime(2999, 1, 1, tzinfo=UTC)
    )
    await store.run(writing(work=[full, *many(5, concurrency="full"), work("free")]))
    async with someone(postgres_address) as other:
        await other.execute("BEGIN")
        await other.fetch(LOCK, ALL_LOCKS)
        async with asyncio.timeout(50):
            rows = await store.work.claim(Claim("w", ("default",), 20, KNOWN))
    assert [row.id for row in rows] == ["free"]


async def test_nodes_that_claim_and_finish_never_exceed_a_limit(
    store: PostgresStore, postgres_address: str
) -> None:
    """While work comes back and goes, there are never more leases of a key than it allows."""
    keys = [f"k{n}" for n in range(4)]
    items = [
        work(f"w{n}", concurrency=keys[n % 4], at_once=2, rate="all", rate_most=1000) for n in range(120)
    ]
    await store.run(writing(work=items))
    done: list[str] = []

    async def worker(name: str, at: PostgresStore) -> None:
        while len(done) < len(items):
            rows = await at.work.claim(Claim(name, ("default",), 3, KNOWN))
            counts = await at._database.fetch(
                "SELECT concurrency, count(*) FROM work WHERE worker IS NOT NULL GROUP BY concurrency"
            )
            assert all(count <= 2 for _, count in counts)
            if rows:
                await at.run(writing(work_gone=[(row.tenant, row.id) for row in rows]))
                done.extend(row.id for row in rows)

    async with opened(postgres_address) as second, asyncio.timeout(120):
        await asyncio.gather(*(worker(f"w{n}", (store, second)[n % 2]) for n in range(6)))
    assert sorted(done) == sorted(row.id for row in items)


@pytest.mark.parametrize("limit", [1, 256])
async def test_a_backlog_without_room_is_stepped_over(store: PostgresStore, limit: int) -> None:
    """A claim reads a few pages, however much waits for a key."""
    held = replace(work("held", concurrency="k"), worker="x", leased_until=datetime(2999, 1, 1, tzinfo=UTC))
    await store.run(writing(work=[held, *many(5_000, concurrency="k")]))
    for sql, locks in ((CLAIM, []), (CLAIM_LIMITED, [ALL_LOCKS])):
        [(answer,)] = await store._database.fetch(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", *wanted("w", limit), *locks
        )
        assert json.loads(answer)[0]["Plan"]["Shared Hit Blocks"] < 60


async def test_limits_that_make_no_sense_hold_up_nobody_else(store: PostgresStore) -> None:
    """A chart that allows nothing gets nothing; work beside it is claimed."""
    odd = [{"concurrency": "a", "at_once": 0}, {"concurrency": "b", "at_once": -1}]
    odd += [{"rate": "c", "rate_most": 0}, {"rate": "d", "rate_most": -3, "rate_per": 0}]
    largest = work("large", rate="e", rate_most=2**62, rate_per=2**62, concurrency="e", at_once=2**62)
    longest = work("long", rate="f", rate_per=2**62)
    await store.run(
        writing(work=[*(work(f"w{n}", **each) for n, each in enumerate(odd)), largest, longest, work("z")])
    )
    rows = await store.work.claim(Claim("w", ("default",), 20, KNOWN))
    assert sorted(row.id for row in rows) == ["large", "long", "z"]
