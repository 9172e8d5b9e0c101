"""Metrics: what they count, whom they are shown to, and that their number is bounded."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headway import person
from headway.engine.tenant import Tenant
from headway.lifecycle import Lifecycle, together
from headway.node import Node
from headway.outbox import Message, PermanentError, Subscriber
from headway.store.unit import Changes
from headway.telemetry.counts import Counts, Distribution, MetricFamily, Totals
from headway.telemetry.metrics import Meter, Metrics
from headway.worker.handlers import observed
from tests.cli.shop import Order, handlers
from tests.refusals import refusal_of

pytestmark = pytest.mark.mission("ENG-2", "ENG-6", "ENG-14", "ENG-16")

ANN, BOB = person("ann"), person("bob", "manager")
SECONDS = 120


async def refuse(_: Message) -> None:
    """Take nothing."""
    raise PermanentError("never")


class Shop:
    """A node that is measured."""

    def __init__(self, database: str, *, tenants: int = 20, meters: Sequence[Meter] = ()) -> None:
        counted = Counts(tenants)
        self.node = Node(
            database,
            [Order],
            handlers=observed(handlers, [counted.begin]),
            destinations=[Subscriber("refuses", refuse, begins="first")],
        )
        self.metrics = Metrics(self.node, counted, meters)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Tenant]:
        """The shop for the length of a block."""
        self.metrics.start()
        async with self.node, asyncio.timeout(SECONDS):
            yield self.node.tenant()
        self.metrics.stop()

    async def values(self, tenant: str | None = None) -> dict[str, float]:
        """All samples by name and labels."""
        text = (await self.metrics.text(tenant)).decode()
        return {
            f"{sample.name}{'' if not sample.labels else dict(sorted(sample.labels.items()))}": sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


async def approved(tenant: Tenant, name: str) -> None:
    """An order that was paid."""
    await tenant.create(Order, name, {"customer": "ann"})
    await tenant.send(name, Order.submit(by=ANN))
    await tenant.send(name, Order.approve(by=BOB), request_id=f"yes {name}")
    await tenant.until(name, "paid")


async def test_a_life_is_counted(database: str) -> None:
    """Pairs of states, times in them, work with its codes and retries, refusals, repeats, dead letters."""
    shop = Shop(database)
    async with shop.open() as tenant:
        await approved(tenant, "flaky-1")
        await tenant.send("flaky-1", Order.approve(by=BOB), request_id="yes flaky-1")
        await refusal_of(tenant.send("flaky-1", Order.submit(by=ANN)))
        await tenant.create(Order, "o-2", {"customer": "ann"})
        await tenant.send("o-2", Order.submit(by=ANN))
        [relay] = [relay for relay in shop.node.relays if "refuses" in relay.name]
        while not relay.tally["dead"]:
            await relay.turn()
        found = await shop.values()
    own = "'tenant': 'default'"
    pair = f"{{'after': 'review', 'before': 'draft', 'chart': 'Order', {own}}}"
    busy = f"{{'code': 'BANK_BUSY', 'handler': 'pay', 'outcome': 'failed', {own}}}"
    done = f"{{'code': '', 'handler': 'pay', 'outcome': 'done', {own}}}"
    assert found[f"headway_transitions_total{pair}"] == 2
    assert found[f"headway_state_seconds_count{{'chart': 'Order', 'state': 'review', {own}}}"] == 1
    assert found[f"headway_work_outcomes_total{busy}"] == 1
    assert found[f"headway_work_outcomes_total{done}"] == 1
    assert found[f"headway_work_retries_total{{'handler': 'pay', {own}}}"] == 1
    assert found[f"headway_work_in_flight{{'handler': 'pay', {own}}}"] == 0
    assert found[f"headway_work_seconds_count{{'handler': 'pay', {own}}}"] == 2
    assert found[f"headway_asks_opened_total{{'chart': 'Order', 'state': 'review', {own}}}"] == 2
    assert found[f"headway_asks_closed_total{{'event': 'approve', {own}}}"] == 1
    assert found[f"headway_asks_open{{{own}}}"] == 1
    assert (found["headway_refused_total"], found["headway_requests_replayed_total"]) == (1, 1)
    assert found["headway_dead_letters{'destination': 'subscriber:refuses'}"] == 1
    assert found["headway_deliveries_total{'destination': 'subscriber:refuses', 'result': 'dead'}"] == 1
    assert found["headway_batch_instances_count"] >= 6
    assert found["headway_worker_attempts_total{'what': 'claimed'}"] == 2


async def test_a_tenant_sees_nothing_of_others(database: str) -> None:
    """Neither their series nor those of the whole process, and not even that there are others."""
    shop = Shop(database, tenants=1)
    async with shop.open() as tenant:
        await approved(tenant, "o-1")
        await approved(shop.node.tenant("other"), "o-1")
        everything, own = await shop.values(), await shop.values("default")
        others = await shop.values("other")
    assert any("'tenant': 'other'" in name for name in everything)
    assert own
    assert all("'tenant': 'default'" in name for name in own)
    assert not [name for name in others if "asks_open" not in name], (
        "beyond the bound, tenants share one label"
    )


async def test_a_lifecycle_tells_metrics_of_its_own(database: str) -> None:
    """What each of several lifecycles counts is told by the service, a tenant's own to the tenant."""
    parcels = Totals()

    def metered(name: str) -> Meter:
        def meter(node: Node, counts: Counts) -> Callable[[], list[MetricFamily]]:
            def look(changes: Changes) -> None:
                for row in changes.created:
                    parcels.add((counts.tenant(row.tenant),))

            node.engine.watch(look)
            return lambda: [MetricFamily("counter", name, "Parcels.", (), parcels.values)]

        return meter

    both = together(Lifecycle(meters=[metered(name)]) for name in ("shop_parcels", "post_parcels"))
    shop = Shop(database, meters=both.meters)
    async with shop.open() as tenant:
        await tenant.create(Order, "o-1", {"customer": "ann"})
        await shop.node.tenant("other").create(Order, "o-1", {"customer": "bob"})
        everything, own = await shop.values(), await shop.values("other")
    for name in ("shop", "post"):
        assert everything[f"headway_{name}_parcels_total{{'tenant': 'default'}}"] == 2
        assert own[f"headway_{name}_parcels_total{{'tenant': 'other'}}"] == 2
        assert f"headway_{name}_parcels_total{{'tenant': 'default'}}" not in own


def test_series_are_bounded() -> None:
    """Beyond a number of series everything is counted under one label, and nothing is lost."""
    totals = Totals(most=2)
    for code in ("a", "b", "c", "d"):
        totals.add(("default", code))
    assert totals.values == {("default", "a"): 1, ("default", "b"): 1, ("default", "other"): 2}


async def test_time_in_a_state_is_known_after_a_restart(database: str) -> None:
    """It is the instance that knows when it entered its state, not the process that saw it."""
    async with Shop(database).open() as tenant:
        await tenant.create(Order, "o-1", {"customer": "ann"})
        await tenant.send("o-1", Order.submit(by=ANN))
    later = Shop(database)
    async with later.open() as tenant:
        await tenant.send("o-1", Order.approve(by=BOB))
        found = await later.values()
    review = "{'chart': 'Order', 'state': 'review', 'tenant': 'default'}"
    assert found[f"headway_state_seconds_count{review}"] == 1
    assert found[f"headway_state_seconds_sum{review}"] > 0


def test_a_distribution_counts_what_is_at_most_as_large() -> None:
    """A value on a bound belongs below it, as Prometheus wants it."""
    found = Distribution((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        found.add(value)
    assert (found.counts, found.sum) == ([2, 1, 1], 12.0)
