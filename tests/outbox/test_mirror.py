"""The mirror: what stands in Redis ends up equal to the database, whatever happens to Redis."""

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel

from headway import Final, State, Statechart
from headway.codec import decode, replace
from headway.engine.engine import Engine
from headway.engine.service import Service
from headway.errors import DeliveryError, InputError, UnreachableError
from headway.node import Node
from headway.outbox.mirror import Mirror, MirroredInstance, RedisMirror
from headway.outbox.redis import Command
from headway.statechart.snapshot import Snapshot
from headway.statechart.types import Sensitive
from headway.store import migrate
from headway.store.address import database_at, sqlite_path, store_at
from headway.store.port import ANYTHING, Store
from headway.store.queries import InstanceQuery
from headway.store.rows import Cursor, InstanceRow
from headway.testing import FakeClock
from tests.engine.tailing import Job, progress
from tests.outbox.redis_server import RedisProcess
from tests.overlay import Overlay
from tests.store.postgres_clients import someone

pytestmark = pytest.mark.mission("ENG-17")

TENANTS = ("acme", "ac", "ac:me")


class Run(Statechart, owner="{user}"):
    """Counts its turns."""

    going = State(initial=True)
    done = Final()
    turn = going.stay()
    finish = going.to(done)


@pytest.fixture
def redis(tmp_path: Path, runner: asyncio.Runner) -> Iterator[RedisProcess]:
    """A server of the test's own."""
    process = RedisProcess(tmp_path)
    runner.run(process.start())
    yield process
    process.kill()


@pytest.fixture
def engine(store: Store, runner: asyncio.Runner) -> Engine:
    """An engine on each kind of store."""
    engine = Engine(store, [Run])
    runner.run(engine.open())
    return engine


async def until_idle(mirror: Mirror) -> None:
    """Take turns until nothing is new."""
    while await mirror.turn():
        pass


async def mirrored(mirror: Mirror, engine: Engine) -> bool:
    """Whether every instance of the database stands in the mirror as it is."""
    for tenant in TENANTS:
        for row in await engine.list(InstanceQuery(tenant=tenant)):
            shown = await mirror.read(tenant, row.id)
            if shown is None or any(
                getattr(shown, name) != getattr(row, name) for name in MirroredInstance.__struct_fields__
            ):
                return False
    return True


class Pruning:
    """A store during whose answers something is pruned."""

    def __init__(self, store: Store, forgotten: Callable[[], Awaitable[Cursor]]) -> None:
        self.events = Overlay(store.events, forgotten=forgotten)
        self.history, self.instances = store.history, store.instances


async def prune(engine: Engine, clock: FakeClock) -> None:
    """Let go of what has ended."""
    clock.advance("1h")
    await engine.store.instances.prune(clock.now(), 100)


async def create(engine: Engine, *names: str, tenant: str = "acme") -> None:
    """Create instances."""
    for name in names:
        await engine.create(tenant, name, Run, context={"user": "ann"})


async def test_each_commit_shows_in_the_mirror(engine: Engine, redis: RedisProcess) -> None:
    """Status, seq, owner, snapshot and all; tenants with like names do not meet."""
    mirror = Mirror(engine, redis.url, page=3)
    await create(engine, "a", "b")
    await create(engine, "me:x", tenant="ac")
    await create(engine, "x", tenant="ac:me")
    await until_idle(mirror)
    assert await mirrored(mirror, engine)
    await asyncio.gather(*(engine.send("acme", "a", Run.turn()) for _ in range(20)))
    await until_idle(mirror)
    assert await mirrored(mirror, engine)
    assert await mirror.read("acme", "nobody") is None
    await mirror.stop()


async def test_a_running_mirror_follows_without_being_told(engine: Engine, redis: RedisProcess) -> None:
    """A commit wakes it: it does not wait for its rest to end."""
    mirror = Mirror(engine, redis.url)
    mirror.longest_rest = 3_600
    async with asyncio.timeout(60), mirror:
        await create(engine, "a")
        for seq in range(2, 5):
            await engine.send("acme", "a", Run.turn())
            while (shown := await mirror.read("acme", "a")) is None or shown.seq < seq:
                pass


