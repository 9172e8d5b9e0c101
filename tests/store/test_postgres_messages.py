"""Messages on PostgreSQL: a reader misses none and keeps their order, whoever commits when."""

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import pytest

from headway.codec import replace
from headway.errors import StoreUnavailableError
from headway.store.port import ANYTHING
from headway.store.postgres.connection import Listener
from headway.store.postgres.letters import redriving
from headway.store.postgres.memory import NodeMemory
from headway.store.postgres.store import PostgresStore
from headway.store.postgres.unit import UnitAttempt
from headway.store.queries import LetterQuery, MessageQuery, Settlement
from headway.store.rows import Cursor, MessageRow
from headway.store.unit import Changes, Found, Reads, Unit
from tests.store.contract.acts import Act, writing
from tests.store.contract.place import HISTORY, MESSAGE, instance, letter
from tests.store.contract.test_letters import due, keep
from tests.store.postgres_clients import opened, someone, until_waiting

pytestmark = pytest.mark.mission("ENG-5", "ENG-17")

SOCKET = ".s.PGSQL.5432"


@pytest.fixture
def store(postgres_address: str, runner: asyncio.Runner) -> Iterator[PostgresStore]:
    """An opened store."""
    store = PostgresStore(postgres_address)
    runner.run(store.open())
    yield store
    runner.run(store.close())


class Reader:
    """Follows the log, from its beginning on."""

    def __init__(self, store: PostgresStore, limit: int = 100) -> None:
        self._store, self._limit = store, limit
        self.cursor = Cursor()
        self.seen: list[str] = []

    async def read(self) -> list[str]:
        """What is new."""
        page = await self._store.messages.page(MessageQuery(self.cursor, limit=self._limit))
        assert page.cursor >= self.cursor
        self.cursor = page.cursor
        new = [row.id for row in page.messages]
        self.seen += new
        return new


def saying(*names: str) -> Act:
    """A unit that moves instances on and publishes a message of each: its name, and how far it is."""
    keys = [("acme", name) for name in names]

    def decide(seen: Found) -> Changes:
        rows = [seen.instances[key] for key in keys]
        return Changes(
            updated=[replace(row, seq=row.seq + 1) for row in rows],
            messages=[replace(MESSAGE, id=f"{row.id}:{row.seq}", instance=row.id) for row in rows],
            history=[replace(HISTORY, instance=row.id, seq=row.seq) for row in rows],
        )

    return Act(decide, lambda: Reads(instances={*keys}))


class Early:
    """A transaction that gets its id long before it works, and commits long after."""

    def __init__(self, attempt: UnitAttempt) -> None:
        self._attempt = attempt

    async def run(self, unit: Unit) -> None:
        """Wait for the locks of a unit, decide, and write."""
        await self._attempt.decide(unit, unit.begin())
        await self._attempt.write(unit.changes())


@asynccontextmanager
async def early(store: PostgresStore) -> AsyncIterator[Early]:
    """Commits at the end."""
    async with store._database.connections.connection() as connection, connection.transaction():
        await connection.fetch("SELECT pg_current_xact_id()")
        yield Early(UnitAttempt(connection, NodeMemory(lambda: None), lock=True))


async def order_of_history(store: PostgresStore) -> list[tuple[str, int]]:
    """The lines of all instances, as who follows them would see them."""
    rows = await store._database.fetch("SELECT instance, seq FROM history ORDER BY stamp, position")
    return [(name, seq) for name, seq in rows]


async def test_a_message_committed_after_a_later_one_is_not_missed(store: PostgresStore) -> None:
    """The reader waits with the later one until the earlier is there."""
    await store.run(writing(created=[instance("a"), instance("b")]))
    reader = Reader(store)
    async with early(store) as first:
        await first.run(saying("a"))
        await store.run(saying("b"))
        assert await reader.read() == []
    assert await reader.read() == ["a:1", "b:1"]
    assert await reader.read() == []


async def test_a_message_whose_transaction_wrote_late_is_not_missed(store: PostgresStore) -> None:
    """A later transaction that commits first does not take the reader past one that has yet to write."""
    await store.run(writing(created=[instance("a"), instance("b")]))
    reader = Reader(store)
    async with early(store) as first:
        await store.run(saying("b"))
        assert await reader.read() == []
        await first.run(saying("a"))
        await store.run(saying("b"))
        assert await reader.read() == []
    assert await reader.read() == ["a:1", "b:1", "b:2"]


async def test_an_early_transaction_that_waited_for_a_lock_keeps_the_instances_order(
    store: PostgresStore, postgres_address: str
) -> None:
    """What it writes comes after what the later transaction wrote that it has waited for."""
    await store.run(writing(created=[instance()]))
    reader = Reader(store, limit=1)
    async with early(store) as first:
        async with early(store) as later:
            await later.run(saying("i1"))
            waiting = asyncio.create_task(first.run(saying("i1")))
            await until_waiting(postgres_address)
            assert await reader.read() == []
        await waiting
        assert await reader.read() == []
    await store.run(saying("i1"))
    assert [await reader.read() for _ in range(4)] == [["i1:1"], ["i1:2"], ["i1:3"], []]
    assert await order_of_history(store) == [("i1", seq) for seq in (1, 2, 3)]


