"""What the engine suite measures, and what is wanted of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench.engine.crowd import Crowds
from bench.engine.disk import Disk
from bench.engine.drain import Drain, Peer
from bench.engine.growth import Children, OneInstance
from bench.engine.places import Places
from bench.engine.raw_postgres import Pgbench, RawPostgres
from bench.engine.raw_sqlite import RawSqlite
from bench.engine.senders import ManySenders, OneSender
from bench.engine.sleeping import AmongSleepers
from bench.engine.timers import Firing
from bench.harness import Entrant, Plan, Ratio, Suite

PLAN = Plan(rounds=5, seconds=1.0)
STORES = ("sqlite", "postgres")
TRANSITIONS, CHANGES, TIMERS, ITEMS = "transitions/s", "child changes/s", "timers/s", "items/s"
RAW, BATCHES = "raw loop", "raw batches of 100"
ONE, MANY = "headway, 1 sender", "headway, 256 senders"
PGBENCH = {"pgbench, 1 client": 1, "pgbench, 16 clients": 16}
FEW_ASLEEP, MANY_ASLEEP = "1,000 asleep", "1,000,000 asleep"
SHORT, LONG = "short history", "100,000 rows of history"
FEW_CHILDREN, SOME_CHILDREN, MANY_CHILDREN = "10 children", "1,000 children", "100,000 children"
TOGETHER, SPREAD = "timers due together", "timers due over 2 s"


@dataclass(frozen=True)
class Sizes:
    """How much of everything there is."""

    instances: int = 1_000
    senders: int = 256
    items: int = 20_000
    asleep: tuple[int, int] = (1_000, 1_000_000)
    due: int = 10_000
    spread: float = 2.0
    history: tuple[int, int] = (0, 100_000)
    children: tuple[int, int, int] = (10, 1_000, 100_000)
    peers: bool = True


FULL = Sizes()
TINY = Sizes(
    instances=20,
    senders=16,
    items=40,
    asleep=(30, 60),
    due=20,
    spread=0.05,
    history=(0, 20),
    children=(2, 4, 8),
    peers=False,
)


def suite(plan: Plan | None = None) -> Suite:
    """The cases and the ratios wanted."""
    places = Places()
    sizes = TINY if plan is not None and plan.quick else FULL
    crowds = Crowds(places)
    return Suite(
        name="engine",
        title="Durable engine",
        groups=[
            _sqlite(places, sizes),
            _postgres(places, sizes),
            _drains(places, sizes),
            *(_sleeping(places, crowds, store, sizes) for store in STORES),
            *(_timers(places, crowds, store, sizes) for store in STORES),
            *(_histories(places, store, sizes) for store in STORES),
            *(_families(places, store, sizes) for store in STORES),
        ],
        ratios=[*SENDING, *DRAINING, *GROWING],
        notes=NOTES,
        plan=plan or PLAN,
        close=places.close,
    )


def _sqlite(places: Places, sizes: Sizes) -> list[Entrant]:
    return [
        Entrant("sqlite", RAW, partial(RawSqlite, places, 1, sizes.instances), unit=TRANSITIONS),
        Entrant("sqlite", BATCHES, partial(RawSqlite, places, 100, sizes.instances), 100, TRANSITIONS),
        *_senders(places, "sqlite", sizes),
    ]


def _postgres(places: Places, sizes: Sizes) -> list[Entrant]:
    return [
        Entrant("postgres", RAW, partial(RawPostgres, places, sizes.instances), unit=TRANSITIONS),
        *(
            Entrant(
                "postgres", name, partial(Pgbench, places, clients, sizes.instances), clients, TRANSITIONS
            )
            for name, clients in PGBENCH.items()
        ),
        *_senders(places, "postgres", sizes),
    ]


def _senders(places: Places, store: str, sizes: Sizes) -> list[Entrant]:
    one = partial(OneSender, places, store, sizes.instances)
    many = partial(ManySenders, places, store, sizes.senders)
    return [
        Entrant(store, ONE, one, unit=TRANSITIONS),
        Entrant(store, MANY, many, sizes.senders, TRANSITIONS),
    ]


def _drains(places: Places, sizes: Sizes) -> list[Entrant]:
    ours = [
        Entrant("drain", f"headway, {store}", partial(Drain, places, store), 1, ITEMS, sizes.items, 3)
        for store in STORES
    ]
    return ours + ([_peer(places, name, count) for name, count in PEERS.items()] if sizes.peers else [])


def _peer(places: Places, name: str, count: int) -> Entrant:
    def new_folder() -> str:
        return str(places.new_folder())

    def new_database() -> str:
        return places.server.new_database()

    where: Callable[[], str] = new_folder if name in IN_A_FOLDER else new_database
    build = partial(Peer, name, where, "redis-server" if name == "celery" else None)
    return Entrant("drain", name, build, 1, ITEMS, count, 3)


def _disk(places: Places, case: str) -> Entrant:
    """Where it is not much faster than Headway, the disk hides all differences."""
    return Entrant(case, "disk alone", partial(Disk, places), unit="writes/s", rounds=3)


def _sleeping(places: Places, crowds: Crowds, store: str, sizes: Sizes) -> list[Entrant]:
    return [
        _disk(places, f"{store}, asleep"),
        *(
            Entrant(
                f"{store}, {case}",
                "headway",
                partial(AmongSleepers, places, crowds, f"{store}, {case}", store=store, size=size),
                unit=TRANSITIONS,
                rounds=3,
            )
            for case, size in zip((FEW_ASLEEP, MANY_ASLEEP), sizes.asleep, strict=True)
        ),
    ]


def _timers(places: Places, crowds: Crowds, store: str, sizes: Sizes) -> list[Entrant]:
    kinds = ((TOGETHER, 0.0, sizes.due, 3), (SPREAD, sizes.spread, sizes.due // 5, 1))
    return [
        Entrant(
            f"{store}, {case}",
            "headway",
            partial(
                Firing,
                places,
                crowds,
                f"{store}, {case}",
                store=store,
                size=sizes.asleep[-1],
                spread=spread,
            ),
            1,
            TIMERS,
            cycles,
            rounds,
        )
        for case, spread, cycles, rounds in kinds
    ]


def _histories(places: Places, store: str, sizes: Sizes) -> list[Entrant]:
    return [
        _disk(places, f"{store}, history"),
        *(
            Entrant(
                f"{store}, {case}",
                "headway",
                partial(OneInstance, places, store=store, steps=steps),
                unit=TRANSITIONS,
                rounds=3,
            )
            for case, steps in zip((SHORT, LONG), sizes.history, strict=True)
        ),
    ]


def _families(places: Places, store: str, sizes: Sizes) -> list[Entrant]:
    cases = (FEW_CHILDREN, SOME_CHILDREN, MANY_CHILDREN)
    return [
        _disk(places, f"{store}, children"),
        *(
            Entrant(
                f"{store}, {case}",
                "headway",
                partial(Children, places, store=store, size=size),
                unit=CHANGES,
                rounds=3,
            )
            for case, size in zip(cases, sizes.children, strict=True)
        ),
    ]


# What each can drain in a few seconds: their rates do not depend on it.
PEERS = {"procrastinate": 2_000, "dbos": 2_000, "celery": 4_000, "huey": 10_000, "pgqueuer": 20_000}
IN_A_FOLDER = {"celery", "huey"}


def _vs(name: str, case: str, ours: str, theirs: str, *, target: float | None = None) -> Ratio:
    return Ratio(name, (case, ours), (case, theirs), target)


def _drain_vs(peer: str, target: float) -> Ratio:
    ours = "headway, sqlite" if peer == "huey" else "headway, postgres"
    return _vs(f"drain_vs_{peer}", "drain", ours, peer, target=target)


def _cost(name: str, few: str, many: str, *, most: float, system: str = "headway") -> list[Ratio]:
    """How much dearer it is with many, on each store."""
    return [
        Ratio(f"{store}_{name}", (f"{store}, {few}", system), (f"{store}, {many}", system), most=most)
        for store in STORES
    ]


SENDING = [
    _vs("sqlite_single_vs_raw", "sqlite", ONE, RAW, target=0.5),
    _vs("sqlite_256_vs_raw", "sqlite", MANY, RAW, target=3.0),
    _vs("postgres_single_vs_raw", "postgres", ONE, RAW, target=0.5),
    _vs("postgres_256_vs_pgbench", "postgres", MANY, "pgbench, 16 clients", target=2.0),
    _vs("postgres_256_vs_pgbench_1_client", "postgres", MANY, "pgbench, 1 client"),
]
DRAINING = [
    *(_drain_vs(peer, 3.0) for peer in ("procrastinate", "dbos", "celery", "huey")),
    _drain_vs("pgqueuer", 0.7),
]
GROWING = [
    *_cost("sleeping_send_ratio", FEW_ASLEEP, MANY_ASLEEP, most=1.2),
    *_cost("sleeping_memory_ratio", MANY_ASLEEP, FEW_ASLEEP, most=1.2, system="memory"),
    *(
        Ratio(f"{store}_timers_per_second", (f"{store}, {TOGETHER}", "headway"), None, 5_000)
        for store in STORES
    ),
    *_cost("history_send_ratio", SHORT, LONG, most=1.1),
    *_cost("children_cost_ratio", FEW_CHILDREN, MANY_CHILDREN, most=1.2),
]
NOTES = (
    "raw loop: the rows of a transition written one transition per commit, with no engine and no reading.",
    "A ratio of costs is the time with many over the time with few.",
    "It says little where the disk alone is hardly faster than Headway, or where the spread is large.",
    "Drains: Headway ends each item with a transition; the peers delete or mark a row. Jobs drained: "
    + ", ".join(f"{name} {count:,}" for name, count in PEERS.items())
    + ", Headway 20,000.",
)
