"""SQLite in particular: its threads, its file, its failures, and the cost of its statements."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.clock import SystemClock
from headway.codec import replace
from headway.errors import InputError, SchemaError, StoreError, StoreFullError, StoreUnavailableError
from headway.store.queries import Claim, InstanceQuery
from headway.store.sqlite import tables as sqlite_tables
from headway.store.sqlite.store import SqliteStore
from headway.store.sqlite.tables import Table
from headway.store.unit import Changes, Found
from headway.testing import FakeClock
from tests.places import sqlite_file
from tests.store.contract.acts import KEY, Act, found, writing
from tests.store.contract.place import (
    HISTORY,
    INSTANCE,
    KNOWN,
    MESSAGE,
    RECORD,
    REQUEST,
    TIMER,
    WORK,
    instance,
    work,
)

pytestmark = pytest.mark.mission("ENG-17")

TABLES: list[Table[Any]] = [each for each in vars(sqlite_tables).values() if isinstance(each, Table)]
ROOMY = 1_000_000


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A migrated file."""
    sqlite_file(request)
    return tmp_path / "headway.db"


@pytest.fixture
def kept(path: Path, clock: FakeClock, runner: asyncio.Runner) -> Iterator[SqliteStore]:
    """A store on the file that does not wait long for others."""
    store = SqliteStore(str(path), clock, patience="50ms")
    runner.run(store.open())
    yield store
    runner.run(store.close())


async def fetch(store: SqliteStore, sql: str, values: Any = ()) -> list[tuple[Any, ...]]:
    """What the writer's connection answers."""
    return await store._database.writer.call(lambda connection: connection.fetch(sql, values))


async def test_each_commit_is_synced_and_readers_never_write(kept: SqliteStore) -> None:
    """The settings that durability rests on are on."""
    settings = [
        await fetch(kept, f"PRAGMA {name}") for name in ("journal_mode", "synchronous", "foreign_keys")
    ]
    assert settings == [[("wal",)], [(2,)], [(1,)]]
    assert await kept._database.reader.call(lambda connection: connection.fetch("PRAGMA query_only")) == [
        (1,)
    ]


async def test_closing_ends_the_threads(kept: SqliteStore) -> None:
    """A closed store leaves no thread behind."""
    assert sum(thread.name == "headway-sqlite" for thread in threading.enumerate()) == 2
    await kept.close()
    assert not any(thread.name == "headway-sqlite" for thread in threading.enumerate())


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
async def test_each_field_of_a_row_has_its_column(kept: SqliteStore, table: Table[Any]) -> None:
    """The rows and the migrations agree, field by field."""
    columns = {name for _, name, *_ in await fetch(kept, f"PRAGMA table_info({table.name})")}
    assert columns - {"no", "place", "head", "line", "pruned"} == {*table.columns}


@pytest.mark.mission("ENG-4")
async def test_an_instance_ends_once(kept: SqliteStore) -> None:
    """Who would bring an ended instance back to life is told, and changes nothing."""
    ended = instance(ended=True)
    await kept.run(writing(created=[ended]))
    await kept.run(writing(updated=[ended]))
    with pytest.raises(StoreError):
        await kept.run(writing(updated=[INSTANCE]))
    assert await kept.instances.get(KEY) == ended


@pytest.mark.mission("ENG-5")
async def test_a_position_is_never_used_twice(kept: SqliteStore) -> None:
    """Who follows the outbox misses nothing, even when all that was sent is deleted."""
    await kept.run(writing(messages=[MESSAGE]))
    await fetch(kept, "DELETE FROM outbox")
    await kept.run(writing(messages=[MESSAGE]))
    assert await fetch(kept, "SELECT position FROM outbox") == [(2,)]


async def test_reads_run_beside_a_unit(kept: SqliteStore) -> None:
    """A unit that takes its time holds up nobody who only looks, and shows nothing before it ends."""
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def decide(_: Found) -> Changes:
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(60)
        return Changes(created=[INSTANCE])

    task = asyncio.create_task(kept.run(Act(decide)))
    await begun.wait()
    assert await kept.instances.get(KEY) is None
    go_on.set()
    await task
    assert await kept.instances.get(KEY) == INSTANCE


@pytest.mark.mission("ENG-3")
def test_a_loop_that_ends_leaves_the_unit_whole(path: Path) -> None:
    """When the caller's loop is closed in the middle, the unit still ends, and the store can be closed."""
    store = SqliteStore(str(path))
    go_on = threading.Event()

    def decide(_: Found) -> Changes:
        assert go_on.wait(60)
        return Changes(created=[INSTANCE], history=[HISTORY])

    async def leave() -> None:
        await store.open()
        task = asyncio.create_task(store.run(Act(decide)))
        await asyncio.sleep(0)
        assert not task.done()

    asyncio.run(leave())
    go_on.set()

    async def look() -> None:
        await store.run(writing())
        assert await store.instances.get(KEY) == INSTANCE
        assert len(await store.history.page(KEY)) == 1
        await store.close()

    asyncio.run(look())


