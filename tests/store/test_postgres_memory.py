"""What a node remembers of the PostgreSQL database: it saves a round trip, and never gives a wrong answer."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from headway.codec import replace
from headway.errors import StoreUnavailableError
from headway.store.postgres import memory as postgres_memory
from headway.store.postgres.connection import Connection
from headway.store.postgres.memory import ClockEstimate, InstanceMemory
from headway.store.postgres.store import PostgresStore
from headway.store.unit import Changes, Found, Reads
from headway.testing import FakeClock
from tests.store.contract.acts import KEY, Act, counted, found, writing
from tests.store.contract.place import INSTANCE, KNOWN, MESSAGE, REQUEST, TIMER, instance
from tests.store.postgres_clients import opened, someone, until_waiting

pytestmark = pytest.mark.mission("ENG-3", "ENG-4", "ENG-6", "ENG-17")

OTHER = ("acme", "i2")
ASKED = ("acme", REQUEST.key)
AT = datetime(2026, 1, 1, tzinfo=UTC)
END_WAITING = (
    "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


async def truncate(address: str) -> None:
    """Give the table of instances its first page back, which deleted rows still take up."""
    async with someone(address) as client:
        await client.execute("TRUNCATE instance")


@pytest.fixture
def store(postgres_address: str, runner: asyncio.Runner) -> Iterator[PostgresStore]:
    """A node that remembers two instances, the first rows of their table."""
    runner.run(truncate(postgres_address))
    store = PostgresStore(postgres_address)
    runner.run(store.open())
    runner.run(store.run(writing(created=[instance(snapshot="0"), instance("i2", snapshot="0")])))
    yield store
    runner.run(store.close())


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the nodes send to the database."""
    sent: list[str] = []
    fetch = Connection.fetch

    async def listening(self: Connection, sql: str, *values: Any, **options: Any) -> list[Any]:
        sent.append(sql)
        return await fetch(self, sql, *values, **options)

    monkeypatch.setattr(Connection, "fetch", listening)
    return sent


def both(decide: Callable[[Found], Changes]) -> Act:
    """A unit that looks at both instances, and at a request id."""
    return Act(decide, lambda: Reads(instances={KEY, OTHER}, requests={ASKED}))


async def value(store: PostgresStore, key: tuple[str, str] = KEY) -> str | None:
    """The number that an instance holds."""
    row = await store.instances.get(key)
    return row.snapshot if row else None


async def test_what_was_written_need_not_be_read(store: PostgresStore, statements: list[str]) -> None:
    """Whether it was created or changed, the next unit takes one round trip."""
    for _ in range(3):
        await store.run(counted(1))
    assert len(statements) == 3
    assert await value(store) == "3"
    assert await value(store, OTHER) == "0"


async def test_what_was_read_need_not_be_read_again(
    store: PostgresStore, postgres_address: str, statements: list[str]
) -> None:
    """A node that has only looked knows the instance, too."""
    async with opened(postgres_address) as second:
        await found(second, instances={KEY})
        statements.clear()
        await second.run(counted(1))
        assert len(statements) == 1
    assert await value(store) == "1"


async def test_nodes_in_turn_lose_no_update(store: PostgresStore, postgres_address: str) -> None:
    """Each remembers what the other has changed since, finds that out, and starts over once."""
    async with opened(postgres_address) as second:
        for _ in range(5):
            for node in (store, second):
                unit = counted(1)
                await node.run(unit)
                assert unit.begun <= 2
    assert await value(store) == "10"


async def test_a_refusal_does_not_rest_on_memory(
    store: PostgresStore, postgres_address: str, statements: list[str]
) -> None:
    """A unit that changes nothing is decided on what is there, and writes nothing to prove it."""
    async with opened(postgres_address) as second:
        await second.run(counted(1))
    statements.clear()
    unit = Act(lambda _: Changes(), lambda: Reads(instances={KEY}))
    await store.run(unit)
    assert unit.found
    assert unit.found.instances[KEY].snapshot == "1"
    assert [sql.split(maxsplit=1)[0] for sql in statements] == ["SELECT"]


