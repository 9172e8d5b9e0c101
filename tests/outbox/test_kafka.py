"""Messages to Kafka: a real producer, and brokers that speak the protocol and fail when told to."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Message as Record

from headway import Final, State, Statechart
from headway.engine.engine import Engine
from headway.errors import InputError, StoreUnavailableError
from headway.node import Node
from headway.outbox.destination import Backoff
from headway.outbox.kafka import Kafka
from headway.outbox.letters import Letters
from headway.outbox.message import message_id
from headway.outbox.relay import Relay
from headway.store.port import Store
from headway.store.queries import LetterQuery, MessageQuery
from headway.testing import FakeClock
from tests.outbox.kafka_cluster import BROKEN, KafkaCluster
from tests.outbox.world import ACME, QUICK, Failing, publish, until_idle

pytestmark = pytest.mark.mission("ENG-5")

TOPIC = "claims"


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    """A broker with one topic of four partitions."""
    with KafkaCluster() as cluster:
        cluster.create(TOPIC)
        yield cluster


def kafka(cluster: KafkaCluster, topic: str = TOPIC, **options: Any) -> Kafka:
    """A destination that begins with the first message, and does not wait long between attempts."""
    settings = {**cluster.config, **options.pop("config", {})}
    chosen = {"begins": "first", "timeout": "60s", "backoff": QUICK, **options}
    return Kafka("test", topic, settings, **chosen)


def relay_to(store: Any, destination: Kafka, **options: Any) -> Relay:
    """A relay to it."""
    return Relay(Engine(store), destination, **options)


def names(records: list[Record]) -> dict[str, list[str]]:
    """The names of the messages under each key, in the order in which they stand in their partitions."""
    found = defaultdict(list)
    for record in records:
        key = record.key()
        assert isinstance(key, bytes)
        found[key.decode()].append(event(record)["type"])
    return found


def event(record: Record) -> dict[str, Any]:
    """What a record holds."""
    value = record.value()
    assert value is not None
    found: dict[str, Any] = json.loads(value)
    return found


async def test_a_message_is_a_cloud_event_keyed_by_its_instance(store: Store, cluster: KafkaCluster) -> None:
    """Id, source, type, subject and time as the specification wants them, and the data as it was."""
    await publish(store, "claim 1", "claim.paid", data={"amount": 12, "who": "Łódź"}, tenant="a/b")
    [row] = (await store.messages.page(MessageQuery())).messages
    relay = relay_to(store, kafka(cluster, source="https://example.com/headway"))
    await until_idle(relay)
    [record] = await cluster.read(TOPIC, count=1)
    assert record.key() == b"claim 1"
    assert record.timestamp()[1] == row.at.timestamp() * 1_000
    assert record.headers() == [("content-type", b"application/cloudevents+json")]
    assert event(record) == {
        "specversion": "1.0",
        "id": message_id(row.tenant, row.id, row.at),
        "source": "https://example.com/headway/a%2Fb",
        "type": "claim.paid",
        "subject": "claim 1",
        "time": "2026-01-01T09:00:00Z",
        "tenant": "a/b",
        "datacontenttype": "application/json",
        "data": {"amount": 12, "who": "Łódź"},
    }
    await relay.stop()


async def test_messages_stay_in_order_per_instance(store: Store, cluster: KafkaCluster) -> None:
    """Many at once, over all partitions, each of them once."""
    said = [f"m{n}" for n in range(30)]
    for name in said:
        for instance in range(10):
            await publish(store, f"i{instance}", name)
    relay = relay_to(store, kafka(cluster), page=70)
    await until_idle(relay)
    assert names(await cluster.read(TOPIC, count=300)) == {f"i{n}": said for n in range(10)}
    assert relay.tally["delivered"] == relay.tally["tried"] == 300
    await relay.stop()


async def test_a_topic_can_be_made_of_the_message(store: Store, cluster: KafkaCluster) -> None:
    """One for each tenant and name, or whatever stands in the data."""
    await publish(store, "a", "paid", tenant="acme", data={"data": {"region": "eu"}})
    await publish(store, "a", "paid", tenant="other", data={"region": "us"})
    relay = relay_to(store, kafka(cluster, "headway.{tenant}.{region}"))
    await until_idle(relay)
    topics = ("headway.acme.eu", "headway.other.us")
    assert {record.topic() for record in await cluster.read(*topics, count=2)} == {*topics}
    await relay.stop()


@pytest.mark.mission("ENG-17")
async def test_a_cluster_that_is_down_costs_no_message_an_attempt(
    store: Store, cluster: KafkaCluster, clock: FakeClock
) -> None:
    """Everything stays where it is, however long it takes, and goes out in order when it is back."""
    await publish(store, "a", "one")
    relay = relay_to(store, kafka(cluster, timeout="0.3s"))
    while not relay.tally["delivered"]:
        clock.advance("2s")
        await until_idle(relay)
    relay.tally.clear()
    cluster.down()
    await publish(store, "a", "two", "three")
    for _ in range(3):
        clock.advance("2h")
        await relay.turn()
        assert await relay.turn() is False
    assert relay.tally["unreachable"] == 3
    assert relay.tally["failed"] == 0
    assert not await store.letters.page(LetterQuery())
    cluster.up()
    await publish(store, "a", "four")
    while relay.tally["delivered"] < 3:
        clock.advance("2s")
        await until_idle(relay)
    seen = names(await cluster.read(TOPIC, last="four"))["a"]
    assert [*dict.fromkeys(seen)] == ["one", "two", "three", "four"]
    await relay.stop()


async def test_a_cluster_that_comes_back_in_time_is_only_slow(store: Store, cluster: KafkaCluster) -> None:
    """What is under way waits for it: no failure, no repeat."""
    relay = relay_to(store, kafka(cluster))
    await publish(store, "a", "one")
    await until_idle(relay)
    cluster.down()
    await publish(store, "a", "two", "three")
    turn = asyncio.create_task(relay.turn())
    while relay.tally["tried"] < 3:
        await store.messages.last()
    cluster.up()
    await turn
    assert relay.tally["delivered"] == 3
    assert names(await cluster.read(TOPIC, count=3)) == {"a": ["one", "two", "three"]}
    await relay.stop()


async def test_a_page_that_moves_has_the_time_it_needs(
    store: Store, cluster: KafkaCluster, clock: FakeClock
) -> None:
    """The timeout is for brokers that take nothing, not for a long page."""
    relay = relay_to(store, kafka(cluster, timeout="1s", config={"batch.num.messages": 1}))
    await publish(store, "a", "first")
    while not relay.tally["delivered"]:
        clock.advance("2s")
        await until_idle(relay)
    relay.tally.clear()
    cluster.slow(300)
    said = [f"m{number}" for number in range(30)]
    await publish(store, "a", *said)
    await until_idle(relay)
    assert (relay.tally["delivered"], relay.tally["unreachable"]) == (30, 0)
    assert names(await cluster.read(TOPIC, count=31)) == {"a": ["first", *said]}
    await relay.stop()


@pytest.mark.parametrize("topic", [TOPIC, "claims.{name}"])
async def test_a_queue_shorter_than_a_page_is_filled_again_and_again(
    store: Store, cluster: KafkaCluster, topic: str
) -> None:
    """What has no room goes when there is some, in order and without a pause."""
    relay = relay_to(store, kafka(cluster, topic, config={"queue.buffering.max.messages": 10}))
    instances = [f"i{number}" for number in range(5)]
    for _ in range(7):
        for instance in instances:
            await publish(store, instance, "x")
            await publish(store, instance, "y")
    await relay.turn()
    assert (relay.tally["delivered"], relay.tally["unreachable"]) == (70, 0)
    if topic == TOPIC:
        assert names(await cluster.read(TOPIC, count=70)) == {name: ["x", "y"] * 7 for name in instances}
    await relay.stop()


async def test_what_is_refused_is_not_overtaken_by_what_the_queue_had_no_room_for(
    store: Store, cluster: KafkaCluster, clock: FakeClock
) -> None:
    """The rest of the page waits as if it had not been tried."""
    relay = relay_to(store, kafka(cluster, config={"queue.buffering.max.messages": 3}))
    said = [f"m{number}" for number in range(9)]
    cluster.refuse()
    await publish(store, "a", *said)
    await until_idle(relay)
    assert [letter.attempts for letter in await store.letters.page(LetterQuery())] == [1] + [0] * 8
    clock.advance("10s")
    await until_idle(relay)
    assert names(await cluster.read(TOPIC, count=9)) == {"a": said}
    await relay.stop()


async def test_a_producer_that_is_broken_costs_no_attempt(
    store: Store, cluster: KafkaCluster, clock: FakeClock
) -> None:
    """A new one goes on with what the broken one has not sent."""
    relay = relay_to(store, kafka(cluster))
    await publish(store, "a", "one")
    await until_idle(relay)
    cluster.refuse(error=BROKEN)
    await publish(store, "a", "two", "three")
    for _ in range(5):
        await until_idle(relay)
        clock.advance("2s")
    assert (relay.tally["delivered"], relay.tally["failed"]) == (3, 0)
    assert relay.tally["unreachable"] > 0
    assert names(await cluster.read(TOPIC, count=3)) == {"a": ["one", "two", "three"]}
    await relay.stop()


async def test_a_message_that_the_broker_refuses_is_tried_again_before_those_behind_it(
    store: Store, cluster: KafkaCluster, clock: FakeClock
) -> None:
    """Its instance waits; another goes on."""
    relay = relay_to(store, kafka(cluster))
    cluster.refuse()
    await publish(store, "a", "one")
    await until_idle(relay)
    [letter] = await store.letters.page(LetterQuery())
    assert (letter.attempts, letter.dead, letter.error.startswith("Kafka: ")) == (1, False, True)
    await publish(store, "a", "two")
    await publish(store, "b", "other")
    await until_idle(relay)
    assert relay.tally["delivered"] == 1
    clock.advance("10s")
    await until_idle(relay)
    assert names(await cluster.read(TOPIC, count=3)) == {"a": ["one", "two"], "b": ["other"]}
    await relay.stop()


async def test_what_is_refused_for_one_topic_is_not_overtaken_by_what_goes_to_another(
    store: Store, cluster: KafkaCluster, clock: FakeClock
) -> None:
    """The instance's later messages wait until the earlier one has arrived; other instances go on."""
    for topic in ("t.shut", "t.open"):
        cluster.create(topic)
    cluster.forbid("t.shut")
    relay = relay_to(store, kafka(cluster, "t.{name}", backoff=Backoff.after(*["10s"] * 20_000)))
    await publish(store, "a", "open", "shut", "open")
    await publish(store, "b", "open", "open")
    await until_idle(relay)
    assert names(await cluster.read("t.open", count=3)) == {"a": ["open"], "b": ["open", "open"]}
    waiting = [(letter.name, letter.attempts) for letter in await store.letters.page(LetterQuery())]
    assert waiting == [("shut", 1), ("open", 0)]
    cluster.forbid("t.shut", 0)
    async with asyncio.timeout(120):  # until the producer has heard of it
        while await store.letters.page(LetterQuery()):
            clock.advance("20s")
            await until_idle(relay)
    assert len(await cluster.read("t.open", count=4)) == 4
    assert names(await cluster.read("t.shut", count=1)) == {"a": ["shut"]}
    await relay.stop()


