"""Counts over HTTP: by leaf state and by transition, and the events from which a reader keeps them right."""

import asyncio
from typing import Any

import pytest

from headway import person
from headway.statechart.snapshot import Event
from tests.api.serving import Service
from tests.api.test_instances import begin, send
from tests.store.contract.place import NEVER

pytestmark = pytest.mark.mission("CON-TELL", "ENG-14")


async def numbers(service: Service, **filters: str) -> dict[str, Any]:
    """The answer of the route."""
    answer = await service.client.get("/v1/counts", params=filters)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def now(counts: dict[str, Any]) -> dict[str, int]:
    """How many are in which leaf states."""
    return {"+".join(each["states"]): each["now"] for each in counts["items"] if each["now"]}


async def read_until(service: Service, expected: dict[str, int]) -> dict[str, Any]:
    """The counts when the service has read so far."""
    async with asyncio.timeout(30):
        while now(counts := await numbers(service)) != expected:
            pass
    return counts


async def test_counts_are_by_leaf_state_and_transition(service: Service) -> None:
    """With who is longest there, what flowed, and how long those that left had stayed."""
    await begin(service, "e1")
    first = await numbers(service)
    assert now(first) == {"draft": 1}
    await begin(service, "e2")
    await send(service, "submit", "e2")
    counts = await read_until(service, {"draft": 1, "review": 1})
    draft, review = counts["items"]
    since = (await service.client.get("/v1/instances/e1")).json()["since"]["draft"]
    assert (draft["oldest"], draft["entered"]["1m"], draft["left"]["1m"]) == (since, 1, 1)
    assert draft["seconds"]["1h"]["p50"] <= draft["seconds"]["1h"]["p95"]
    assert review["seconds"]["24h"] == {"p50": None, "p95": None}
    [submit] = [each for each in counts["transitions"] if each["transition"] == "submit"]
    assert (submit["before"], submit["after"], submit["taken"]) == (
        ["draft"],
        ["review"],
        {"1m": 1, "1h": 1, "24h": 1},
    )
    assert (await numbers(service, chart="Expense", version="2"))["items"] == []
    assert (await numbers(service, chart="None"))["items"] == []


async def test_events_after_the_id_of_counts_are_not_in_them(service: Service) -> None:
    """Counts and live events fit together: none is counted twice, and none is missed."""
    tenant = service.node.tenant()
    await asyncio.gather(
        *(tenant.create("Expense", f"e{n}", {"amount": 1, "purpose": "x"}) for n in range(10))
    )
    kept: dict[str, Any] = {}

    async def read() -> None:
        kept.update(await numbers(service))

    async def write() -> None:
        for n in range(10):
            (await tenant.send(f"e{n}", Event("submit", by=person("ann", "employee")))).unwrap()

    await asyncio.gather(write(), read())
    counts = now(kept)
    async with service.client.stream("GET", "/v1/events", params={"after": kept["id"]}) as stream:
        lines = stream.aiter_lines()
        async with asyncio.timeout(30):
            while counts != {"review": 10}:
                line = await anext(lines)
                if line.startswith("data:") and '"transition"' in line:
                    counts = {
                        state: number
                        for state, number in {
                            "draft": counts.get("draft", 0) - 1,
                            "review": counts.get("review", 0) + 1,
                        }.items()
                        if number
                    }


async def test_what_is_pruned_leaves_the_counts_and_is_an_event(service: Service) -> None:
    """Readers that keep totals hear of it."""
    await begin(service, "e1")
    await send(service, "withdraw", "e1")
    counts = await read_until(service, {"withdrawn": 1})
    assert await service.node.engine.store.instances.prune(NEVER, 10) == 1
    await read_until(service, {})
    async with service.client.stream("GET", "/v1/events", params={"after": counts["id"]}) as stream:
        async with asyncio.timeout(30):
            async for line in stream.aiter_lines():
                if line.startswith("data:") and '"pruned"' in line:
                    assert '"chart":"Expense","version":1,"states":"withdrawn","count":1' in line
                    break


async def test_charts_of_which_a_caller_reads_only_their_own_are_left_out(service: Service) -> None:
    """A tenant sees its own alone."""
    await begin(service, "e1")
    async with service.as_("read", tenant="other") as other:
        assert (await other.get("/v1/counts")).json()["items"] == []
