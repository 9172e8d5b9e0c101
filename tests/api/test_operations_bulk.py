"""Many instances at once: a dry run, the change itself, and a service that dies on the way."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.api.cursors import cursor_text
from headway.engine.bulk import HASTENED, Outcome, Retrying
from headway.engine.engine import Engine
from headway.statechart.snapshot import work_failed
from headway.store import migrate
from headway.store.address import database_at, store_at
from headway.store.queries import Claim, WorkQuery
from tests.api.dying import Fragile, Leaving, process
from tests.api.operating import Floor, Order, operated

pytestmark = pytest.mark.mission("ENG-2", "ENG-14")
ROOT = Path(__file__).resolve().parents[2]
ORDERS = {"chart": "Order"}
PLACED = {**ORDERS, "status": "placed"}


@pytest.fixture
def floor(database: str, runner: asyncio.Runner) -> Iterator[Floor]:
    """A running service."""
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(operated(database)))
    runner.run(stack.aclose())


def told(result: dict[str, Any]) -> tuple[Any, ...]:
    """What a result says in numbers."""
    return tuple(result[name] for name in ("seen", "done", "skipped", "refused", "failed"))


async def statuses(floor: Floor, tenant: str = "default") -> dict[str, str]:
    """Where each instance stands."""
    return {row.id: row.status for row in await floor.node.tenant(tenant).list(limit=1_000)}


async def test_a_dry_run_is_the_rule_and_tells_what_would_be_refused(floor: Floor) -> None:
    """With the codes and reasons of the charts, and nothing is changed: no state, no history, no request."""
    await floor.orders("a", "b", "c", "d", "e")
    (await floor.node.engine.send("default", "c", Order.pay())).unwrap()
    before = [await floor.node.tenant().history(name) for name in "abcde"]
    async with floor.operator() as desk:
        result = await desk.done("bulk", action="send", filter=ORDERS, event="hold")
    assert told(result) == (5, 3, 0, {"guard": 1, "illegal": 1}, {})
    reasons = {each["instance"]: each["detail"] for each in result["sample"] if each["outcome"] == "refused"}
    assert set(reasons) == {"c", "e"}
    assert "three are under way" in reasons["e"]
    assert (result["dry_run"], result["next"]) == (True, None)
    assert [await floor.node.tenant().history(name) for name in "abcde"] == before


async def test_what_the_dry_run_tells_is_what_happens(floor: Floor) -> None:
    """The same numbers, one by one, with what each changes for those after it."""
    await floor.orders("a", "b", "c", "d", "e")
    async with floor.operator() as desk:
        bulk: Any = {"action": "send", "filter": ORDERS, "event": "hold", "reason": "stock"}
        tried = await desk.done("bulk", **bulk)
        done = await desk.done("bulk", **bulk, dry_run=False)
    assert {**tried, "dry_run": False} == done
    assert told(done) == (5, 3, 0, {"guard": 2}, {})
    assert [*(await statuses(floor)).values()] == ["held"] * 3 + ["placed"] * 2
    line = (await floor.node.tenant().history("a"))[-1]
    assert (line.actor, line.event, line.reason) == ("olga", "hold", "stock")


async def test_the_scope_gives_nobody_a_role(floor: Floor) -> None:
    """What a chart does not let a caller do to one, it does not let them do to many."""
    await floor.orders("a", "b")
    async with floor.service.as_("operate") as client:
        bulk = {"action": "send", "filter": ORDERS, "event": "hold", "dry_run": False}
        result = (await client.post("/v1/operations/bulk", json=bulk)).json()
    assert told(result) == (2, 0, 0, {"actor": 2}, {})
    assert {*(await statuses(floor)).values()} == {"placed"}


async def test_many_are_cancelled_in_pages(floor: Floor) -> None:
    """The cursor leads through them in the order of their creation, though they drop out of the filter."""
    await floor.orders(*(f"o{number}" for number in range(5)))
    await floor.orders("theirs", tenant="other")
    cursor, pages = None, []
    async with floor.operator() as desk:
        for _ in range(3):
            body: Any = {"filter": PLACED, "limit": 2, "cursor": cursor, "dry_run": False}
            result = await desk.done("bulk", action="cancel", reason="recalled", **body)
            cursor = result["next"]
            pages.append([each["instance"] for each in result["sample"]])
    assert pages == [["o0", "o1"], ["o2", "o3"], ["o4"]]
    assert cursor is None
    assert {*(await statuses(floor)).values()} == {"withdrawn"}
    assert await statuses(floor, "other") == {"theirs": "placed"}
    assert (await floor.node.tenant().history("o4"))[-1].reason == "recalled"


async def test_what_cannot_be_cancelled_is_told_and_stays(floor: Floor) -> None:
    """In a dry run and in earnest; what a chart has no such event for, and where it refuses."""
    await floor.orders("n1", "n2", chart="Note")
    await floor.orders("a", "b")
    async with floor.operator() as desk:
        await desk.done("bulk", action="send", filter=ORDERS, event="hold", dry_run=False, limit=1)
        for dry_run in (True, False):
            notes = await desk.done("bulk", action="cancel", filter={"chart": "Note"}, dry_run=dry_run)
            orders = await desk.done("bulk", action="cancel", filter=ORDERS, dry_run=dry_run)
            assert told(notes) == (2, 0, 0, {}, {"not_possible": 2})
            assert told(orders) == (2, 1, 0, {"illegal": 1}, {})
    assert await statuses(floor) == {"n1": "open_", "n2": "open_", "a": "held", "b": "withdrawn"}


async def test_work_that_waits_is_retried(floor: Floor) -> None:
    """What waits for its next attempt is due now; for the others there is nothing to do."""
    await floor.failing("a")
    await floor.orders("b")
    store = floor.node.engine.store
    async with floor.operator() as desk:
        tried = await desk.done("bulk", action="retry", filter=ORDERS)
        [waiting] = await store.work.page(WorkQuery("default"))
        done = await desk.done("bulk", action="retry", filter=ORDERS, dry_run=False)
        again = [
            told(await desk.done("bulk", action="retry", filter=ORDERS, dry_run=dry_run))
            for dry_run in (True, False)
        ]
    [due] = await store.work.page(WorkQuery("default"))
    assert told(tried) == told(done) == (2, 1, 1, {}, {})
    assert again == [(2, 0, 2, {}, {})] * 2
    assert waiting.due > await store.now() >= due.due
    assert due.attempt == waiting.attempt == 2


async def test_a_worker_that_waits_gets_what_is_retried_at_once(floor: Floor) -> None:
    """Its claim is woken; after a dry run nothing is due, and it waits on."""
    work = await floor.failing("a")
    async with floor.operator() as desk, floor.waiting_claim() as claiming:
        await desk.done("bulk", action="retry", filter=ORDERS)
        assert not claiming.done()
        await desk.done("bulk", action="retry", filter=ORDERS, dry_run=False)
        [item] = (await claiming).json()["items"]
    assert (item["id"], item["attempt"]) == (work, 2)


@pytest.mark.mission("ENG-6")
async def test_a_repeat_with_a_key_is_done_once(floor: Floor) -> None:
    """The first answer byte for byte, and another body under the same key is refused."""
    await floor.orders("a", "b")
    bulk: Any = {"action": "send", "filter": ORDERS, "event": "nudge", "dry_run": False}
    async with floor.operator() as desk:
        first, second = [await desk.post("bulk", "once", **bulk) for _ in range(2)]
        other = await desk.post("bulk", "once", **{**bulk, "event": "pay"})
    assert (first.status_code, first.content) == (200, second.content)
    assert (other.status_code, other.json()["code"]) == (422, "key_reused")
    assert (await floor.node.tenant().get("a")).counters == {"nudges": 1}


async def test_only_ones_own_are_changed(floor: Floor) -> None:
    """The filter finds nothing of another tenant, and a cursor of theirs leads nowhere."""
    await floor.orders("a", "b")
    async with floor.operator() as desk:
        theirs = await desk.done("bulk", action="cancel", filter=ORDERS, limit=1)
    async with floor.operator("other") as desk:
        for dry_run in (True, False):
            result = await desk.done("bulk", action="cancel", filter=ORDERS, dry_run=dry_run)
            assert told(result) == (0, 0, 0, {}, {})
        led = await desk.post("bulk", action="cancel", filter=ORDERS, cursor=theirs["next"], dry_run=False)
    assert (led.status_code, led.json()["code"]) == (422, "cursor")
    assert {*(await statuses(floor)).values()} == {"placed"}


@pytest.mark.parametrize(
    "body",
    [
        {"action": "delete"},
        {"action": None},
        {"filter": {}},
        {"filter": {"chart": ""}},
        {"filter": {"chart": "Order", "ended": True}},
        {"filter": {"chart": "Order", "state": "placed"}},
        {"filter": {"chart": "Order", "owner": "\x00"}},
        {"filter": {"chart": 7}},
        {"dry_run": "false"},
        {"dry_run": 0},
        {"limit": 0},
        {"limit": 501},
        {"limit": True},
        {"cursor": "x"},
        {"cursor": cursor_text("instances", "a")},
        {"cursor": cursor_text("bulk", "a\x00")},
        {"reason": "a\x00b"},
        {"event": "pay"},
        {"tenant": "other"},
    ],
    ids=str,
)
async def test_bad_input_changes_nothing(floor: Floor, body: dict[str, Any]) -> None:
    """No coercion, no unknown field or action, no filter that leaves out the chart."""
    await floor.orders("a")
    async with floor.operator() as desk:
        answer = await desk.post("bulk", **{"action": "cancel", "filter": ORDERS, "dry_run": False, **body})
    assert (answer.status_code, answer.json()["code"]) in {(422, "invalid"), (422, "cursor")}, answer.text
    assert await statuses(floor) == {"a": "placed"}


async def test_an_event_that_is_none_is_told_for_each(floor: Floor) -> None:
    """An unknown event, one of the engine's own, and data that is no JSON."""
    await floor.orders("a")
    async with floor.operator() as desk:
        bulk: Any = {"action": "send", "filter": ORDERS, "dry_run": False}
        unknown = await desk.done("bulk", **bulk, event="nod")
        reserved = await desk.done("bulk", **bulk, event="work.done")
        text = '{"action":"send","filter":{"chart":"Order"},"event":"nudge","data":NaN}'
        headers = {"Content-Type": "application/json"}
        number = await desk.client.post("/v1/operations/bulk", content=text, headers=headers)
    assert told(unknown) == (1, 0, 0, {"unknown_event": 1}, {})
    assert told(reserved) == (1, 0, 0, {"reserved": 1}, {})
    assert number.status_code in {400, 422}