async def test_an_instance_whose_messages_change_their_topic_again_and_again_is_served_in_one_turn(
    store: Store, cluster: KafkaCluster
) -> None:
    """Each run of them goes out when the one before has arrived, and all are told."""
    for topic in ("t.x", "t.y"):
        cluster.create(topic, 1)
    relay = relay_to(store, kafka(cluster, "t.{name}"))
    await publish(store, "a", "x", "x", "y", "x", "y", "y")
    await publish(store, "b", "y", "x")
    await relay.turn()
    assert relay.tally["delivered"] == 8
    assert names(await cluster.read("t.x", count=4)) == {"a": ["x"] * 3, "b": ["x"]}
    assert names(await cluster.read("t.y", count=4)) == {"a": ["y"] * 3, "b": ["y"]}
    await relay.stop()


async def test_of_a_page_only_what_was_refused_is_sent_again(
    store: Store, cluster: KafkaCluster, clock: FakeClock
) -> None:
    """A broker refuses the batch of one partition: what went to the others has arrived, and does so once."""
    relay = relay_to(store, kafka(cluster))
    instances = [f"i{number}" for number in range(40)]
    for name in instances:
        await publish(store, name, "one")
    cluster.refuse()
    await until_idle(relay)
    refused = len(await store.letters.page(LetterQuery(limit=100)))
    assert 0 < refused < 40
    assert relay.tally["delivered"] == 40 - refused
    clock.advance("10s")
    await until_idle(relay)
    assert not await store.letters.page(LetterQuery())
    assert names(await cluster.read(TOPIC, count=40)) == {name: ["one"] for name in instances}
    await relay.stop()


