"""Open work, timers and workers, as operators see them."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from headway.api.cursors import cipher_for, cursor_text
from headway.api.operations import work as work_routes
from headway.engine.bulk import hasten
from headway.engine.engine import Engine
from headway.engine.requests import Request
from headway.statechart.snapshot import work_done
from headway.store.queries import Claim
from headway.store.rows import Attempt, Key
from headway.worker.handlers import Handlers
from headway.worker.worker import Worker
from tests.api.operating import WORKER, Floor, Order, operated

pytestmark = pytest.mark.mission("ENG-2", "ENG-14")
READS = ("work", "timers", "workers", "letters", "destinations")


@pytest.fixture
def floor(database: str, runner: asyncio.Runner) -> Iterator[Floor]:
    """A running service."""
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(operated(database)))
    runner.run(stack.aclose())


def named(page: Any) -> list[str]:
    """Whose things are on a page."""
    return [each["instance"] for each in page["items"]]


def path_of(work: str, act: str = "") -> str:
    """The path of work, or of what can be done to it."""
    return f"work/{quote(work, safe='')}{act}"


async def test_open_work_tells_who_holds_it_and_when_it_is_due(floor: Floor) -> None:
    """What waits for its next attempt, and what a worker has."""
    work = await floor.failing("a/b")
    await floor.orders("c")
    (await floor.node.engine.send("default", "c", Order.pay())).unwrap()
    async with floor.service.as_("work", actor=WORKER) as client:
        await client.post("/v1/work/claim", json={"worker": "w", "handlers": ["pay"]})
    async with floor.operator() as desk:
        waiting = await desk.get(path_of(work))
        [held] = (await desk.get("work", leased="true"))["items"]
        assert waiting == (await desk.get("work", leased="false"))["items"][0]
    assert (waiting["attempt"], waiting["worker"], waiting["handler"]) == (2, None, "pay")
    until_due = datetime.fromisoformat(waiting["due"]) - await floor.node.engine.store.now()
    assert timedelta(minutes=50) < until_due <= timedelta(minutes=90)
    assert (held["instance"], held["worker"], held["attempt"]) == ("c", "payments/w", 1)
    assert held["leased_until"] is not None


async def test_work_is_found_by_queue_and_instance_in_pages(floor: Floor) -> None:
    """By id; what an unknown instance has is nothing."""
    for name in "abc":
        await floor.failing(name)
    async with floor.operator() as desk:
        first = await desk.get("work", limit=2)
        rest = await desk.get("work", limit=2, cursor=first["next"])
        assert (named(first), named(rest), rest["next"]) == (["a", "b"], ["c"], None)
        assert named(await desk.get("work", instance="b")) == ["b"]
        assert named(await desk.get("work", instance="b", leased="true")) == []
        assert named(await desk.get("work", instance="none")) == []
        assert named(await desk.get("work", queue="default")) == ["a", "b", "c"]
        assert named(await desk.get("work", queue="slow")) == []


async def test_work_that_waits_is_retried_at_once(floor: Floor) -> None:
    """It is due now, the same attempt, and a worker that waits gets it; a second call changes nothing."""
    work = await floor.failing("a")
    async with floor.operator() as desk:
        async with floor.waiting_claim() as claiming:
            retried = await desk.done(path_of(work, "/retry"))
            [item] = (await claiming).json()["items"]
        busy = await desk.post(path_of(work, "/retry"))
    assert (retried["attempt"], item["id"], item["attempt"]) == (2, work, 2)
    assert (busy.status_code, busy.json()["code"]) == (409, "not_possible")
    assert len(await floor.node.tenant().history("a")) == 3


@pytest.mark.parametrize("many", [False, True])
async def test_a_worker_of_this_process_begins_what_is_retried_at_once(floor: Floor, *, many: bool) -> None:
    """Without waiting until it next polls, whether one work item is retried or many are."""
    work = await floor.failing("a")
    handlers, begun = Handlers(), asyncio.Event()

    @handlers
    async def pay(_: object) -> None:
        """Note that it was called."""
        begun.set()

    worker = floor.node.worker = Worker(floor.node.engine, handlers)
    worker._claiming.longest_rest = 600
    async with worker, floor.operator() as desk, asyncio.timeout(30):
        if many:
            await desk.done("bulk", action="retry", filter={"chart": "Order"}, dry_run=False)
        else:
            await desk.done(path_of(work, "/retry"))
        await begun.wait()
    floor.node.worker = None


@pytest.mark.parametrize("ends", [False, True])
async def test_who_is_quicker_than_the_answer_to_a_retry_is_no_conflict(
    floor: Floor, monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> None:
    """Work that a worker has taken, or even done, since it was made due was made due."""
    work = await floor.failing("a")

    async def overtaken(
        engine: Engine, attempts: Sequence[Attempt], request: Request | None
    ) -> Sequence[Key]:
        hastened = await hasten(engine, attempts, request)
        [row] = await engine.store.work.claim(Claim("quick", ("default",), 1, engine.charts.versions))
        if ends:
            (await engine.send(row.tenant, row.instance, work_done(row.id, row.attempt))).unwrap()
        return hastened

    monkeypatch.setattr(work_routes, "hasten", overtaken)
    async with floor.operator() as desk:
        retried = await desk.done(path_of(work, "/retry"))
    assert (retried["id"], retried["attempt"], retried["worker"]) == (work, 2, None if ends else "quick")


async def test_what_is_due_already_stays_so(floor: Floor) -> None:
    """To ask again is no error, and moves nothing."""
    work = await floor.failing("a")
    async with floor.operator() as desk:
        first, second = [await desk.done(path_of(work, "/retry")) for _ in range(2)]
    assert first == second


async def test_timers_come_in_due_order(floor: Floor) -> None:
    """In pages, those of one instance alone, and none of an instance that has left its state."""
    await floor.orders("a", "b", "c", "d")
    (await floor.node.engine.send("default", "d", Order.pay())).unwrap()
    async with floor.operator() as desk:
        first = await desk.get("timers", limit=2)
        rest = await desk.get("timers", limit=2, cursor=first["next"])
        [own] = (await desk.get("timers", instance="b"))["items"]
        assert named(await desk.get("timers", instance="d")) == []
        assert named(await desk.get("timers", instance="none")) == []
    assert (named(first), named(rest), rest["next"]) == (["a", "b"], ["c"], None)
    assert own == first["items"][1]
    assert own["event"] == "after.placed.forget"


async def test_workers_are_those_of_the_process_those_that_call_and_those_elsewhere(floor: Floor) -> None:
    """With what they take, whether they wait, and how much of the tenant's work they hold."""
    handlers = Handlers()

    @handlers
    async def ship(_: object) -> None:
        """Never called here."""

    floor.node.worker = Worker(floor.node.engine, handlers, queues=("slow",), name="here")
    await floor.orders("a", "b")
    await floor.orders("x", tenant="other")
    for tenant, name in (("default", "a"), ("default", "b"), ("other", "x")):
        (await floor.node.engine.send(tenant, name, Order.pay())).unwrap()
    for tenant in ("default", "other"):
        async with floor.service.as_("work", tenant=tenant, actor=WORKER) as client:
            await client.post("/v1/work/claim", json={"worker": tenant, "handlers": ["pay"]})
    async with floor.operator() as desk:
        here, remote = (await desk.get("workers"))["items"]
        floor.service.app.app.state.remote.workers._known.clear()
        [_, elsewhere] = (await desk.get("workers"))["items"]
    floor.node.worker = None
    assert (here["kind"], here["queues"], here["handlers"], here["held"]) == ("node", ["slow"], ["ship"], 0)
    assert (remote["name"], remote["kind"], remote["held"]) == ("payments/default", "remote", 1)
    assert remote["handlers"] == ["pay"]
    assert 0 <= remote["silent_seconds"] < 30
    assert (elsewhere["name"], elsewhere["kind"], elsewhere["held"]) == ("payments/default", "elsewhere", 1)
    assert elsewhere["leased_until"] == remote["leased_until"]