async def test_a_chain_of_early_transactions_keeps_its_order(store: PostgresStore) -> None:
    """Each has seen the one before it, though its id is lower."""
    await store.run(writing(created=[instance("a"), instance("b")]))
    reader = Reader(store)
    async with early(store) as lowest:
        async with early(store) as low:
            await store.run(saying("a"))
            await low.run(saying("a", "b"))
        assert await reader.read() == []
        await lowest.run(saying("b"))
    assert await reader.read() == ["a:1", "a:2", "b:1", "b:2"]


async def test_a_reader_beside_many_writers_sees_each_message_once_and_in_order(
    store: PostgresStore, postgres_address: str
) -> None:
    """Two nodes, units that read without locks, and transactions with early ids, on a few instances."""
    names = [f"i{n}" for n in range(5)]
    await store.run(writing(created=[instance(name) for name in names]))
    units = [saying(names[n * 7 % 5]) for n in range(150)]
    reader = Reader(store, limit=7)

    async def start_early(at: PostgresStore, unit: Unit) -> None:
        async with early(at) as transaction:
            await transaction.run(unit)

    async def follow() -> None:
        while len(reader.seen) < len(units):
            await reader.read()

    async with opened(postgres_address) as second, asyncio.timeout(120):
        nodes = (store, second)
        work = [
            start_early(nodes[n % 2], unit) if n % 3 == 0 else nodes[n % 2].run(unit)
            for n, unit in enumerate(units)
        ]
        await asyncio.gather(follow(), *work)
    assert await reader.read() == []
    by_instance = defaultdict(list)
    for name, _, seq in (said.partition(":") for said in reader.seen):
        by_instance[name].append(int(seq))
    assert by_instance == {name: [*range(1, 31)] for name in names}
    lines = await order_of_history(store)
    assert all([seq for name, seq in lines if name == each] == [*range(1, 31)] for each in names)


async def test_who_begins_to_read_now_gets_what_is_under_way(store: PostgresStore) -> None:
    """What is committed after the question comes, although its transaction began before."""
    await store.run(writing(messages=[replace(MESSAGE, id="old")]))
    async with early(store) as transaction:
        cursor = await store.messages.last()
        await transaction.run(writing(messages=[replace(MESSAGE, id="new")]))
    page = await store.messages.page(MessageQuery(cursor))
    assert [row.id for row in page.messages] == ["new"]


async def test_a_reader_that_finds_nothing_stands_still(store: PostgresStore) -> None:
    """Transactions that publish nothing do not move its cursor, so it has nothing to settle."""
    await store.run(writing(messages=[MESSAGE]))
    first = await store.messages.page(MessageQuery())
    for _ in range(3):
        await store.leases.hold([("", "somebody")], "w", 1)
    again = await store.messages.page(MessageQuery(first.cursor))
    assert (again.cursor, [*again.messages]) == (first.cursor, [])


async def test_what_nobody_can_read_yet_is_not_pruned_before_a_consumer(store: PostgresStore) -> None:
    """A message of a transaction with an early id is safe from a consumer that has settled before it."""
    await store.run(writing(created=[instance("a"), instance("b")]))
    await store.leases.hold([("", "c")], "w", 3_600_000)
    reader = Reader(store)
    async with early(store) as transaction:
        await transaction.run(saying("a"))
        await store.run(saying("b"))
        await reader.read()
        assert await store.messages.settle(Settlement("c", "w", reader.cursor))
    assert await store.messages.prune(await store.now(), 100) == 0
    assert await reader.read() == ["a:1", "b:1"]
    await store.messages.settle(Settlement("c", "w", reader.cursor))
    assert await store.messages.prune(await store.now(), 100) == 2


async def test_a_settlement_and_a_new_holder_do_not_cross(
    store: PostgresStore, postgres_address: str
) -> None:
    """Who takes the lease over waits for a settlement under way, and the one that lost it settles nothing."""
    await store.leases.hold([("", "c")], "w", 3_600_000)
    async with someone(postgres_address) as other:
        await other.execute("BEGIN; UPDATE lease SET holder = 'x'")
        settling = asyncio.create_task(store.messages.settle(Settlement("c", "w", Cursor(5, 5))))
        await until_waiting(postgres_address)
        await other.execute("COMMIT")
        assert not await settling
    assert await store.messages.consumer("c") is None


async def test_a_letter_that_is_redriven_meanwhile_is_tried_before_what_follows(
    store: PostgresStore, postgres_address: str
) -> None:
    """A settlement at the same time waits for it, and neither is lost."""
    await keep(store, letter(1), letter(2, dead=True), letter(3))
    sql, values = redriving(LetterQuery("a"), None)
    async with someone(postgres_address) as other:
        async with other.transaction():
            await other.execute(sql, *values)
            settling = asyncio.create_task(keep(store, delivered=(1,)))
            await until_waiting(postgres_address)
        await settling
    assert await due(store) == [2]
    await keep(store, delivered=(2,))
    assert await due(store) == [3]


