"""What the suite of task runs measures, and what is wanted of it."""

from dataclasses import dataclass
from functools import partial

from bench.engine.drain import LONGEST, Peer
from bench.engine.places import Places
from bench.harness import Entrant, Plan, Ratio, Suite
from bench.task_runs.fanout import FanOut

PLAN = Plan(rounds=5)
STORES = ("sqlite", "postgres")
UNIT = "processes/s"
FEW, MANY = "1,000 processes", "10,000 processes"
FAN_OUT = "fan-out"


@dataclass(frozen=True)
class Sizes:
    """How many processes a run has, and how many tasks each peer gets; none where it is left out."""

    few: int = 1_000
    many: int = 10_000
    celery: int = 10_000
    dbos: int = 2_000
    peers: bool = True


FULL = Sizes()
TINY = Sizes(few=5, many=10, peers=False)


class FanningOut(Peer):
    """A peer that fans out to its jobs and waits for all of them."""

    module, longest = "bench.task_runs", 2 * LONGEST


def suite(plan: Plan | None = None) -> Suite:
    """The cases and the ratios wanted."""
    places = Places()
    sizes = TINY if plan is not None and plan.quick else FULL
    return Suite(
        name="task_runs",
        title="Task runs",
        groups=[_fan_outs(places, sizes), *(_growth(places, store, sizes) for store in STORES)],
        ratios=[
            *(
                Ratio(f"fanout_vs_{peer}", (FAN_OUT, "headway, postgres"), (FAN_OUT, peer), 5.0)
                for peer in ("celery", "dbos")
            ),
            Ratio("fanout_sqlite_vs_celery", (FAN_OUT, "headway, sqlite"), (FAN_OUT, "celery")),
            *(
                Ratio(
                    f"{store}_process_cost_ratio",
                    (f"{store}, {FEW}", "headway"),
                    (f"{store}, {MANY}", "headway"),
                    most=1.2,
                )
                for store in STORES
            ),
        ],
        notes=NOTES,
        plan=plan or PLAN,
        close=places.close,
    )


def _fan_outs(places: Places, sizes: Sizes) -> list[Entrant]:
    ours = [
        Entrant(FAN_OUT, f"headway, {store}", partial(FanOut, places, store), 1, UNIT, sizes.many)
        for store in STORES
    ]
    if not sizes.peers:
        return ours

    def new_database() -> str:
        return places.server.new_database()

    celery = partial(FanningOut, "celery", lambda: str(places.new_folder()), "redis-server")
    dbos = partial(FanningOut, "dbos", new_database)
    return [
        *ours,
        Entrant(FAN_OUT, "celery", celery, 1, UNIT, sizes.celery),
        Entrant(FAN_OUT, "dbos", dbos, 1, UNIT, sizes.dbos),
    ]


def _growth(places: Places, store: str, sizes: Sizes) -> list[Entrant]:
    return [
        Entrant(f"{store}, {case}", "headway", partial(FanOut, places, store), 1, UNIT, size)
        for case, size in ((FEW, sizes.few), (MANY, sizes.many))
    ]


NOTES = (
    "One run with all its processes, from the call that creates it until its hook has completed it.",
    "celery: a chord on Redis, which keeps nothing on disk; dbos: a workflow that awaits others.",
    f"Tasks: Headway and celery {FULL.many:,}, dbos {FULL.dbos:,}.",
    "A ratio of costs is the time per process with many processes over the time with few.",
)