async def test_another_tenant_sees_and_changes_nothing(floor: Floor) -> None:
    """No work, timers, workers or letters of others; their work is as unknown as none."""
    work = await floor.failing("a")
    await floor.dead_letters("b")
    (await floor.node.engine.send("default", "b", Order.pay())).unwrap()
    async with floor.service.as_("work", actor=WORKER) as client:
        await client.post("/v1/work/claim", json={"worker": "w", "handlers": ["pay"]})
    async with floor.operator("other") as desk:
        for path in ("work", "timers", "workers", "letters"):
            assert (await desk.get(path))["items"] == []
        [instances, shop] = (await desk.get("destinations"))["items"]
        assert (shop["name"], shop["dead"], shop["lag_seconds"]) == ("subscriber:shop", 0, 0)
        assert instances["name"] == "instances"
        for name in (work, work.replace("a:", "z:")):
            for answer in (
                await desk.client.get(f"/v1/operations/{path_of(name)}"),
                await desk.post(path_of(name, "/retry")),
            ):
                assert (answer.status_code, answer.json()["code"]) == (404, "unknown_work")
                assert answer.json()["detail"] == f"there is no open work {name}"
    async with floor.operator() as desk:
        assert (await desk.get(path_of(work)))["due"] > (await floor.node.engine.store.now()).isoformat()


