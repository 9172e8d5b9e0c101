"""The calls of a worker, in both forms of the client, against the real service."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from headway.engine.tenant import until
from headway.errors import CallConflictError
from tests.api.work.place import WORKER, Place, placed
from tests.client.conftest import client_at
from tests.client.either import Either, Form

pytestmark = pytest.mark.mission("ENG-24", "ENG-10")


@pytest.fixture
def payments(tmp_path: Path, runner: asyncio.Runner) -> Iterator[Place]:
    """A service whose instances have work for remote workers."""
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(placed(f"sqlite:///{tmp_path}/headway.db")))
    runner.run(stack.aclose())


@asynccontextmanager
async def worker(payments: Place, form: Form) -> AsyncIterator[Either]:
    """A client with the key of a worker."""
    key = (await payments.access.keyring.make("acme", WORKER, ("work",))).text
    async with client_at(payments.url, key, form) as client:
        yield client


async def test_work_is_claimed_reported_and_completed(payments: Place, form: Form) -> None:
    """A claim that waits gets work as soon as there is some; its result reaches the chart."""
    async with worker(payments, form) as client:
        claiming = asyncio.ensure_future(client.claim_work("w", ["pay"], wait=30))
        await payments.waiting(1)
        await payments.pay("p1", 7)
        [work] = await claiming
        sign = await client.heartbeat_work("w", work, 0.5, message="half", checkpoint={"page": 1})
        await client.checkpoint_work("w", work, None)
        ended = await client.complete_work("w", work, {"paid": 7})
        with pytest.raises(CallConflictError) as over:
            await client.fail_work("w", work, "LATE")
        assert await client.claim_work("w", ["pay"]) == []
    assert (work.instance, work.handler, work.context, work.attempt) == ("p1", "pay", {"amount": 7}, 1)
    assert (sign.standing, ended.status, over.value.code) == ("held", "paid", "lease_lost")
    assert (await payments.node.engine.get("acme", "p1")).context["result"] == {"paid": 7}


async def test_work_fails_with_a_code_for_the_chart(payments: Place, form: Form) -> None:
    """So do its message and its details reach the chart."""
    await payments.pay("p1")
    async with worker(payments, form) as client:
        [work] = await client.claim_work("w", ["pay"])
        await client.fail_work("w", work, "LIMIT", "too much", details={"most": 3})
    failed = await until(payments.node.engine, ("acme", "p1"))
    assert failed.context["result"] == {"code": "LIMIT", "message": "too much", "most": 3}


async def test_a_result_that_is_refused_has_ended_the_attempt(payments: Place, form: Form) -> None:
    """So the error says that something was committed; a repeat gets the same error."""
    await payments.pay("p1")
    async with worker(payments, form) as client:
        [work] = await client.claim_work("w", ["pay"])
        for _ in range(2):
            with pytest.raises(CallConflictError) as refused:
                await client.complete_work("w", work, {"paid": 7}, event="nope", request_id="end")
            assert (refused.value.code, refused.value.maybe_committed) == ("result_refused", True)
    failed = await until(payments.node.engine, ("acme", "p1"))
    assert failed.context["result"]["code"]


async def test_work_that_is_released_goes_to_another_with_its_checkpoint(payments: Place, form: Form) -> None:
    """It is the same attempt; a claim that is repeated with its key gets the same work."""
    await payments.pay("p1")
    async with worker(payments, form) as client:
        [work] = await client.claim_work("w", ["pay"], request_id="c1")
        assert await client.claim_work("w", ["pay"], request_id="c1") == [work]
        await client.checkpoint_work("w", work, 3)
        assert (await client.release_work("w", work)).standing == "left"
        [again] = await client.claim_work("v", ["pay"])
    assert (again.id, again.attempt, again.checkpoint) == (work.id, work.attempt, 3)
