"""Messages to Redis: channels and streams, on a real server that is killed and comes back."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from headway.engine.engine import Engine
from headway.errors import InputError, PermanentError, UnreachableError
from headway.outbox import redis as redis_module
from headway.outbox.letters import Letters
from headway.outbox.message import Message, Template, message_id
from headway.outbox.redis import RedisChannel, RedisDestination, RedisServer, RedisStream
from headway.outbox.relay import Relay
from headway.store.port import Store
from headway.store.queries import LetterQuery, MessageQuery
from headway.testing import FakeClock
from tests.outbox.redis_server import RedisProcess
from tests.outbox.world import ACME, QUICK, publish, until_idle

pytestmark = pytest.mark.mission("ENG-5", "ENG-17")

FIRST: dict[str, Any] = {"begins": "first", "backoff": QUICK}


@pytest.fixture
def redis(tmp_path: Path, runner: asyncio.Runner) -> Iterator[RedisProcess]:
    """A server of the test's own."""
    process = RedisProcess(tmp_path)
    runner.run(process.start())
    yield process
    process.kill()


def relay_to(store: Store, destination: RedisDestination) -> Relay:
    """A relay to it."""
    return Relay(Engine(store), destination)


def events(entries: Any) -> list[tuple[str, str]]:
    """The instances and names of what stands in a stream."""
    return [(fields["subject"], fields["type"]) for _, fields in entries]


async def test_a_stream_holds_each_message_with_its_id(store: Store, redis: RedisProcess) -> None:
    """The entry's own id is Redis's; the message's stands beside the event."""
    await publish(store, "t1", "task.done", data={"n": 1})
    [row] = (await store.messages.page(MessageQuery())).messages
    relay = relay_to(store, RedisStream("log", "headway:{tenant}", redis.url, **FIRST))
    await until_idle(relay)
    [(_, found)] = await redis.ask("XRANGE", "headway:acme", "-", "+")
    event = json.loads(found.pop("event"))
    assert found == {"id": message_id(ACME, row.id, row.at), "type": "task.done", "subject": "t1"}
    assert (event["id"], event["data"], event["specversion"]) == (found["id"], {"n": 1}, "1.0")
    await relay.stop()


async def test_a_stream_keeps_order_and_a_bounded_length(store: Store, redis: RedisProcess) -> None:
    """Messages stand as they were published; the oldest give way."""
    for n in range(300):
        await publish(store, f"i{n % 3}", f"m{n}")
    relay = relay_to(store, RedisStream("log", "log", redis.url, longest=100, **FIRST))
    await until_idle(relay)
    seen = events(await redis.ask("XRANGE", "log", "-", "+"))
    assert 100 <= len(seen) < 300
    for each in range(3):
        numbers = [int(name[1:]) for instance, name in seen if instance == f"i{each}"]
        assert numbers == sorted(numbers)
        assert numbers[-1] == 297 + each
    await relay.stop()


async def test_a_channel_is_made_of_the_message(store: Store, redis: RedisProcess) -> None:
    """Each user hears of its own tasks, in order."""
    async with Redis.from_url(redis.url, decode_responses=True) as client, client.pubsub() as ear:
        await ear.subscribe("tasks:ann")
        await ear.get_message(timeout=60)
        relay = relay_to(store, RedisChannel("users", "tasks:{userId}", redis.url, **FIRST))
        await publish(store, "t1", "task.begun", data={"userId": "ann"}, kind="live")
        await publish(store, "t2", "task.begun", data={"userId": "bob"}, kind="live")
        await publish(store, "t1", "task.done", data={"event": "x", "data": {"userId": "ann"}})
        await until_idle(relay)
        heard = [await ear.get_message(timeout=60) for _ in range(2)]
        assert [json.loads(each["data"])["type"] for each in heard if each] == ["task.begun", "task.done"]
        assert await ear.get_message(timeout=0) is None
        assert relay.tally["delivered"] == 3
        await relay.stop()