@pytest.mark.mission("ENG-3", "ENG-6")
async def test_a_bulk_whose_process_is_killed_goes_on_where_it_was(database: str) -> None:
    """The same call with the same key does the rest, and to nobody anything twice."""
    async with database_at(database, create=True) as opened:
        await migrate.up(opened)
    names = [f"f{number}" for number in range(250)]
    async with Engine(store_at(database), [Fragile]) as engine:
        for name in names:
            (await engine.create("default", name, Fragile)).unwrap()
    bulk = {"action": "send", "filter": {"chart": "Fragile"}, "event": "push", "dry_run": False}
    headers = {"Idempotency-Key": "push all"}
    async with process(database, "f150") as client:
        with pytest.raises(httpx.TransportError):
            await client.post("/v1/operations/bulk", json=bulk, headers=headers)
    async with Engine(store_at(database), [Fragile]) as engine:
        pushed = [name for name in names if (await engine.get("default", name)).counters]
        assert pushed == names[:100]
    async with process(database) as client:
        answer = await client.post("/v1/operations/bulk", json=bulk, headers=headers)
    assert told(answer.json()) == (250, 250, 0, {}, {})
    async with Engine(store_at(database), [Fragile]) as engine:
        for name in names:
            assert (await engine.get("default", name)).counters == {"pushes": 1}


