"""What a node does not know is left to others: work, timers and lost attempts of other versions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headway.codec import replace
from headway.store.port import Store
from headway.store.queries import Claim, WorkQuery
from headway.store.rows import Version, WorkVersion
from tests.store.contract.acts import writing
from tests.store.contract.place import AT, INSTANCE, LONG_AGO, NEVER, instance, timer, work

V1, V2, OTHER = ("expense", 1), ("expense", 2), ("claim", 1)
SECOND = timedelta(seconds=1)


def claim(*versions: Version, worker: str = "w") -> Claim:
    """A claim of a worker that knows some versions."""
    return Claim(worker, ("default",), 100, versions)


@pytest.mark.mission("ENG-21", "ENG-17")
class VersionsContract:
    """Work and timers go to those who know the version of their instance."""

    async def test_a_claim_gets_work_of_the_versions_it_knows(self, store: Store) -> None:
        """However much of other versions waits before it, limited or not."""
        limits: tuple[dict[str, Any], ...] = (
            {},
            {"concurrency": "key", "at_once": 9},
            {"rate": "key", "rate_most": 9},
        )
        rows = [
            work(f"w{number}{kind}", due=LONG_AGO, chart=chart, version=version, **limited)
            for kind, (chart, version) in enumerate((V1, V2, OTHER))
            for number, limited in enumerate(limits)
        ]
        await store.run(writing(work=rows))
        assert not await store.work.claim(claim())
        assert not await store.work.claim(claim(("expense", 3)))
        assert sorted(row.id for row in await store.work.claim(claim(V2))) == ["w01", "w11", "w21"]
        taken = [row.id for row in await store.work.claim(claim(V1, OTHER))]
        assert sorted(taken) == ["w00", "w02", "w10", "w12", "w20", "w22"]

    async def test_timers_of_unknown_versions_are_neither_due_nor_next(self, store: Store) -> None:
        """Those who do not know them find the others, in due order."""
        now = await store.now()
        rows = [
            timer("a", due=LONG_AGO, version=2),
            timer("b", due=now - 2 * SECOND),
            timer("c", due=now - 3 * SECOND, chart="claim"),
            timer("d", due=NEVER, version=3),
        ]
        await store.run(writing(timers=rows))
        assert await store.timers.due(10, [V1, OTHER]) == [rows[2], rows[1]]
        assert await store.timers.due(1, [V1, OTHER, V2]) == [rows[0]]
        assert await store.timers.due(10, []) == []
        assert await store.timers.next([V1, OTHER]) == rows[2].due
        assert await store.timers.next([("expense", 3)]) == NEVER
        assert await store.timers.next([]) is None

    async def test_lost_work_of_unknown_versions_is_not_found(self, store: Store) -> None:
        """Who could not tell its instance does not see it."""
        rows = [work("w1", lease=0), work("w2", lease=0, version=2)]
        await store.run(writing(work=rows))
        await store.work.claim(claim(V1, V2))
        assert [row.id for row in await store.work.expired(10, [V2])] == ["w2"]
        assert [row.id for row in await store.work.expired(10, [V1, V2])] == ["w1", "w2"]
        assert not await store.work.expired(10, [])

    @pytest.mark.mission("ENG-19")
    async def test_work_follows_the_version_of_its_instance(self, store: Store) -> None:
        """Waiting work can be claimed by those who know the new version; held work stays held."""
        rows = [work("held", priority=1), work("waits"), work("gone"), work("other")]
        await store.run(writing(work=rows))
        [held] = await store.work.claim(replace(claim(V1), limit=1))
        changes = [WorkVersion("acme", id_, 2) for id_ in ("held", "waits", "gone", "none")]
        changes.append(WorkVersion("stranger", "other", 2))
        await store.run(writing(work_versions=changes, work_gone=[("acme", "gone")]))
        left = {row.id: row for row in await store.work.page(WorkQuery("acme"))}
        assert {id_: row.version for id_, row in left.items()} == {"held": 2, "other": 1, "waits": 2}
        assert left["held"] == replace(held, version=2)
        assert [row.id for row in await store.work.claim(claim(V2))] == ["waits"]

    async def test_work_that_is_written_with_its_version_has_it(self, store: Store) -> None:
        """A new attempt in the same unit takes the place of what was there."""
        await store.run(writing(work=[work("w1")]))
        change = WorkVersion("acme", "w1", 2)
        await store.run(writing(work=[work("w1", attempt=2, version=2)], work_versions=[change]))
        assert [(row.version, row.attempt) for row in await store.work.claim(claim(V2))] == [(2, 2)]

    async def test_versions_with_living_instances_are_known(self, store: Store) -> None:
        """One that has none, or only such as have ended, is not living."""
        rows = [instance("a"), instance("b", version=2, ended=True), instance("c", chart="claim", tenant="x")]
        await store.run(writing(created=rows))
        assert {*await store.charts.living_versions()} == {V1, OTHER}
        await store.run(writing(updated=[replace(INSTANCE, id="a", seq=2, ended=True, updated_at=AT)]))
        assert {*await store.charts.living_versions()} == {OTHER}


@pytest.mark.mission("ENG-21", "ENG-17")
class NodesContract:
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