async def test_a_refusal_beside_a_change_does_not_rest_on_memory(
    store: PostgresStore, postgres_address: str
) -> None:
    """What was only looked at must be as it was remembered, or all is decided again."""

    def decide(seen: Found) -> Changes:
        return Changes(updated=[replace(seen.instances[OTHER], snapshot=seen.instances[KEY].snapshot)])

    async with opened(postgres_address) as second:
        await second.run(counted(7))
    unit = Act(decide, lambda: Reads(instances={KEY, OTHER}))
    await store.run(unit)
    assert unit.begun == 2
    assert await value(store, OTHER) == "7"


async def test_an_error_does_not_rest_on_memory(store: PostgresStore, postgres_address: str) -> None:
    """What fails on something that is no longer so is decided again."""

    def decide(seen: Found) -> Changes:
        row = seen.instances[KEY]
        if row.snapshot == "0":
            raise ValueError(row.snapshot)
        return Changes(updated=[replace(row, snapshot="done")])

    async with opened(postgres_address) as second:
        await second.run(counted(1))
    await store.run(Act(decide, lambda: Reads(instances={KEY})))
    assert await value(store) == "done"
    await store.run(writing(updated=[instance(snapshot="0")]))
    with pytest.raises(ValueError, match="0"):
        await store.run(Act(decide, lambda: Reads(instances={KEY})))


async def test_a_request_that_another_node_has_served_is_not_served_again(
    store: PostgresStore, postgres_address: str
) -> None:
    """The request id is taken for new, cannot be written, and then it is found."""

    def serve(seen: Found) -> Changes:
        if seen.requests:
            return Changes()
        row = seen.instances[OTHER]
        return Changes(updated=[replace(row, snapshot=f"{row.snapshot}+")], requests=[request])

    request = replace(REQUEST, expires_at=await store.now() + timedelta(hours=1))
    async with opened(postgres_address) as second:
        await second.run(writing(requests=[request]))
    unit = both(serve)
    await store.run(unit)
    assert unit.found
    assert unit.found.requests == {ASKED: request}
    assert await value(store, OTHER) == "0"


async def test_a_request_is_looked_for_when_nothing_is_written_for_it(
    store: PostgresStore, postgres_address: str
) -> None:
    """An order that fails writes no request id; whether it has an answer already must be read."""

    def serve(seen: Found) -> Changes:
        return Changes(updated=[replace(seen.instances[OTHER], snapshot=str(len(seen.requests)))])

    async with opened(postgres_address) as second:
        await second.run(writing(requests=[replace(REQUEST, expires_at=await store.now() + timedelta(1))]))
    await store.run(both(serve))
    assert await value(store, OTHER) == "1"


async def rewrite(client: asyncpg.Connection, first: str) -> None:
    """Rewrite the table without its dead rows, so that an instance comes first in it, where "i1" was created.

    A single VACUUM FULL may keep a dead row that another session's snapshot can still see.
    """
    for _ in range(1_000):
        await client.execute("VACUUM FULL instance")
        if await client.fetchval("SELECT ctid FROM instance WHERE id = $1", first) == (0, 1):
            return
    pytest.fail(f"{first} did not come first")


async def test_a_later_version_at_the_same_place_is_not_mistaken_for_the_remembered_one(
    store: PostgresStore, postgres_address: str
) -> None:
    """A version is a place and the transaction that wrote there."""
    async with someone(postgres_address) as other:
        await other.execute("UPDATE instance SET snapshot = '40' WHERE id = 'i1'")
        await other.execute("UPDATE instance SET snapshot = '5' WHERE id = 'i2'")
        await rewrite(other, first="i1")
        await store.run(counted(1))
    assert await value(store) == "41"
    assert await value(store, OTHER) == "5"


async def swap(address: str) -> None:
    """Put "i2" where a node remembers "i1"; one transaction wrote it and the remembered version."""
    async with someone(address) as other:
        await other.execute("UPDATE instance SET snapshot = '40' WHERE id = 'i1'")
        await rewrite(other, first="i2")


