"""What the trust suite measures, and what is wanted of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench.engine.places import Places
from bench.harness import Entrant, Plan, Ratio, Suite
from bench.trust.bare import BareKafka, BareRedis, ReadyKafka, added, published
from bench.trust.chain import SENDS, WITH, WITHOUT, Sending
from bench.trust.following import Following
from bench.trust.rehearsing import Rehearsing
from bench.trust.relays import Relaying
from bench.trust.servers import TOPIC, Servers
from headway.outbox.destination import Destination
from headway.outbox.kafka import Kafka
from headway.outbox.redis import RedisChannel, RedisStream

PLAN = Plan(rounds=5, seconds=1.0)
STORES = ("sqlite", "postgres")
MESSAGES, EVENTS, INSTANCES = "messages/s", "events/s", "instances/s"
BARE, READY = "bare producer", "bare producer, events ready-made"
KAFKA, STREAM, CHANNEL = "Kafka", "Redis stream", "Redis pub/sub"
SHORT_NAMES = {KAFKA: "kafka", STREAM: "redis_stream", CHANNEL: "redis_pubsub"}
NEAR, FAR = "log in one node", "log between two nodes"
FEW, MANY = "10,000 living", "100,000 living"
SENDERS = 256


@dataclass(frozen=True)
class Sizes:
    """How much of everything there is."""

    to_kafka: int = 50_000
    to_redis: int = 20_000
    followed: int = 300
    living: tuple[int, int] = (10_000, 100_000)
    chained: int = 40


FULL = Sizes()
TINY = Sizes(to_kafka=50, to_redis=50, followed=3, living=(20, 40), chained=1)


def suite(plan: Plan | None = None) -> Suite:
    """The cases and the ratios wanted."""
    places = Places()
    servers = Servers(places)
    sizes = TINY if plan is not None and plan.quick else FULL
    return Suite(
        name="trust",
        title="Trust",
        groups=[
            _kafka(places, servers, sizes),
            _stream(places, servers, sizes),
            _channel(places, servers, sizes),
            *(_following(places, store, sizes) for store in STORES),
            *(_rehearsals(places, store, sizes) for store in STORES),
            *(_chains(places, store, sizes) for store in STORES),
        ],
        ratios=[*RELAYING, *FOLLOWING, *REHEARSING, *CHAINING],
        notes=NOTES,
        plan=plan or PLAN,
        close=places.close,
    )


def _kafka(places: Places, servers: Servers, sizes: Sizes) -> list[Entrant]:
    def destination() -> Destination:
        return Kafka("bench", TOPIC, servers.kafka.config, begins="first")

    ready = Entrant(KAFKA, READY, partial(ReadyKafka, places, servers), 1, MESSAGES, sizes.to_kafka)
    bare = Entrant(KAFKA, BARE, partial(BareKafka, places, servers), 1, MESSAGES, sizes.to_kafka)
    return [ready, bare, *_relays(places, KAFKA, destination, sizes.to_kafka)]


def _stream(places: Places, servers: Servers, sizes: Sizes) -> list[Entrant]:
    def destination() -> Destination:
        return RedisStream("bench", "relayed", servers.redis, begins="first")

    bare = Entrant(STREAM, BARE, partial(BareRedis, places, servers, added), 1, MESSAGES, sizes.to_redis)
    return [bare, *_relays(places, STREAM, destination, sizes.to_redis)]


def _channel(places: Places, servers: Servers, sizes: Sizes) -> list[Entrant]:
    def destination() -> Destination:
        return RedisChannel("bench", "relayed", servers.redis, begins="first")

    bare = Entrant(CHANNEL, BARE, partial(BareRedis, places, servers, published), 1, MESSAGES, sizes.to_redis)
    return [bare, *_relays(places, CHANNEL, destination, sizes.to_redis)]


def _relays(
    places: Places, case: str, destination: Callable[[], Destination], messages: int
) -> list[Entrant]:
    return [
        Entrant(case, _on(store), partial(Relaying, places, store, destination), 1, MESSAGES, messages)
        for store in STORES
    ]


def _following(places: Places, store: str, sizes: Sizes) -> list[Entrant]:
    # Nodes on one SQLite file hear of each other by looking: that measures how often they look.
    kinds = {f"{store}, {NEAR}": False, **({f"{store}, {FAR}": True} if store == "postgres" else {})}
    return [
        Entrant(
            case,
            "one after the other",
            partial(Following, places, case, store=store, apart=apart),
            1,
            EVENTS,
            sizes.followed,
        )
        for case, apart in kinds.items()
    ]


def _rehearsals(places: Places, store: str, sizes: Sizes) -> list[Entrant]:
    return [
        Entrant(
            f"{store}, {case}",
            "rehearsal",
            partial(Rehearsing, places, f"{store}, {case}", store=store, size=size),
            size,
            INSTANCES,
            cycles=1,
            rounds=1,
        )
        for case, size in zip((FEW, MANY), sizes.living, strict=True)
    ]


def _chains(places: Places, store: str, sizes: Sizes) -> list[Entrant]:
    sending = partial(Sending, places, store, SENDERS)
    return [Entrant(f"{store}, chain", WITH, sending, SENDERS, SENDS, sizes.chained)]


def _on(store: str) -> str:
    return f"headway, {store}"


RELAYING = [
    *(
        Ratio(f"{store}_{name}_relay_vs_bare", (case, _on(store)), (case, BARE), 0.5)
        for case, name in SHORT_NAMES.items()
        for store in STORES
    ),
    *(Ratio(f"{store}_kafka_relay_vs_ready_made", (KAFKA, _on(store)), (KAFKA, READY)) for store in STORES),
]
FOLLOWING = [
    Ratio(f"{name}_vs_commit", (case, "commit to follower, p50"), (case, "commit, p50"), most=2.0)
    for case, name in (
        (f"sqlite, {NEAR}", "sqlite_tail"),
        (f"postgres, {NEAR}", "postgres_tail"),
        (f"postgres, {FAR}", "postgres_tail_between_nodes"),
    )
]
REHEARSING = [
    Ratio(
        f"{store}_rehearsal_memory_ratio",
        (f"{store}, {MANY}", "memory"),
        (f"{store}, {FEW}", "memory"),
        most=1.2,
    )
    for store in STORES
]
CHAINING = [
    Ratio(f"{store}_chain_cost_ratio", (f"{store}, chain", WITHOUT), (f"{store}, chain", WITH), most=1.05)
    for store in STORES
]
NOTES = (
    "bare producer: makes the same CloudEvents of rows in memory, with the same settings, and no outbox.",
    "events ready-made: the same, and the clock starts when all events are made.",
    "Kafka is librdkafka's mock cluster in this process; Redis writes an append-only file.",
    "chain: the time of the processor, with all lines of history and instances hashed and without.",
)