async def test_a_message_that_is_refused_for_ever_is_dead_and_can_be_tried_again(
    store: Store, cluster: KafkaCluster, clock: FakeClock
) -> None:
    """After its last attempt it holds nobody up, and redriven it arrives."""
    relay = relay_to(store, kafka(cluster))
    cluster.refuse(3)
    await publish(store, "a", "one")
    for _ in range(3):
        await until_idle(relay)
        clock.advance("10s")
    letters = Letters(store)
    assert [(letter.name, letter.attempts) for letter in await letters.list(ACME)] == [("one", 3)]
    await publish(store, "a", "two")
    await until_idle(relay)
    assert await letters.redrive(ACME, destination="kafka:test") == 1
    await until_idle(relay)
    assert names(await cluster.read(TOPIC, count=2)) == {"a": ["two", "one"]}
    await relay.stop()


@pytest.mark.parametrize(
    ("topic", "data", "reason"),
    [
        (TOPIC, "x" * 5_000, "Message size too large"),
        ("claims-{region}", {"amount": 1}, "has no region"),
        ("claims-{region}", {"region": "a b"}, "not a valid topic name"),
        ("claims-{region}", {"region": ""}, "has no region"),
        ("claims-{region}", {"region": {"x": 1}}, "has no region"),
        ("claims-{region}", {"region": "a\nb"}, "cannot be part of a name"),
    ],
)
async def test_a_message_that_can_never_be_sent_is_dead_at_once(
    store: Store, cluster: KafkaCluster, *, topic: str, data: Any, reason: str
) -> None:
    """What is behind it goes on."""
    relay = relay_to(store, kafka(cluster, topic, config={"message.max.bytes": 4_000}))
    await publish(store, "a", "bad", data=data)
    await publish(store, "a", "good", data={"region": "eu"})
    await until_idle(relay)
    [dead] = await Letters(store).list(ACME)
    assert (dead.name, dead.attempts) == ("bad", 1)
    assert reason in dead.error
    [record] = await cluster.read(TOPIC if topic == TOPIC else "claims-eu", count=1)
    assert event(record)["type"] == "good"
    await relay.stop()