async def test_a_row_that_was_moved_to_the_place_of_another_is_not_overwritten(
    store: PostgresStore, postgres_address: str
) -> None:
    """VACUUM FULL and CLUSTER move rows and keep the transaction that wrote them: names are compared."""
    await swap(postgres_address)
    await store.run(counted(1))
    assert await value(store) == "41"
    assert await value(store, OTHER) == "0"


async def test_a_row_that_was_moved_to_the_place_of_another_proves_nothing_about_it(
    store: PostgresStore, postgres_address: str
) -> None:
    """A unit that only looks at an instance is decided again, too, when another one has its place."""

    def decide(seen: Found) -> Changes:
        return Changes(created=[instance("i3", snapshot=seen.instances[KEY].snapshot)])

    await swap(postgres_address)
    await store.run(Act(decide, lambda: Reads(instances={KEY})))
    assert await value(store, ("acme", "i3")) == "40"


async def test_an_instance_that_was_pruned_and_begun_anew_is_the_new_one(
    store: PostgresStore, postgres_address: str
) -> None:
    """The name is the same, the version is not."""
    async with opened(postgres_address) as second:
        long_ago = datetime(2020, 1, 1, tzinfo=UTC)
        await second.run(writing(updated=[instance(ended=True, updated_at=long_ago)]))
        assert await second.instances.prune(long_ago + timedelta(1), 10) == 1
        await second.run(writing(created=[instance(snapshot="100")]))
    await store.run(counted(1))
    assert await value(store) == "101"
    async with opened(postgres_address) as second:
        await second.run(writing(updated=[instance(ended=True, updated_at=long_ago)]))
        assert await second.instances.prune(long_ago + timedelta(1), 10) == 1
    assert KEY not in (await found(store, instances={KEY})).instances


async def test_an_instance_that_is_gone_is_not_there(store: PostgresStore, postgres_address: str) -> None:
    """A unit that would have changed it finds nothing to change."""

    def decide(seen: Found) -> Changes:
        return Changes(updated=[*seen.instances.values()], messages=[MESSAGE])

    async with someone(postgres_address) as other:
        await other.execute("DELETE FROM instance")
    unit = Act(decide, lambda: Reads(instances={KEY}))
    await store.run(unit)
    assert unit.found
    assert not unit.found.instances


async def test_a_new_connection_knows_nothing(store: PostgresStore, postgres_address: str) -> None:
    """A database that was put back may have the same versions with other contents."""
    assert store._database.memory.instances.recall({KEY})
    async with someone(postgres_address) as admin:
        await admin.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'headway'"
        )
    await store.now()
    assert store._database.memory.instances.recall({KEY}) is None


@pytest.mark.parametrize("changed", [False, True], ids=["not written", "perhaps written"])
async def test_a_unit_by_memory_that_is_cut_off_runs_again_if_it_has_left_no_trace(
    store: PostgresStore, postgres_address: str, *, changed: bool
) -> None:
    """Rows that are as they were prove that it was not committed; if they are not, nobody can know."""
    async with someone(postgres_address) as other:
        await other.execute("BEGIN; UPDATE instance SET snapshot = '40' WHERE id = 'i1'")
        unit = asyncio.create_task(store.run(counted(1)))
        await until_waiting(postgres_address)
        async with someone(postgres_address) as admin:
            await admin.execute(END_WAITING)
        if changed:
            await other.execute("COMMIT")
            with pytest.raises(StoreUnavailableError) as raised:
                await unit
            assert raised.value.maybe_committed
        else:
            await other.execute("ROLLBACK")
            await unit
    assert await value(store) == ("40" if changed else "1")


async def test_a_unit_by_memory_goes_by_the_clock_of_a_test(postgres_address: str) -> None:
    """The time that was remembered does not count."""
    clock = FakeClock()
    async with opened(postgres_address, clock=clock) as store:
        await store.run(writing(created=[instance(snapshot="0")]))
        clock.advance("3h")
        unit = counted(1)
        await store.run(unit)
        assert unit.found
        assert unit.found.now == clock.now()


