"""Durations: each ends at its time, not a microsecond before and not one after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from headway.codec import replace
from headway.store.port import Store
from headway.store.queries import LetterQuery, Settlement
from headway.store.rows import Cursor
from headway.store.unit import Changes, Reads
from headway.testing.clock import FakeClock
from tests.store.contract.acts import Blind, found, writing
from tests.store.contract.limits import timed
from tests.store.contract.place import (
    KNOWN,
    LONG_AGO,
    NEVER,
    REQUEST,
    Place,
    letter,
    timer,
    work,
)
from tests.store.contract.work import claim, ids

MINUTE = 60_000
MOMENT = timedelta(microseconds=1)
NAME = ("acme", "browser")
CONSUMER = "a"
REQUESTED = ("acme", "r1")
ATTEMPT = ("acme", "w1", 1)


class Moment:
    """A store, and a clock that can be set to just before an end and to the end itself."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store, self._clock = store, clock
        self.end = clock.now() + timedelta(milliseconds=MINUTE)

    def almost(self) -> datetime:
        """Move to the last microsecond before the end."""
        return self._clock.move_to(self.end - MOMENT)

    def exactly(self) -> datetime:
        """Move to the end."""
        return self._clock.move_to(self.end)

    def almost_again(self) -> datetime:
        """Move to the last microsecond before the end of a lease of a minute that was taken just before."""
        return self._clock.move_to(self.end - MOMENT + timedelta(milliseconds=MINUTE) - MOMENT)

    def exactly_again(self) -> datetime:
        """Move to the end of that lease."""
        return self._clock.move_to(self.end - MOMENT + timedelta(milliseconds=MINUTE))


@asynccontextmanager
async def minute(place: Place) -> AsyncIterator[Moment]:
    """A store whose time is the test's, a minute before an end."""
    async with timed(place) as (store, clock):
        yield Moment(store, clock)


def leased(at: Moment, **fields: Any) -> Any:
    """Work that a worker holds until the end."""
    return work(worker="w", leased_until=at.end, lease=MINUTE, **fields)