@pytest.mark.mission("ENG-3", "ENG-6")
async def test_a_bulk_that_is_repeated_acts_on_those_it_was_about(database: str) -> None:
    """What it has moved does not fit its filter any more; the repeat does not go on with others instead."""
    async with database_at(database, create=True) as opened:
        await migrate.up(opened)
    names = [f"l{number}" for number in range(130)]
    async with Engine(store_at(database), [Leaving]) as engine:
        for name in names:
            (await engine.create("default", name, Leaving)).unwrap()
    chosen = {"chart": "Leaving", "status": "waiting"}
    bulk = {"action": "send", "filter": chosen, "event": "leave", "dry_run": False, "limit": 110}
    headers = {"Idempotency-Key": "leave"}
    async with process(database, "l105") as client:
        with pytest.raises(httpx.TransportError):
            await client.post("/v1/operations/bulk", json=bulk, headers=headers)
    async with process(database) as client:
        answer = await client.post("/v1/operations/bulk", json=bulk, headers=headers)
        again = await client.post("/v1/operations/bulk", json=bulk, headers=headers)
    assert told(answer.json()) == (110, 110, 0, {}, {})
    assert again.content == answer.content
    async with Engine(store_at(database), [Leaving]) as engine:
        gone = [name for name in names if (await engine.get("default", name)).ended]
    assert gone == names[:110]


@pytest.mark.mission("ENG-6")
async def test_a_retry_that_is_repeated_leaves_the_next_attempt_alone(floor: Floor) -> None:
    """Work that was made due, and has failed again since, waits for its time; the answer is the first one."""
    await floor.failing("a")
    act = Retrying(floor.node.engine, "default")
    store = floor.node.engine.store
    [row] = await floor.node.tenant().list()
    first = await act.perform([row], "once")
    [work] = await store.work.claim(Claim("quick", ("default",), 1, act.engine.charts.versions))
    failed = work_failed(work.id, work.attempt, "FLAKY")
    (await floor.node.engine.send("default", "a", failed)).unwrap()
    [row] = await floor.node.tenant().list()
    assert await act.perform([row], "once") == first == [Outcome("a", HASTENED)]
    [work] = await store.work.page(WorkQuery("default"))
    assert work.attempt == 3
    assert work.due > await store.now()