async def test_a_locked_file_is_an_error_that_ends(path: Path, kept: SqliteStore) -> None:
    """A file that another holds for too long is unavailable, with nothing changed; then work goes on."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for call in (kept.run(writing(created=[INSTANCE])), kept.requests.prune(1)):
        with pytest.raises(StoreUnavailableError, match="locked by another process") as raised:
            await call
        assert not raised.value.maybe_committed
    assert await kept.instances.get(KEY) is None
    other.execute("ROLLBACK")
    other.close()
    await kept.run(writing(created=[INSTANCE]))
    assert await kept.instances.get(KEY) == INSTANCE


@pytest.mark.mission("ENG-3")
async def test_a_full_disk_changes_nothing(kept: SqliteStore) -> None:
    """A unit that finds no room is refused whole; a smaller one succeeds, and all do once there is room."""
    pages = (await fetch(kept, "PRAGMA page_count"))[0][0]
    await fetch(kept, f"PRAGMA max_page_count = {pages + 2}")
    big = writing(created=[INSTANCE, instance("i2", snapshot="x" * 100_000)], counters={("acme", "n"): 1})
    with pytest.raises(StoreFullError):
        await kept.run(big)
    seen = await found(kept, instances={KEY, ("acme", "i2")}, counters={("acme", "n")})
    assert not seen.instances
    assert not seen.counters
    await kept.run(writing(counters={("acme", "n"): 1}))
    await fetch(kept, f"PRAGMA max_page_count = {ROOMY}")
    await kept.run(big)
    assert (await found(kept, counters={("acme", "n")})).counters == {("acme", "n"): 2}


PROGRAM = """
import asyncio, resource, sys, threading
from headway.errors import StoreUnavailableError
from headway.store.sqlite.store import SqliteStore
from tests.store.contract.acts import Act, counted, writing
from tests.store.contract.place import instance

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

async def main(path):
    store = SqliteStore(path, patience="30s")
    await store.open()
{body}
    await store.close()

asyncio.run(main(sys.argv[1]))
"""


def process(path: Path, body: str) -> "subprocess.Popen[str]":
    """A process of its own that opens the file and does something with it."""
    indented = "\n".join(f"    {line}" for line in body.strip().splitlines())
    program = PROGRAM.replace("{body}", indented)
    return subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True)


@pytest.mark.mission("ENG-4")
async def test_two_processes_on_one_file_lose_no_update(path: Path, kept: SqliteStore) -> None:
    """They take turns, and both get all their units through."""
    await kept.run(writing(created=[instance(snapshot="0")]))
    both = [process(path, "for _ in range(60):\n    await store.run(counted(1))") for _ in range(2)]
    for each in both:
        each.communicate(timeout=120)
    row = await kept.instances.get(KEY)
    assert [each.returncode for each in both] == [0, 0]
    assert row
    assert row.snapshot == "120"


@pytest.mark.mission("ENG-3")
async def test_a_process_killed_within_a_unit_leaves_nothing(path: Path, kept: SqliteStore) -> None:
    """What it had committed stays, what it was about to commit is gone, and the file is free."""
    body = """
await store.run(writing(created=[instance("before")]))

def decide(found):
    print("within", flush=True)
    threading.Event().wait()

await store.run(Act(decide))
"""
    killed = process(path, body)
    assert killed.stdout
    assert killed.stdout.readline() == "within\n"
    with pytest.raises(StoreUnavailableError):
        await kept.run(writing())
    killed.kill()
    killed.communicate()
    await kept.run(writing(created=[instance("after")]))
    rows = await kept.instances.page(InstanceQuery(tenant="acme"))
    assert [row.id for row in rows] == ["before", "after"]


@pytest.mark.mission("ENG-3")
async def test_a_file_that_cannot_be_written_is_an_error_that_ends(path: Path, kept: SqliteStore) -> None:
    """An I/O error is told with its doubt; when the file can be written again, the same store goes on."""
    body = """
limit(200_000)
try:
    await store.run(writing(created=[instance("big", snapshot="x" * 1_000_000)]))
except StoreUnavailableError as error:
    print(error.maybe_committed, "cannot be read or written" in str(error))