@pytest.mark.mission("ENG-17")
class DurationsContract:
    """What lasts until a time lasts until just before it; what is due at a time is due at it."""

    @pytest.mark.mission("ENG-10")
    async def test_a_node_is_alive_until_its_time_is_over(self, place: Place) -> None:
        """Without a further heartbeat it is gone then."""
        async with minute(place) as at:
            await at.store.nodes.keep("a", KNOWN, MINUTE)
            at.almost()
            assert [node.name for node in await at.store.nodes.alive()] == ["a"]
            at.exactly()
            assert not await at.store.nodes.alive()

    async def test_a_name_is_held_until_the_end_of_its_lease(self, place: Place) -> None:
        """Nobody else gets it before, and anybody at that time."""
        async with minute(place) as at:
            await at.store.leases.hold([NAME], "w1", MINUTE)
            at.almost()
            assert await at.store.leases.hold([NAME], "w2", MINUTE) == []
            at.exactly()
            assert await at.store.leases.hold([NAME], "w2", MINUTE) == [NAME]

    @pytest.mark.mission("ENG-10")
    async def test_an_extended_name_is_held_from_then_on(self, place: Place) -> None:
        """An extension at the last moment lasts for the whole lease."""
        async with minute(place) as at:
            await at.store.leases.hold([NAME], "w1", MINUTE)
            at.almost()
            assert await at.store.leases.hold([NAME], "w1", MINUTE) == [NAME]
            at.almost_again()
            assert await at.store.leases.hold([NAME], "w2", MINUTE) == []
            at.exactly_again()
            assert await at.store.leases.hold([NAME], "w2", MINUTE) == [NAME]

    @pytest.mark.mission("ENG-5")
    async def test_a_consumer_settles_until_the_end_of_its_lease(self, place: Place) -> None:
        """From then on what it has done counts for nothing, even if nobody has taken its place."""
        async with minute(place) as at:
            await at.store.leases.hold([("", CONSUMER)], "n1", MINUTE)
            at.almost()
            assert await at.store.messages.settle(Settlement(CONSUMER, "n1", Cursor(1, 1)))
            at.exactly()
            assert not await at.store.messages.settle(Settlement(CONSUMER, "n1", Cursor(2, 2), (letter(),)))
            assert await at.store.messages.consumer(CONSUMER) == Cursor(1, 1)
            assert not await at.store.letters.page(LetterQuery())

    @pytest.mark.mission("ENG-5")
    async def test_a_consumer_is_retired_from_the_end_of_its_lease_on(self, place: Place) -> None:
        """As long as somebody delivers for it, it stays."""
        async with minute(place) as at:
            await at.store.leases.hold([("", CONSUMER)], "n1", MINUTE)
            await at.store.messages.settle(Settlement(CONSUMER, "n1", Cursor(1, 1)))
            at.almost()
            assert not await at.store.messages.retire(CONSUMER)
            assert await at.store.messages.consumer(CONSUMER) == Cursor(1, 1)
            at.exactly()
            assert await at.store.messages.retire(CONSUMER)
            assert await at.store.messages.consumer(CONSUMER) is None

    @pytest.mark.mission("ENG-9")
    async def test_a_timer_is_due_at_its_time(self, place: Place) -> None:
        """It is found then, and not before."""
        async with minute(place) as at:
            await at.store.run(writing(timers=[timer(due=at.end)]))
            at.almost()
            assert not await at.store.timers.due(10, KNOWN)
            at.exactly()
            assert await at.store.timers.due(10, KNOWN) == [timer(due=at.end)]

    @pytest.mark.mission("ENG-10")
    @pytest.mark.parametrize("limits", [{}, {"concurrency": "k"}, {"rate": "r"}], ids=str)
    async def test_work_is_due_at_its_time(self, place: Place, limits: dict[str, Any]) -> None:
        """It is claimed then, and not before, with a limit as without; until then its time is the next."""
        async with minute(place) as at:
            await at.store.run(writing(work=[work(due=at.end, **limits)]))
            at.almost()
            assert not await at.store.work.claim(claim())
            assert await at.store.work.next() == at.end
            at.exactly()
            assert await at.store.work.next() is None
            assert ids(await at.store.work.claim(claim())) == ["w1"]

    @pytest.mark.mission("ENG-10")
    async def test_work_that_was_handed_back_is_due_at_its_time(self, place: Place) -> None:
        """It is claimed from the time on that it was handed back for."""
        async with minute(place) as at:
            await at.store.run(writing(work=[work(lease=2 * MINUTE)]))
            await at.store.work.claim(claim("w"))
            assert await at.store.work.release("w", [ATTEMPT], at.end)
            at.almost()
            assert not await at.store.work.claim(claim("x"))
            at.exactly()
            assert ids(await at.store.work.claim(claim("x"))) == ["w1"]

    @pytest.mark.mission("ENG-10")
    async def test_work_is_hastened_until_it_is_due(self, place: Place) -> None:
        """What is due now needs no haste and keeps its due time."""
        async with minute(place) as at:
            await at.store.run(writing(work=[work("w1", due=at.end), work("w2", due=at.end)]))
            almost = at.almost()
            assert await at.store.work.hasten([ATTEMPT]) == [("acme", "w1")]
            [row] = await at.store.work.claim(claim())
            assert (row.id, row.due) == ("w1", almost)
            at.exactly()
            assert not await at.store.work.hasten([("acme", "w2", 1)])

    @pytest.mark.mission("ENG-10")
    async def test_work_is_lost_at_the_end_of_its_lease(self, place: Place) -> None:
        """It is rescued then, and not before; until then the end of its lease is the next time."""
        async with minute(place) as at:
            await at.store.run(writing(work=[work(lease=MINUTE)]))
            await at.store.work.claim(claim())
            at.almost()
            assert not await at.store.work.expired(10, KNOWN)
            assert await at.store.work.next() == at.end
            at.exactly()
            assert ids(await at.store.work.expired(10, KNOWN)) == ["w1"]
            assert await at.store.work.next() is None

    @pytest.mark.mission("ENG-10")
    async def test_an_extended_lease_of_work_ends_a_lease_later(self, place: Place) -> None:
        """An extension at the last moment lasts for the whole lease; one at the end comes too late."""
        async with minute(place) as at:
            await at.store.run(writing(work=[leased(at)]))
            at.almost()
            assert await at.store.work.extend("w", [ATTEMPT]) == [("acme", "w1")]
            at.almost_again()
            assert not await at.store.work.expired(10, KNOWN)
            at.exactly_again()
            assert ids(await at.store.work.expired(10, KNOWN)) == ["w1"]
            assert not await at.store.work.extend("w", [ATTEMPT])

    @pytest.mark.mission("ENG-10")
    async def test_a_worker_holds_work_until_the_end_of_its_lease(self, place: Place) -> None:
        """It keeps checkpoints and hands work back before, and neither at the end."""
        async with minute(place) as at:
            second = ("acme", "w2", 1)
            await at.store.run(writing(work=[leased(at), leased(at, id="w2")]))
            at.almost()
            assert await at.store.work.checkpoint("w", ATTEMPT, "kept")
            assert await at.store.work.release("w", [ATTEMPT]) == [("acme", "w1")]
            at.exactly()
            assert not await at.store.work.checkpoint("w", second, "late")
            assert not await at.store.work.release("w", [second])

    @pytest.mark.mission("ENG-6")
    async def test_a_request_id_counts_until_it_expires(self, place: Place) -> None:
        """Its answer is found before; at that time it is free for another."""
        async with minute(place) as at:
            kept = replace(REQUEST, expires_at=at.end)
            await at.store.run(writing(requests=[kept]))
            at.almost()
            assert (await found(at.store, requests={REQUESTED})).requests == {REQUESTED: kept}
            at.exactly()
            assert not (await found(at.store, requests={REQUESTED})).requests

    @pytest.mark.mission("ENG-6")
    async def test_a_request_id_is_not_used_twice_before_it_expires(self, place: Place) -> None:
        """A unit that did not look collides and finds the first answer; at the end it takes its place."""
        async with minute(place) as at:
            kept = replace(REQUEST, expires_at=at.end)
            await at.store.run(writing(requests=[kept]))
            at.almost()
            late = Blind(Reads(requests={REQUESTED}), Changes(requests=[REQUEST]))
            await at.store.run(late)
            assert late.seen
            assert late.seen.requests == {REQUESTED: kept}
            at.exactly()
            await at.store.run(writing(requests=[replace(REQUEST, expires_at=NEVER)]))
            assert [*(await found(at.store, requests={REQUESTED})).requests.values()] == [REQUEST]

    @pytest.mark.mission("ENG-6")
    async def test_a_request_id_is_pruned_when_it_has_expired(self, place: Place) -> None:
        """What still counts stays, however soon it expires."""
        async with minute(place) as at:
            await at.store.run(writing(requests=[replace(REQUEST, expires_at=at.end)]))
            at.almost()
            assert await at.store.requests.prune(10) == 0
            assert (await found(at.store, requests={REQUESTED})).requests
            at.exactly()
            assert await at.store.requests.prune(10) == 1

    @pytest.mark.mission("ENG-5")
    async def test_a_letter_is_tried_again_at_its_time(self, place: Place) -> None:
        """It is due then, and not before."""
        async with minute(place) as at:
            await at.store.leases.hold([("", CONSUMER)], "n1", 2 * MINUTE)
            waiting = (letter(1, due=at.end), letter(2, due=LONG_AGO))
            assert await at.store.messages.settle(Settlement(CONSUMER, "n1", Cursor(), waiting))
            query = LetterQuery(CONSUMER, due=True)
            at.almost()
            assert not await at.store.letters.page(query)
            at.exactly()
            assert [row.position for row in await at.store.letters.page(query)] == [1]
