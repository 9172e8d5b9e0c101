"""Reads of single instances that come at once are read together, and each gets its own."""

import asyncio
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from headway.engine.lookups import Lookups
from headway.errors import StoreUnavailableError
from headway.store.rows import InstanceRow, Key
from tests.store.contract.place import instance

pytestmark = pytest.mark.mission("ENG-2")
ROWS = {("acme", f"i{n}"): instance(f"i{n}") for n in range(10)}


class Slow:
    """A store with one lane, whose reads end when the test says so."""

    def __init__(self) -> None:
        self.reads: list[set[Key]] = []
        self.error: Exception | None = None
        self.goes_on = asyncio.Event()

    async def get(self, key: Key) -> InstanceRow | None:
        """One of the rows."""
        [*found] = await self.look_up([key])
        return found[0] if found else None

    async def look_up(self, keys: Collection[Key]) -> Sequence[InstanceRow]:
        """Those of the rows."""
        self.reads.append(set(keys))
        await self.goes_on.wait()
        if self.error is not None:
            raise self.error
        return [ROWS[key] for key in keys if key in ROWS]


@pytest.fixture
def slow() -> Slow:
    """A store that nobody has read from yet."""
    return Slow()


async def begun(slow: Slow, names: Sequence[str]) -> list[asyncio.Task[InstanceRow | None]]:
    """Reads that have been asked for, of which one is under way."""
    store: Any = SimpleNamespace(lanes=1, instances=slow)
    lookups = Lookups(store)
    tasks = [asyncio.create_task(lookups.instance(("acme", name))) for name in names]
    await asyncio.sleep(0)
    return tasks


async def test_who_comes_while_one_reads_shares_the_next_read(slow: Slow) -> None:
    """The first is read alone, all others together, also when two want the same."""
    names = ["i0", "i1", "i2", "i2", "unknown", "i0"]
    tasks = await begun(slow, names)
    slow.goes_on.set()
    assert await asyncio.gather(*tasks) == [ROWS.get(("acme", name)) for name in names]
    assert slow.reads == [{("acme", "i0")}, {("acme", name) for name in names[1:]}]


async def test_who_comes_during_a_read_is_not_answered_by_it(slow: Slow) -> None:
    """A read that began before the call may be older than what the caller knows."""
    [first, second] = await begun(slow, ["i0", "i0"])
    slow.goes_on.set()
    assert await first == await second == ROWS["acme", "i0"]
    assert len(slow.reads) == 2


async def test_a_read_that_fails_fails_for_each_who_waits(slow: Slow) -> None:
    """Everybody gets the error, and the next read is as good as the first."""
    slow.error = StoreUnavailableError("away")
    tasks = await begun(slow, ["i0", "i1", "i2"])
    slow.goes_on.set()
    errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in errors] == [StoreUnavailableError] * 3
    slow.error = None
    assert await (await begun(slow, ["i3"]))[0] == ROWS["acme", "i3"]


@pytest.mark.parametrize("gone", [0, 1, 2])
async def test_who_gives_up_takes_nothing_from_the_others(slow: Slow, gone: int) -> None:
    """One who reads, or waits, may leave; the others get what they asked for."""
    tasks = await begun(slow, ["i0", "i1", "i2", "i3"])
    tasks[gone].cancel()
    await asyncio.sleep(0)
    slow.goes_on.set()
    left = [task for number, task in enumerate(tasks) if number != gone]
    assert await asyncio.gather(*left) == [ROWS["acme", f"i{n}"] for n in range(4) if n != gone]
