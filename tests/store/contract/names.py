"""Names of nodes: one living process has a name, and the next one ends the leases of the one before."""

from __future__ import annotations

import pytest

from headway.store.port import Store
from headway.store.queries import WorkQuery
from tests.store.contract.acts import writing
from tests.store.contract.place import ANY_TEXT, NEVER, Place, work

BROWSER, SOMEONES = ("acme", "browser"), ("acme", "printer")
HOUR = 3_600_000


async def is_leased(store: Store, *ids: str) -> list[bool]:
    """Whether the lease of each work still runs."""
    now = await store.now()
    rows = await store.work.page(WorkQuery(tenant="acme", ids=ids))
    return [row.leased_until is not None and row.leased_until > now for row in rows]


@pytest.mark.mission("ENG-10", "ENG-17")
class NamesContract:
    """A name goes to another process when the one that has it is gone, and not before."""

    async def test_the_next_process_of_a_name_ends_the_leases_of_the_one_before(self, place: Place) -> None:
        """Those on work and on names, of this holder alone; whose they were stays known."""
        if not place.shared:
            pytest.skip("a store that no other process can reach")
        first, second = place.store(), place.store()
        await first.open()
        assert await first.leases.take_name(ANY_TEXT, "old")
        rows = [work("a", worker="old", leased_until=NEVER), work("b", worker="other", leased_until=NEVER)]
        await first.run(writing(work=rows))
        await first.leases.hold([BROWSER], "old", HOUR)
        await first.leases.hold([SOMEONES], "other", HOUR)
        await second.open()
        assert not await second.leases.take_name(ANY_TEXT, "new")
        assert await is_leased(second, "a", "b") == [True, True]
        await first.close()
        assert await second.leases.take_name(ANY_TEXT, "new")
        assert await is_leased(second, "a", "b") == [False, True]
        assert (await second.leases.get(BROWSER)) is not None
        assert await second.leases.hold([BROWSER, SOMEONES], "new", HOUR) == [BROWSER]
        await second.close()

    async def test_a_process_may_take_its_name_again(self, store: Store) -> None:
        """Its own leases go on, and another name is another matter."""
        assert await store.leases.take_name("n", "me")
        await store.run(writing(work=[work("a", worker="me", leased_until=NEVER)]))
        assert await store.leases.take_name("n", "me")
        assert await store.leases.take_name("m", "it")
        assert await is_leased(store, "a") == [True]