async def test_a_message_without_the_field_is_dead_at_once(store: Store, redis: RedisProcess) -> None:
    """What is behind it goes on."""
    relay = relay_to(store, RedisStream("users", "tasks:{userId}", redis.url, **FIRST))
    await publish(store, "t1", "bad")
    await publish(store, "t1", "good", data={"userId": 7})
    await until_idle(relay)
    assert [letter.error for letter in await Letters(store).list(ACME)] == ["the message has no userId"]
    assert events(await redis.ask("XRANGE", "tasks:7", "-", "+")) == [("t1", "good")]
    await relay.stop()


async def test_a_redis_that_is_killed_costs_nothing(
    store: Store, redis: RedisProcess, clock: FakeClock
) -> None:
    """No attempt, no letter, no order: what was published meanwhile goes out when it is back."""
    relay = relay_to(store, RedisStream("log", "log", redis.url, **FIRST))
    await publish(store, "a", "one")
    await until_idle(relay)
    redis.kill()
    await publish(store, "a", "two", "three")
    for _ in range(5):
        clock.advance("1h")
        await relay.turn()
        assert await relay.turn() is False
    assert relay.tally["unreachable"] == 5
    assert not await store.letters.page(LetterQuery())
    await redis.start()
    clock.advance("2s")
    await until_idle(relay)
    assert [name for _, name in events(await redis.ask("XRANGE", "log", "-", "+"))] == ["one", "two", "three"]
    await relay.stop()


async def test_a_redis_that_is_full_is_waited_for(
    store: Store, redis: RedisProcess, clock: FakeClock
) -> None:
    """It answers, but takes nothing: that is no message's fault."""
    relay = relay_to(store, RedisStream("log", "log", redis.url, **FIRST))
    await redis.ask("CONFIG", "SET", "maxmemory", "1")
    await publish(store, "a", "one", "two")
    await relay.turn()
    assert relay.tally["unreachable"] == 1
    await redis.ask("CONFIG", "SET", "maxmemory", "0")
    clock.advance("2s")
    await until_idle(relay)
    assert [name for _, name in events(await redis.ask("XRANGE", "log", "-", "+"))] == ["one", "two"]
    await relay.stop()


async def test_what_redis_refuses_is_tried_again_and_can_be_redriven(
    store: Store, redis: RedisProcess, clock: FakeClock
) -> None:
    """A key of another type: a letter, then a dead one, and after that is mended it arrives."""
    relay = relay_to(store, RedisStream("log", "log:{room}", redis.url, **FIRST))
    await redis.ask("SET", "log:bad", "no stream")
    await publish(store, "a", "one", data={"room": "bad"})
    await publish(store, "b", "other", data={"room": "good"})
    for _ in range(3):
        await until_idle(relay)
        clock.advance("10s")
    assert events(await redis.ask("XRANGE", "log:good", "-", "+")) == [("b", "other")]
    [dead] = await Letters(store).list(ACME)
    assert (dead.name, dead.attempts, "WRONGTYPE" in dead.error) == ("one", 3, True)
    await redis.ask("DEL", "log:bad")
    assert await Letters(store).redrive(ACME) == 1
    await until_idle(relay)
    assert events(await redis.ask("XRANGE", "log:bad", "-", "+")) == [("a", "one")]
    await relay.stop()


@pytest.mark.parametrize("url", ["", "http://x", "nonsense", "redis://h:port/0"])
def test_a_url_that_is_none_is_refused_and_not_repeated(url: str) -> None:
    """It may hold a password."""
    with pytest.raises(InputError) as raised:
        RedisServer(url)
    assert not url or url not in str(raised.value)


