"""Answers to requests with an idempotency key."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headway.codec import replace
from headway.store.port import Store
from headway.store.unit import Changes, Reads
from tests.store.contract.acts import KEY, Blind, found, writing
from tests.store.contract.clocks import minute
from tests.store.contract.place import (
    ANY_TEXT,
    NEVER,
    REQUEST,
    Place,
)

ALL_KEYS: dict[str, Any] = {
    "instances": {KEY},
    "requests": {("acme", "r1")},
    "records": {("acme", "plan", "p1")},
    "counters": {("acme", "n")},
}
REQUESTED = ("acme", "r1")
SECOND = timedelta(seconds=1)


@pytest.mark.mission("ENG-3", "ENG-4", "ENG-17")
class TestRequests:
    """An answer is kept until it expires."""

    @pytest.mark.mission("ENG-6")
    async def test_a_request_id_is_free_again_when_it_has_expired(self, store: Store) -> None:
        """An expired answer is not found, even before it is pruned, and gives way to a new one."""
        expired = replace(REQUEST, expires_at=await store.now() - timedelta(milliseconds=1))
        await store.run(writing(requests=[expired]))
        assert not (await found(store, **ALL_KEYS)).requests
        await store.run(writing(requests=[REQUEST]))
        assert (await found(store, **ALL_KEYS)).requests == {("acme", "r1"): REQUEST}

    @pytest.mark.mission("ENG-6")
    async def test_an_answer_comes_back_byte_for_byte(self, store: Store) -> None:
        """What a request got is kept as it was."""
        row = replace(REQUEST, body=ANY_TEXT, answer='{"b":1,  "a":2}' + ANY_TEXT)
        await store.run(writing(requests=[row]))
        assert (await found(store, **ALL_KEYS)).requests == {("acme", "r1"): row}


@pytest.mark.mission("ENG-17")
class TestDurations:
    """What lasts until a time lasts until just before it; what is due at a time is due at it."""

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


@pytest.mark.mission("ENG-17")
class TestPruning:
    """Expired answers are deleted."""

    @pytest.mark.mission("ENG-6")
    async def test_only_expired_request_ids_are_pruned(self, store: Store) -> None:
        """So many as were asked for at a time, until none is left; those that count stay."""
        past = await store.now() - SECOND
        expired = [replace(REQUEST, key=f"old{n}", expires_at=past) for n in range(5)]
        await store.run(writing(requests=[REQUEST, *expired]))
        assert [await store.requests.prune(3) for _ in range(3)] == [3, 2, 0]
        assert (await found(store, requests={("acme", "r1")})).requests == {("acme", "r1"): REQUEST}