async def test_a_message_without_a_line_wakes_the_mirror(store: Store, redis: RedisProcess) -> None:
    """How far work has come shows at once, too."""
    async with Engine(store, [Job]) as engine, asyncio.timeout(60):
        mirror = Mirror(engine, redis.url)
        mirror.longest_rest = 3_600
        await engine.create("acme", "j", Job)
        async with mirror:
            while await mirror.read("acme", "j") is None:
                pass
            await progress(engine, "j", 0.5)
            row = await engine.row("acme", "j")
            while (shown := await mirror.read("acme", "j")) is None or shown.snapshot != row.snapshot:
                pass


async def test_redis_down_slows_no_send_and_loses_nothing(engine: Engine, redis: RedisProcess) -> None:
    """Sends go on as if nothing were; when Redis is back the mirror catches up."""
    mirror = Mirror(engine, redis.url, page=3)
    await create(engine, "a", "b")
    await until_idle(mirror)
    redis.kill()
    for _ in range(5):
        await engine.send("acme", "a", Run.turn())
        with pytest.raises(UnreachableError):
            await mirror.turn()
    await engine.send("acme", "b", Run.finish())
    with pytest.raises(UnreachableError):
        await mirror.read("acme", "a")
    await redis.start()
    await until_idle(mirror)
    assert await mirrored(mirror, engine)
    await mirror.stop()