async def test_whoever_deletes_a_letter_lets_the_next_be_tried(store: PostgresStore) -> None:
    """Also when it is not a settlement, and neither has seen what the other has done."""
    await keep(store, *(letter(n) for n in (1, 2, 3)), letter(4, instance="i2"))
    async with early(store) as transaction:
        connection = transaction._attempt._connection
        await connection.fetch("DELETE FROM letter WHERE position = 1")
        deleting = asyncio.create_task(store._database.write("DELETE FROM letter WHERE position = 2"))
        await until_waiting(store._database.connections._address)
    await deleting
    assert await due(store) == [3, 4]


class Ear:
    """Hears topics, and can be waited for."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()

    def __call__(self, topic: str) -> None:
        """Be told a topic."""
        self.heard.put_nowait(topic)


async def test_what_another_process_announces_is_heard(store: PostgresStore, postgres_address: str) -> None:
    """Each topic once, by all that listen, but not by the one that said it."""
    async with opened(postgres_address) as second, asyncio.timeout(60):
        mine, theirs, also = Ear(), Ear(), Ear()
        await store.listen(mine)
        await second.listen(theirs)
        await second.listen(also)
        await store.announce(["work queue", "messages", "messages"])
        await second.announce(["timers"])
        assert {await theirs.heard.get(), await theirs.heard.get()} == {"work queue", "messages"}
        assert {await also.heard.get(), await also.heard.get()} == {"work queue", "messages"}
        assert await mine.heard.get() == "timers"
        assert all(ear.heard.empty() for ear in (mine, theirs, also))


async def test_a_listener_that_was_cut_off_hears_again(store: PostgresStore, postgres_address: str) -> None:
    """Its connection is made anew; what was said in between is lost, so anything may be new."""
    ear = Ear()
    await store.listen(ear)
    async with someone(postgres_address) as admin, opened(postgres_address) as second, asyncio.timeout(60):
        await admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'headway' AND query LIKE 'LISTEN%'"
        )
        assert await ear.heard.get() == ANYTHING
        await second.announce(["again"])
        assert await ear.heard.get() == "again"


class Proxy:
    """Stands before a server's socket, and can leave those who have come in silence."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address = re.sub(r"host=[^&]+", f"host={folder}", address)
        self._server = Path(re.search(r"host=([^&]+)", address)[1]) / SOCKET  # type: ignore[index]  # it has one
        self._socket = folder / SOCKET
        self._pipes: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        """Take connections."""
        self._door = await asyncio.start_unix_server(self._connect, self._socket)
        return self

    async def __aexit__(self, *_: object) -> None:
        """End them."""
        self.freeze()
        self._door.close()
        for writer in self._writers:
            writer.close()

    def freeze(self) -> None:
        """Forward no more of what there is, and end nothing."""
        for pipe in self._pipes:
            pipe.cancel()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        their_reader, their_writer = await asyncio.open_unix_connection(self._server)
        self._writers += (writer, their_writer)
        for source, target in ((reader, their_writer), (their_reader, writer)):
            self._pipes.append(asyncio.create_task(_forward(source, target)))


async def _forward(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65_536):
        target.write(data)
        await target.drain()
    target.close()


async def test_a_listener_whose_connection_is_dead_in_silence_notices(
    postgres_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks now and then whether somebody is there, and connects anew when nobody answers."""
    ear = Ear()
    monkeypatch.setattr("headway.store.postgres.connection.CHECKED_EVERY", 0.01)
    async with (
        Proxy(postgres_address, tmp_path) as proxy,
        opened(postgres_address) as other,
        asyncio.timeout(60),
    ):
        listener = Listener(proxy.address)
        await listener.listen(ear)
        await other.announce(["first"])
        assert await ear.heard.get() == "first"
        monkeypatch.setattr("headway.store.postgres.connection.PATIENCE", 0.01)
        proxy.freeze()
        assert await ear.heard.get() == ANYTHING
        await other.announce(["second"])
        while await ear.heard.get() != "second":
            pass
        await listener.close()


async def test_a_closed_store_hears_nothing_and_leaves_no_connection(postgres_address: str) -> None:
    """The connection that listens goes with the store."""
    async with opened(postgres_address) as store:
        await store.listen(Ear())
    with pytest.raises(StoreUnavailableError):
        await store.listen(Ear())
    async with someone(postgres_address) as admin, asyncio.timeout(60):
        while await admin.fetchval(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = 'headway' AND datname = current_database()"
        ):
            pass


async def test_a_message_comes_back_as_it_went_in(store: PostgresStore) -> None:
    """With its place in the log, from which to read on."""
    await store.run(writing(messages=[MESSAGE]))
    [row] = (await store.messages.page(MessageQuery())).messages
    assert isinstance(row, MessageRow)
    assert replace(row, stamp=0, position=0) == MESSAGE
    assert row.cursor > Cursor()