async def test_what_redis_refuses_is_not_overtaken(
    store: Store, redis: RedisProcess, clock: FakeClock
) -> None:
    """The next message of the instance goes to another stream, and waits all the same."""
    relay = relay_to(store, RedisStream("log", "log:{name}", redis.url, **FIRST))
    await redis.ask("SET", "log:one", "no stream")
    await publish(store, "a", "one", "two")
    await publish(store, "b", "two")
    await until_idle(relay)
    assert events(await redis.ask("XRANGE", "log:two", "-", "+")) == [("b", "two")]
    waiting = [(letter.name, letter.attempts) for letter in await store.letters.page(LetterQuery())]
    assert waiting == [("one", 1), ("two", 0)]
    await redis.ask("DEL", "log:one")
    clock.advance("10s")
    await until_idle(relay)
    assert events(await redis.ask("XRANGE", "log:one", "-", "+")) == [("a", "one")]
    assert events(await redis.ask("XRANGE", "log:two", "-", "+")) == [("b", "two"), ("a", "two")]
    await relay.stop()


async def test_what_may_not_be_published_is_not_overtaken(store: Store, redis: RedisProcess) -> None:
    """A user who may not write to one channel: what follows of the instance is not sent to another."""
    await redis.ask("ACL", "SETUSER", "default", "resetchannels", "&open:*", "&closed:b")
    async with Redis.from_url(redis.url, decode_responses=True) as client, client.pubsub() as ear:
        await ear.subscribe("open:a", "open:b")
        relay = relay_to(store, RedisChannel("log", "{name}:{instance}", redis.url, **FIRST))
        for instance in ("a", "b"):
            await publish(store, instance, "closed", "open")
        await until_idle(relay)
        heard = [await ear.get_message(timeout=60) for _ in range(3)]
        assert [each["channel"] for each in heard if each and each["type"] == "message"] == ["open:b"]
        assert await ear.get_message(timeout=0) is None
        waiting = [(letter.instance, letter.name) for letter in await store.letters.page(LetterQuery())]
        assert waiting == [("a", "closed"), ("a", "open")]
        await relay.stop()


class Picky(RedisStream):
    """Has trouble of its own with some messages."""

    def parts(self, message: Message) -> tuple[bytes, ...]:
        """What is written, or a fault."""
        if message.name == "bad":
            raise ValueError("a fault")
        return super().parts(message)


async def test_a_message_that_cannot_be_written_fails_alone(
    store: Store, redis: RedisProcess, clock: FakeClock
) -> None:
    """Whatever is wrong with it, its instance waits, then it is dead; the others of its page have arrived."""
    relay = relay_to(store, Picky("log", "log", redis.url, **FIRST))
    await publish(store, "a", "early", "bad", "late")
    await publish(store, "b", "other")
    await until_idle(relay)
    assert events(await redis.ask("XRANGE", "log", "-", "+")) == [("a", "early"), ("b", "other")]
    for _ in range(3):
        clock.advance("10s")
        await until_idle(relay)
    assert [letter.error for letter in await Letters(store).list(ACME)] == ["ValueError: a fault"]
    assert events(await redis.ask("XRANGE", "log", "-", "+"))[2:] == [("a", "late")]
    await relay.stop()


class Counting(RedisServer):
    """Counts the messages of each script."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.counts: list[int] = []

    async def call(self, script: str, keys: Sequence[Any], values: Sequence[Any]) -> Any:
        """The answer."""
        self.counts.append(len(keys))
        return await super().call(script, keys, values)


async def test_a_large_page_goes_in_several_scripts(
    store: Store, redis: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is there within the timeout; order holds from one to the next, also behind what is refused."""
    monkeypatch.setattr(redis_module, "MOST_BYTES", 3_000)
    server = Counting(redis.url)
    relay = relay_to(store, RedisStream("log", "log:{name}", server, **FIRST))
    await redis.ask("SET", "log:bad", "no stream")
    await publish(store, "a", "bad", "ok", data="x" * 1_000)
    await publish(store, "b", "ok", data="x" * 5_000)
    await publish(store, "a", "ok", data="x" * 1_000)
    await publish(store, "c", "ok", "ok")
    await until_idle(relay)
    assert server.counts == [2, 1, 2]
    assert events(await redis.ask("XRANGE", "log:ok", "-", "+")) == [("b", "ok"), ("c", "ok"), ("c", "ok")]
    assert len(await store.letters.page(LetterQuery())) == 3
    await relay.stop()