async def test_a_timer_that_is_due_is_due_for_a_unit_by_memory(store: PostgresStore) -> None:
    """Its time is not behind what the database has shown, however long ago the database has told it."""
    store._database.memory.clock = ClockEstimate(lambda: 0.0)
    due = await store.now() + timedelta(milliseconds=20)
    await store.run(writing(timers=[replace(TIMER, due=due)]))
    while not await store.timers.due(1, KNOWN):
        pass
    unit = counted(1)
    await store.run(unit)
    assert unit.found
    assert unit.found.now >= due


async def test_the_time_of_a_unit_by_memory_is_the_databases(
    store: PostgresStore, postgres_address: str
) -> None:
    """It is neither ahead of it nor far behind."""
    async with someone(postgres_address) as other:
        before = await other.fetchval("SELECT clock_timestamp()")
        await store.run(counted(1))
        unit = counted(1)
        await store.run(unit)
        after = await other.fetchval("SELECT clock_timestamp()")
    assert unit.found
    assert before <= unit.found.now <= after


def test_memory_has_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not needed for longest is forgotten: by number, by size, and by age."""
    monkeypatch.setattr(postgres_memory, "INSTANCES_KEPT", 3)
    monkeypatch.setattr(postgres_memory, "CHARACTERS_KEPT", 100)
    time = 0.0
    memory = InstanceMemory(lambda: time)

    def keep(name: str, size: int = 1) -> None:
        memory.keep([(instance(name, snapshot="x" * size), ((0, 1), 7), 9)])

    def known() -> str:
        return "".join(name for name in "abcdef" if memory.recall([("acme", name)]) is not None)

    for name in "abca":
        keep(name)
    keep("d")
    assert known() == "acd"
    keep("e", 98)
    assert known() == "ade"
    keep("e", 101)
    assert known() == ""
    keep("f", 100)
    memory.forget([("acme", "f"), ("acme", "never")])
    keep("a", 100)
    time = postgres_memory.KEPT_FOR
    assert known() == "a"
    time += 1
    assert known() == ""
    memory.clear()
    keep("b", 100)
    assert known() == "b"


def test_what_has_ended_is_forgotten() -> None:
    """It would take the room of those that go on."""
    memory = InstanceMemory()
    memory.keep([(INSTANCE, ((0, 1), 7), 9)])
    memory.keep([(replace(INSTANCE, ended=True), ((0, 2), 8), 9)])
    assert memory.recall([KEY]) is None


def test_all_or_nothing_is_recalled() -> None:
    """A unit that has to read one instance can read all of them."""
    memory = InstanceMemory()
    memory.keep([(INSTANCE, ((0, 1), 7), 9)])
    assert memory.recall([KEY])
    assert memory.recall([KEY, OTHER]) is None


def test_the_time_goes_on_between_answers() -> None:
    """It never goes back, is never ahead, and nobody relies on one that was told long ago."""
    monotonic = 100.0
    tide = ClockEstimate(lambda: monotonic)
    seconds = timedelta(seconds=1)
    assert tide.now() is None
    tide.observe(AT)
    monotonic += 0.5
    assert tide.now() == AT + 0.5 * seconds
    tide.observe(AT + 0.2 * seconds)  # an answer that was slow to come
    assert tide.now() == AT + 0.5 * seconds
    tide.observe(AT + 0.7 * seconds)  # a quick one
    assert tide.now() == AT + 0.7 * seconds
    tide.at_least(AT + 0.8 * seconds)
    assert tide.now() == AT + 0.8 * seconds
    monotonic += 1.5
    tide.observe(AT + 0.75 * seconds)  # the clocks have drifted apart, or it was set back a little
    assert tide.now() == AT + 0.8 * seconds
    monotonic += 2.5
    assert tide.now() is None
    tide.observe(AT - timedelta(hours=1))
    assert tide.now() == AT - timedelta(hours=1)
