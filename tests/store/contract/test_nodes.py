"""Nodes: which of them are alive."""

from __future__ import annotations

import pytest

from headway.store.port import Store
from tests.store.contract.clocks import MINUTE, minute
from tests.store.contract.place import (
    KNOWN,
    Place,
)

V1, V2, OTHER = ("expense", 1), ("expense", 2), ("claim", 1)


@pytest.mark.mission("ENG-21", "ENG-17")
class TestNodes:
    """Nodes say that they are alive and what they know."""

    async def test_a_node_is_alive_for_as_long_as_it_said(self, store: Store) -> None:
        """What it knows is what it said last; others do not touch it."""
        await store.nodes.keep("b", [V1], 3_600_000)
        await store.nodes.keep("a", [V2, V1], 3_600_000)
        assert [(node.name, node.versions) for node in await store.nodes.alive()] == [
            ("a", (V1, V2)),
            ("b", (V1,)),
        ]
        await store.nodes.keep("b", [], 3_600_000)
        await store.nodes.keep("a", [V1], 0)
        assert [(node.name, node.versions) for node in await store.nodes.alive()] == [("b", ())]

    async def test_a_node_that_has_ended_is_gone_at_once(self, store: Store) -> None:
        """It may come back under its name."""
        await store.nodes.keep("a", [V1], 3_600_000)
        await store.nodes.forget("a")
        await store.nodes.forget("never was")
        assert not await store.nodes.alive()
        await store.nodes.keep("a", [V2], 3_600_000)
        assert [node.versions for node in await store.nodes.alive()] == [(V2,)]


@pytest.mark.mission("ENG-17")
class TestDurations:
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
