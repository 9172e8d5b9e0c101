"""What the service suite measures, and what is wanted of it."""

from functools import partial

from bench.engine.places import Places
from bench.harness import Entrant, Plan, Ratio, Suite
from bench.service import live
from bench.service.posting import Posting
from bench.service.servers import FASTAPI, HEADWAY
from bench.service.starting import FIRST, IDLE, Starting

PLAN = Plan(rounds=5, seconds=0.0)
STORES = ("sqlite", "postgres")
REQUESTS = "requests/s"
START = "starts"

RATIOS = (
    *(
        Ratio(
            f"http_{store}_vs_fastapi",
            (f"POST event, {store}", HEADWAY),
            (f"POST event, {store}", FASTAPI),
            1.0,
        )
        for store in STORES
    ),
    *live.RATIOS,
    Ratio("start_seconds", ("headway serve", FIRST), None, most=2.0),
    Ratio("idle_megabytes", ("headway serve", IDLE), None, most=120.0),
)
NOTES = (
    "POST event: one process, wrk with 64 connections, 4,096 instances, a key for each request.",
    "It is committed with fsync before it is answered.",
    "Bare FastAPI parses the same body and gives the same answer, and does nothing.",
)


def suite(plan: Plan | None = None) -> Suite:
    """The cases and the ratios wanted."""
    places = Places()
    is_quick = plan is not None and plan.quick
    return Suite(
        name="service",
        title="Service",
        groups=[
            *(_posts(places, store, 1 if is_quick else 3) for store in STORES),
            [*live.entrants()],
            [Entrant("headway serve", START, partial(Starting, places), unit="starts/s", cycles=1)],
        ],
        ratios=RATIOS,
        notes=NOTES,
        plan=plan or PLAN,
        close=places.close,
    )


def _posts(places: Places, store: str, seconds: int) -> list[Entrant]:
    case = f"POST event, {store}"
    return [
        Entrant(
            case, system, partial(Posting, places, system, store, seconds=seconds), unit=REQUESTS, cycles=1
        )
        for system in (HEADWAY, FASTAPI)
    ]