async def test_a_redis_that_is_away_is_not_asked_again_at_each_commit(
    engine: Engine, redis: RedisProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is asked again after a pause, of which a line tells, however many commits there are meanwhile."""
    monkeypatch.setattr("headway.engine.service.FIRST_PAUSE", 600.0)
    monkeypatch.setattr("headway.engine.service.LONGEST_PAUSE", 600.0)
    await create(engine, "a")
    redis.kill()
    mirror = Mirror(engine, redis.url)
    async with mirror, asyncio.timeout(60):
        for _ in range(30):
            await engine.send("acme", "a", Run.turn())
            with pytest.raises(UnreachableError):
                await mirror.read("acme", "a")
    [told] = caplog.messages
    assert caplog.records[0].exc_info is None
    assert told.endswith("going on in 600.0 s")


async def test_a_redis_that_has_lost_its_data_gets_all_of_it_anew(
    engine: Engine, redis: RedisProcess
) -> None:
    """How far the mirror has come is lost with the rest, and so it begins again."""
    mirror = Mirror(engine, redis.url, page=3)
    await create(engine, *"abcdefgh")
    await until_idle(mirror)
    await redis.ask("FLUSHALL")
    assert not await mirrored(mirror, engine)
    await until_idle(mirror)
    assert await mirrored(mirror, engine)
    await mirror.stop()


async def test_a_redis_that_is_emptied_in_the_middle_of_a_page_gets_all_of_it_anew(
    engine: Engine, redis: RedisProcess
) -> None:
    """The mirror does not believe that what went before is still there."""

    class Interrupted(Mirror):
        async def _write(self, rows: Sequence[InstanceRow]) -> None:
            if self.tally["written"] == 3:
                await redis.ask("FLUSHALL")
            await super()._write(rows)

    mirror = Interrupted(engine, redis.url, page=3)
    await create(engine, *"abcdefgh")
    await until_idle(mirror)
    await until_idle(mirror)
    assert await mirrored(mirror, engine)
    await mirror.stop()


async def copied(address: str) -> str:
    """A database with all that is in one that nobody has open."""
    if path := sqlite_path(address):
        shutil.copy(path, f"{path}.copy")
        return f"sqlite:///{path}.copy"
    name, copy = re.search(r"/(\w+)\?", address)[1], f"copy_{uuid4().hex}"  # type: ignore[index]  # it has one
    async with someone(address.replace(f"/{name}?", "/postgres?")) as admin:
        await admin.execute(f"CREATE DATABASE {copy} TEMPLATE {name}")
    return address.replace(f"/{name}?", f"/{copy}?")


@pytest.mark.parametrize("turns", [0, 1, 30], ids=["as it was", "shorter", "longer than before"])
async def test_a_database_that_was_put_back_gets_a_mirror_of_its_own(
    database: str, redis: RedisProcess, turns: int, caplog: pytest.LogCaptureFixture
) -> None:
    """What happened after the backup is not shown any more, however far the log has come again meanwhile."""
    async with database_at(database, create=True) as empty:
        await migrate.up(empty)
    async with Engine(store_at(database), [Run]) as engine:
        await create(engine, "a", "b")
        await engine.send("acme", "a", Run.turn())
    backup = await copied(database)
    async with Engine(store_at(database), [Run]) as engine:
        await create(engine, "lost")
        for _ in range(5):
            await engine.send("acme", "a", Run.turn())
        mirror = Mirror(engine, redis.url)
        await until_idle(mirror)
        assert await mirror.read("acme", "lost")
        await mirror.stop()
    async with Engine(store_at(backup), [Run]) as engine:
        for _ in range(turns):
            await engine.send("acme", "b", Run.turn())
        mirror = Mirror(engine, redis.url)
        await until_idle(mirror)
        assert await mirrored(mirror, engine)
        assert await mirror.read("acme", "lost") is None
        assert "gets all instances again" in caplog.text
        caplog.clear()
        await engine.send("acme", "a", Run.turn())
        await until_idle(mirror)
        assert await mirrored(mirror, engine)
        assert not caplog.messages
        await mirror.stop()


async def test_who_begins_anew_leaves_alone_what_is_not_the_mirrors(
    engine: Engine, redis: RedisProcess
) -> None:
    """Only its own keys are deleted: not another mirror's, nor a stream that is named alike."""
    mirror, other = Mirror(engine, redis.url, prefix="a*"), Mirror(engine, redis.url, prefix="ab")
    await create(engine, "x", "y")
    await until_idle(mirror)
    await until_idle(other)
    await redis.ask("XADD", "a*:4:acme:z", "*", "k", "v")
    await redis.ask("HSET", "a*:4", "k", "v")
    await redis.ask("SET", "a*:cursor", "what nobody can read")
    await redis.ask("HSET", "a*:4:acme:gone", "k", "v")
    await until_idle(mirror)
    assert await mirrored(mirror, engine)
    assert await mirrored(other, engine)
    assert await redis.ask("EXISTS", "a*:4:acme:z", "a*:4", "a*:4:acme:gone") == 2
    await mirror.stop()
    await other.stop()


async def test_what_was_pruned_while_redis_was_away_is_not_shown(
    engine: Engine, redis: RedisProcess, clock: FakeClock
) -> None:
    """No line tells of it any more, so the mirror looks for what is gone; and not again when it has."""
    mirror = Mirror(engine, redis.url)
    await create(engine, "a", "b", "c")
    await until_idle(mirror)
    await engine.send("acme", "a", Run.finish())
    await prune(engine, clock)
    await engine.send("acme", "b", Run.turn())
    await until_idle(mirror)
    assert await mirrored(mirror, engine)
    assert await mirror.read("acme", "a") is None
    assert mirror.tally["swept"] == 1
    await engine.send("acme", "b", Run.turn())
    await until_idle(mirror)
    assert mirror.tally["swept"] == 1
    await mirror.stop()


async def test_what_is_pruned_while_a_page_is_read_is_not_shown(
    engine: Engine, redis: RedisProcess, clock: FakeClock
) -> None:
    """The instance of a line may be gone when it is looked up."""
    mirror = Mirror(engine, redis.url)
    await create(engine, "a", "b")
    await until_idle(mirror)
    await engine.send("acme", "a", Run.finish())
    forgotten = engine.store.events.forgotten

    async def then_prune() -> Cursor:
        answer = await forgotten()
        await prune(engine, clock)
        return answer

    mirror._store = Pruning(engine.store, then_prune)  # type: ignore[assignment]  # all that a page needs
    await mirror.turn()
    assert await mirror.read("acme", "a") is None
    assert await mirrored(mirror, engine)
    await mirror.stop()


async def test_the_last_line_may_be_pruned(
    engine: Engine, redis: RedisProcess, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The mirror knows that from a database that was put back, and goes on."""
    mirror = Mirror(engine, redis.url)
    await create(engine, "b", "a")
    await engine.send("acme", "a", Run.finish())
    await until_idle(mirror)
    await prune(engine, clock)
    await until_idle(mirror)
    await engine.send("acme", "b", Run.turn())
    await until_idle(mirror)
    assert await mirrored(mirror, engine)
    assert not caplog.messages
    assert mirror.tally["written"] == 3
    await mirror.stop()


async def test_what_redis_does_not_take_is_written_when_it_does(engine: Engine, redis: RedisProcess) -> None:
    """The mirror does not go on past it."""
    mirror = Mirror(engine, redis.url, page=1)
    await create(engine, "a")
    await until_idle(mirror)
    await create(engine, "b", "c")
    await redis.ask("SET", mirror.key(("acme", "b")), "somebody else's")
    for _ in range(2):
        with pytest.raises(DeliveryError, match="WRONGTYPE"):
            await until_idle(mirror)
    with pytest.raises(DeliveryError, match="WRONGTYPE"):
        await mirror.read("acme", "b")
    await redis.ask("DEL", mirror.key(("acme", "b")))
    await until_idle(mirror)
    assert await mirrored(mirror, engine)
    await mirror.stop()


async def test_large_instances_go_to_redis_a_few_at_a_time(
    engine: Engine, redis: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent in one go is there within the timeout."""
    mirror, sizes = Mirror(engine, redis.url), []
    for name in "abcdefgh":
        await engine.create("acme", name, Run, context={"user": "ann", "much": "x" * 1_000})
    run = mirror._server.run

    async def counted(commands: Sequence[Command]) -> list[Any]:
        sizes.append(sum(len(str(part)) for command in commands for part in command))
        return await run(commands)

    monkeypatch.setattr(mirror._server, "run", counted)
    monkeypatch.setattr("headway.outbox.mirror.MOST_BYTES", 8_000)
    await until_idle(mirror)
    assert 4_000 < max(sizes) <= 8_100
    assert await mirrored(mirror, engine)
    await mirror.stop()


async def test_an_older_state_never_takes_the_place_of_a_newer(engine: Engine, redis: RedisProcess) -> None:
    """Not when it comes late, nor when it belongs to an earlier life of the name."""
    mirror = Mirror(engine, redis.url)
    await create(engine, "a")
    old = await engine.row("acme", "a")
    await engine.send("acme", "a", Run.turn())
    new = await engine.row("acme", "a")
    for rows in ((new, old), (old, new), (old,)):
        for row in rows:
            await mirror._server.run([mirror._command(row)])
        assert await mirrored(mirror, engine)
    await mirror.stop()


async def test_what_has_ended_is_shown_for_a_while(engine: Engine, redis: RedisProcess) -> None:
    """Then Redis forgets it by itself; what lives stays."""
    mirror = Mirror(engine, redis.url, keep="1h")
    await create(engine, "a", "b")
    await engine.send("acme", "a", Run.finish())
    await until_idle(mirror)
    assert 0 < await redis.ask("PTTL", mirror.key(("acme", "a"))) <= 3_600_000
    assert await redis.ask("PTTL", mirror.key(("acme", "b"))) == -1
    await mirror.stop()


async def test_one_of_two_nodes_writes(engine: Engine, redis: RedisProcess) -> None:
    """The other takes over when it stops."""
    first, second = Mirror(engine, redis.url), Mirror(Engine(engine.store, [Run]), redis.url)
    await create(engine, "a")
    await until_idle(first)
    await until_idle(second)
    assert (first.tally["written"], second.tally["written"]) == (1, 0)
    await first.stop()
    await engine.send("acme", "a", Run.turn())
    await until_idle(second)
    assert second.tally["written"] == 1
    assert await mirrored(second, engine)
    await second.stop()


async def test_a_node_keeps_the_mirror_it_is_given(database: str, redis: RedisProcess) -> None:
    """It starts and sends while Redis is away; later any process reads where instances stand."""
    redis.kill()
    shown = RedisMirror(redis.url)
    async with asyncio.timeout(60), Node(database, [Run], mirror=shown) as node:
        acme = node.tenant("acme")
        await acme.create(Run, "a", context={"user": "ann"})
        await acme.send("a", Run.turn())
        assert node.mirror in node.services
        await redis.start()
        while (found := await shown.read("acme", "a")) is None:
            await node.engine.row("acme", "a")
        assert (found.status, found.seq, found.owner) == ("going", 2, "ann")
    reader = RedisMirror(redis.url)
    assert await reader.read("acme", "a") == found
    await reader.close()


@pytest.mark.parametrize("topic", ["events", "messages", ANYTHING])
async def test_what_another_process_announces_wakes_the_mirror(
    tmp_path: Path, redis: RedisProcess, topic: str
) -> None:
    """A line, a message that may come without one, or a call after which anything may be new."""
    node = Node(f"sqlite:///{tmp_path}/headway.db", [Run], mirror=RedisMirror(redis.url))
    assert node.mirror is not None
    node._heard("timers")
    assert not node.mirror._woken.is_set()
    node._heard(topic)
    assert node.mirror._woken.is_set()
    if topic == ANYTHING:
        services = [service for service in node.services if isinstance(service, Service)]
        assert len(services) == len(node.services)
        assert all(service._woken.is_set() for service in services)


async def test_a_mirror_writes_nothing_to_the_database_for_a_commit(
    engine: Engine, redis: RedisProcess
) -> None:
    """Its lease is asked for now and then, not in each turn."""
    mirror, holds = Mirror(engine, redis.url), []
    hold = engine.store.leases.hold

    async def counted(*given: object) -> object:
        holds.append(given)
        return await hold(*given)  # type: ignore[arg-type]

    counting: Any = Overlay(engine.store, leases=Overlay(engine.store.leases, hold=counted))
    mirror._lease._store = counting
    await create(engine, "a")
    for _ in range(10):
        await engine.send("acme", "a", Run.turn())
        await until_idle(mirror)
    assert len(holds) == 1
    await mirror.stop()


def test_what_is_no_url_is_refused() -> None:
    """When the mirror is made, not when the node runs."""
    with pytest.raises(InputError, match="URL"):
        RedisMirror("not a url")


class Pocket(BaseModel):
    """What a purse knows."""

    user: str = "ann"
    pin: Sensitive[str] = "0815-pin"


class Purse(Statechart, context=Pocket):
    """Keeps a secret."""

    full = State(initial=True)
    empty = Final()
    spend = full.to(empty)


async def test_what_is_sensitive_does_not_go_to_redis(store: Store, redis: RedisProcess) -> None:
    """The mirror shows a context as GET does: nothing of it when the node does not know its chart."""
    engine = Engine(store, [Purse])
    await engine.open()
    await engine.create("acme", "p", Purse)
    for prefix, charts, context in (
        ("knows", [Purse], {"user": "ann", "pin": "[redacted]"}),
        ("does-not", [Run], {}),
    ):
        mirror = Mirror(Engine(store, charts), redis.url, prefix=prefix)
        await until_idle(mirror)
        shown = await mirror.read("acme", "p")
        assert shown is not None
        assert decode(Snapshot, shown.snapshot) == replace(await engine.get("acme", "p"), context=context)
        await mirror.stop()
    assert (await engine.get("acme", "p")).context["pin"] == "0815-pin"