print(await store.instances.get(("acme", "big")))
limit(resource.RLIM_INFINITY)
await store.run(writing(created=[instance("big", snapshot="x" * 1_000_000)]))
"""
    ended = process(path, body)
    printed, _ = ended.communicate(timeout=120)
    assert printed.splitlines() == ["True True", "None"]
    assert await kept.instances.get(("acme", "big"))


@pytest.mark.parametrize("key", [("acme", "\ud800"), ("\udfff", "i1")])
async def test_text_that_is_no_text_is_refused(kept: SqliteStore, key: tuple[str, str]) -> None:
    """Half a character cannot be stored or looked for, and is told as input that is wrong."""
    with pytest.raises(InputError):
        await kept.run(writing(created=[replace(INSTANCE, tenant=key[0], id=key[1])], history=[HISTORY]))
    with pytest.raises(InputError):
        await kept.instances.get(key)
    with pytest.raises(InputError):
        await kept.run(writing(created=[replace(INSTANCE, seq=2**70)]))
    assert not await kept.history.page(KEY)


@pytest.mark.parametrize("content", [b"no database, but long enough to be read as one" * 40, None])
async def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """Another kind of file, or a folder, is an error when the store opens."""
    place = tmp_path / "other"
    place.mkdir() if content is None else place.write_bytes(content)
    with pytest.raises(StoreUnavailableError):
        await SqliteStore(str(place)).open()


@pytest.mark.parametrize("files", [(), ("headway.db",)], ids=["missing", "empty"])
def test_a_database_without_tables_names_the_command(
    tmp_path: Path, runner: asyncio.Runner, files: tuple[str, ...]
) -> None:
    """A file that is missing or empty is not made on the way, and the error says what makes it."""
    for name in files:
        (tmp_path / name).touch()
    store = SqliteStore(str(tmp_path / "headway.db"))
    with pytest.raises(SchemaError, match="headway db up"):
        runner.run(store.open())
    assert [each.name for each in tmp_path.iterdir()] == [*files]
    with pytest.raises(StoreUnavailableError):
        runner.run(store.run(writing()))


@pytest.mark.mission("ENG-9", "ENG-10")
async def test_time_is_the_clocks(kept: SqliteStore, clock: FakeClock) -> None:
    """Timers, leases and request ids come due when the clock says so, to the microsecond."""
    start = clock.now()
    due = replace(TIMER, due=start.replace(microsecond=1))
    await kept.run(
        writing(timers=[due], work=[work(lease=5_000)], requests=[replace(REQUEST, expires_at=due.due)])
    )
    assert await kept.now() == start
    assert not await kept.timers.due(1, KNOWN)
    assert await kept.requests.prune(1) == 0
    assert await kept.work.claim(Claim("w", ("default",), 1, KNOWN))
    clock.advance("4s")
    assert await kept.timers.due(1, KNOWN) == [due]
    assert await kept.requests.prune(1) == 1
    assert await kept.work.extend("w", [("acme", "w1", 1)]) == [("acme", "w1")]
    clock.advance("4s")
    assert not await kept.work.expired(1, KNOWN)
    clock.advance("1s")
    assert [row.id for row in await kept.work.expired(1, KNOWN)] == ["w1"]
    assert not await kept.work.extend("w", [("acme", "w1", 1)])


async def test_turns_go_round(kept: SqliteStore) -> None:
    """Small claims serve all tenants as often, in whatever share the room allows."""
    items = [work(f"w{n}", tenant=f"t{n % 5}") for n in range(100)]
    await kept.run(writing(work=items))
    claim = Claim("w", ("default",), 3, KNOWN)
    served = [row.tenant for _ in range(10) for row in await kept.work.claim(claim)]
    assert {served.count(f"t{n}") for n in range(5)} == {6}


async def test_a_store_in_memory_needs_no_preparation() -> None:
    """It makes its own tables, on the machine's clock, and forgets them when it closes."""
    store = SqliteStore(":memory:")
    await store.open()
    await store.run(writing(created=[INSTANCE], records=[RECORD], work=[WORK]))
    assert await store.instances.get(KEY) == INSTANCE
    assert abs((await store.now() - SystemClock().now()).total_seconds()) < 10
    await store.close()
    await store.open()
    assert await store.instances.get(KEY) is None
    await store.close()


async def test_the_lock_of_a_name_cannot_be_written_by_other_users(kept: SqliteStore, path: Path) -> None:
    """The files beside the database that hold the names of nodes are the user's own, whatever the umask."""
    before = os.umask(0)
    try:
        assert await kept.leases.take_name("mill", "mill#1")
    finally:
        os.umask(before)
    [file] = path.parent.glob("headway.db-node-*")
    assert file.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH) == 0