async def test_what_a_crash_leaves_unwritten_comes_again_with_the_same_id(
    store: Store, cluster: KafkaCluster
) -> None:
    """A receiver that keeps the ids sees each message once."""
    failing = Failing(store, StoreUnavailableError("gone"))
    relay = relay_to(failing, kafka(cluster))
    await publish(store, "a", "one", "two")
    with pytest.raises(StoreUnavailableError):
        await relay.turn()
    failing.fails = False
    await until_idle(relay)
    seen = [event(record) for record in await cluster.read(TOPIC, count=4)]
    assert [each["type"] for each in seen] == ["one", "two", "one", "two"]
    assert [each["id"] for each in seen[:2]] == [each["id"] for each in seen[2:]]
    await relay.stop()


async def test_a_relay_that_stops_while_the_cluster_is_down_leaves_its_messages_where_they_are(
    store: Store, cluster: KafkaCluster
) -> None:
    """It ends at once; another goes on with nothing lost, nothing charged."""
    cluster.down()
    await publish(store, "a", "one", "two")
    relay = relay_to(store, kafka(cluster, timeout="10m"))
    await relay.start()
    while relay.tally["tried"] < 2:
        await store.messages.last()
    async with asyncio.timeout(60):
        await relay.stop()
    assert not await store.letters.page(LetterQuery())
    cluster.up()
    after = relay_to(store, kafka(cluster), holder="another")
    await until_idle(after)
    assert names(await cluster.read(TOPIC, count=2)) == {"a": ["one", "two"]}
    await after.stop()


@pytest.mark.parametrize("name", ["acks", "enable.idempotence", "message.timeout.ms"])
def test_what_the_promises_rest_on_cannot_be_set(name: str) -> None:
    """A destination that did not wait for all replicas would lose messages."""
    with pytest.raises(InputError, match=name):
        Kafka("test", TOPIC, {"bootstrap.servers": "127.0.0.1:1", name: "0"})


@pytest.mark.parametrize(
    "topic", ["", "a b", "a/b", "a{", "a}", "{}", "{a b}", "{a.}", "{0}", "{a!r}", "{__class__.x}}"]
)
def test_what_is_no_template_or_no_topic_is_refused(topic: str) -> None:
    """When the destination is made, not when a message comes."""
    with pytest.raises(InputError):
        Kafka("test", topic, {})


async def test_a_setting_that_does_not_exist_is_named(store: Store, cluster: KafkaCluster) -> None:
    """By the relay that would need it."""
    await publish(store, "a", "one")
    with pytest.raises(InputError, match=r"no\.such\.setting"):
        await relay_to(store, kafka(cluster, config={"no.such.setting": 1})).turn()


class Claim(Statechart):
    """Is paid."""

    review = State(initial=True)
    paid = Final()
    pay = review.to(paid, emit="claim.paid")


async def test_a_transition_of_a_running_node_reaches_kafka(
    cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """From `emit` to the topic, woken by the commit."""
    path = tmp_path_factory.mktemp("node") / "headway.db"
    destination = Kafka("test", TOPIC, cluster.config)
    async with Node(f"sqlite:///{path}", [Claim], destinations=[destination]) as node:
        await node.engine.create(ACME, "c1", Claim)
        await node.engine.send(ACME, "c1", Claim.pay({"amount": 7}))
        [record] = await cluster.read(TOPIC, count=1)
    assert event(record)["data"] == {"instance": "c1", "event": "pay", "data": {"amount": 7}}
