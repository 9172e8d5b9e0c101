"""A lease: one holder at a time, and another as soon as that one has given it up."""

import pytest

from headway import Final, State, Statechart
from headway.engine.lease import Lease
from headway.node import Node

pytestmark = pytest.mark.mission("ENG-10")


class Job(Statechart):
    """Ends."""

    here, over = State(initial=True), Final()
    finish = here.to(over)


async def test_a_lease_that_is_given_up_belongs_to_who_asks_next(database: str) -> None:
    """Its former holder knows at once that it has it no more, and does not act as if it had."""
    async with Node(database, [Job]) as node:
        first, second = (Lease(node.engine.store, "sweep", holder) for holder in ("first", "second"))
        assert (await first.hold(), await second.hold()) == (True, False)
        assert (first.is_held, second.is_held) == (True, False)
        await first.release()
        assert not first.is_held
        assert (await second.hold(), await first.hold()) == (True, False)
        await first.release()
        assert await second.hold()


@pytest.mark.parametrize(
    ("seconds", "fresh", "lapsed"),
    [
        (0, True, False),
        (4.9, True, False),
        (5, False, False),
        (14.9, False, False),
        (15, False, True),
        (-0.1, False, True),
    ],
)
async def test_a_lease_is_extended_after_a_third_of_its_time_and_lapses_at_its_end(
    database: str, *, seconds: float, fresh: bool, lapsed: bool
) -> None:
    """It is not trusted either when the clock was set back."""
    async with Node(database, [Job]) as node:
        lease = Lease(node.engine.store, "sweep", "first")
        assert (lease.is_fresh(0), lease.has_lapsed(100)) == (False, False)
        assert await lease.hold(100)
        assert (lease.is_fresh(100 + seconds), lease.has_lapsed(100 + seconds)) == (fresh, lapsed)
        assert await lease.hold(100 + seconds)
        assert lease.is_fresh(100 + seconds)