@pytest.mark.parametrize("scope", ["read", "send", "work"])
async def test_only_operators_operate(floor: Floor, scope: str) -> None:
    """Every route needs the scope `operate`."""
    bulk = {"action": "retry", "filter": {"chart": "Order"}}
    async with floor.service.as_(scope) as client:
        answers = [await client.get(f"/v1/operations/{path}") for path in READS]
        answers += [
            await client.post(f"/v1/operations/letters/{act}", json={}) for act in ("redrive", "discard")
        ]
        answers.append(await client.post("/v1/operations/bulk", json=bulk))
        answers.append(await client.post("/v1/operations/work/x/retry"))
    assert {(each.status_code, each.json()["code"]) for each in answers} == {(403, "forbidden")}


@pytest.mark.parametrize(
    "query",
    [
        "work?leased=yes",
        "work?leased=1",
        "work?limit=0",
        "work?limit=501",
        "work?instance=%00",
        "work?queue=%00",
        "work?worker=w",
        "work?cursor=x",
        f"work?cursor={cursor_text('timers', 'a')}",
        f"work?cursor={cursor_text('work', chr(0))}",
        f"timers?cursor={cursor_text('timers', ['2026-01-01T00:00:00', 'a'])}",
        f"timers?cursor={cursor_text('timers', ['2026-01-01T00:00:00Z', chr(0)])}",
        f"timers?cursor={cursor_text('timers', 'a')}",
        "timers?instance=a&instance=b",
        "letters?dead=maybe",
        "letters?destination=%00",
        f"letters?cursor={cursor_text('letters', [0, 'a'])}",
        f"letters?cursor={cursor_text('letters', [1, 'a'])}",
        f"letters?cursor={cursor_text('letters', ['1', 'a'])}",
        f"letters?cursor={cursor_text('letters', [cipher_for(b'?', 'default').close('letters', 1), 'a'])}",
        f"letters?cursor={cursor_text('letters', [1, chr(0)])}",
        "workers?limit=1",
        f"work/{'x' * 501}",
    ],
)
async def test_bad_input_is_told_as_such(floor: Floor, query: str) -> None:
    """A problem document with 422, and the service goes on."""
    answer = await floor.service.client.get(f"/v1/operations/{query}")
    assert (answer.status_code, answer.json()["code"]) in {(422, "invalid"), (422, "cursor")}, answer.text
    health: httpx.Response = await floor.service.client.get("/ready")
    assert health.status_code == 200
