"""What the suite of task runs measures, and what is wanted of it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

from bench.engine.drain import INSTALL, LONGEST, _environment
from bench.engine.places import Places
from bench.harness import Entrant, Plan, Ratio, Suite, Unavailable, WrongResult
from bench.task_runs.fanout import FanOut

PLAN = Plan(rounds=3)
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


class Peer:
    """Another system in a process of its own; it gets a new place in each round and tells its time."""

    def __init__(self, name: str, new_place: Callable[[], str], program: str | None = None) -> None:
        if find_spec(name) is None:
            raise Unavailable(f"the package is not installed; {INSTALL}")
        if program is not None and shutil.which(program) is None:
            raise Unavailable(f"{program} is not on this machine; {INSTALL}")
        self._name, self._new_place = name, new_place
        new_place()

    def run(self, cycles: int) -> float:
        """Fan out to that many tasks."""
        words = [sys.executable, "-m", "bench.task_runs", self._name, str(cycles), self._new_place()]
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=2 * LONGEST, env=_environment()
        )
        if done.returncode:
            raise WrongResult(done.stderr[-1_000:])
        return float(json.loads(done.stdout.splitlines()[-1])["seconds"])

    def verify(self) -> None:
        """It has raised an error unless all tasks were done."""


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

    celery = partial(Peer, "celery", lambda: str(places.new_folder()), "redis-server")
    dbos = partial(Peer, "dbos", new_database)
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