TWINS = [
    ("live:{tenant}:{userId}", ("a:b", "ann"), ("a", "b:ann")),
    ("live:{userId}:{tenant}", ("b:a", "ann"), ("a", "ann:b")),
    ("{tenant}::{userId}", ("a:", "ann"), ("a", ":ann")),
    ("{userId}.{tenant}.{userId}", ("b", "a"), ("a.a.b", "a")),
]


@pytest.mark.mission("ENG-14")
@pytest.mark.parametrize(("template", "one", "other"), TWINS, ids=[row[0] for row in TWINS])
def test_no_two_tenants_share_a_name(template: str, one: tuple[str, str], other: tuple[str, str]) -> None:
    """A value that holds the end of its field is refused, up to that of the tenant."""
    outcomes = set()
    for tenant, user in (one, other):
        text = json.dumps({"userId": user})
        message = Message("m", tenant, "i", "live", "n", FakeClock().now(), text)
        try:
            outcomes.add(Template(template).fill(message))
        except PermanentError:
            outcomes.add(f"refused to {tenant}")
    assert len(outcomes) == 2
    assert any(outcome.startswith("refused") for outcome in outcomes)


def test_values_behind_the_tenant_are_free() -> None:
    """Instances are often named with colons, and a template without a tenant mixes them by intention."""
    message = Message("m", "acme", "run:1:0", "live", "n:n", FakeClock().now())
    for template, text in {
        "log:{tenant}:{instance}": "log:acme:run:1:0",
        "{tenant}:{instance}:{name}": "acme:run:1:0:n:n",
        "{instance}:{name}": "run:1:0:n:n",
    }.items():
        assert Template(template).fill(message) == text
    with pytest.raises(InputError, match="mixed up"):
        Template("{tenant}{name}")


async def test_a_redis_that_is_busy_with_a_script_is_waited_for(
    store: Store, redis: RedisProcess, clock: FakeClock
) -> None:
    """What another client does costs no message an attempt."""
    relay = relay_to(store, RedisStream("log", "log", redis.url, **FIRST))
    await publish(store, "a", "one")
    await until_idle(relay)
    await redis.ask("CONFIG", "SET", "busy-reply-threshold", "1")
    endless = asyncio.create_task(redis.ask("EVAL", "while true do end", 0))
    while not await is_busy(redis):
        pass
    await publish(store, "a", "two", "three")
    await until_idle(relay)
    assert (relay.tally["unreachable"], await store.letters.page(LetterQuery())) == (1, [])
    await redis.ask("SCRIPT", "KILL")
    with pytest.raises(RedisError):
        await endless
    clock.advance("2s")
    await until_idle(relay)
    assert events(await redis.ask("XRANGE", "log", "-", "+")) == [("a", "one"), ("a", "two"), ("a", "three")]
    await relay.stop()


async def is_busy(redis: RedisProcess) -> bool:
    """Whether a script keeps it from answering anybody."""
    try:
        await redis.ask("GET", "x")
    except RedisError as error:
        return str(error).startswith("BUSY")
    return False


async def test_commands_together_wait_for_a_busy_redis_too(redis: RedisProcess) -> None:
    """The client says first which of them it was."""
    server = RedisServer(redis.url)
    await redis.ask("CONFIG", "SET", "busy-reply-threshold", "1")
    endless = asyncio.create_task(redis.ask("EVAL", "while true do end", 0))
    while not await is_busy(redis):
        pass
    with pytest.raises(UnreachableError, match="BUSY"):
        await server.run([("SET", "x", 1)])
    await redis.ask("SCRIPT", "KILL")
    with pytest.raises(RedisError):
        await endless
    await server.close()
