"""Histories: pages that a reader can trust."""

from __future__ import annotations

import pytest

from headway.codec import replace
from headway.store.port import Store
from tests.store.contract.acts import KEY, writing
from tests.store.contract.place import ANY_TEXT, HISTORY, NEVER


@pytest.mark.mission("ENG-7", "ENG-17")
class TestHistory:
    """History is listed in the order it happened."""

    async def test_history_comes_back_as_it_went_in(self, store: Store) -> None:
        """Every column survives, and the store gives each line its position."""
        full = replace(
            HISTORY, seq=2, row=3, at=NEVER, before=ANY_TEXT, reason=ANY_TEXT, attempt=7, data=ANY_TEXT
        )
        await store.run(writing(history=[HISTORY, full]))
        first, second = await store.history.page(KEY)
        assert [replace(each, position=0, stamp=0) for each in (first, second)] == [HISTORY, full]
        assert 0 < first.position < second.position
        assert first.cursor < second.cursor

    @pytest.mark.mission("ENG-14")
    async def test_history_is_read_in_pages(self, store: Store) -> None:
        """Pages follow one another by position, and hold the lines of one instance only."""
        for seq in range(1, 8):
            lines = [replace(HISTORY, seq=seq), replace(HISTORY, seq=seq, instance="i2")]
            await store.run(writing(history=[*lines, replace(HISTORY, seq=seq, tenant="other")]))
        seen: list[int] = []
        position = 0
        while page := await store.history.page(KEY, after=position, limit=3):
            assert len(page) <= 3
            position = page[-1].position
            seen += [line.seq for line in page]
        assert seen == [1, 2, 3, 4, 5, 6, 7]

    @pytest.mark.mission("ENG-14")
    async def test_the_newest_lines_are_read_without_the_rest(self, store: Store) -> None:
        """The last lines of one instance come first, and no more than were asked for."""
        for seq in range(1, 8):
            lines = [replace(HISTORY, seq=seq), replace(HISTORY, seq=seq, instance="i2")]
            await store.run(writing(history=[*lines, replace(HISTORY, seq=seq, tenant="other")]))
        newest = await store.history.newest(KEY, 3)
        assert [(line.tenant, line.instance, line.seq) for line in newest] == [
            (*KEY, 7),
            (*KEY, 6),
            (*KEY, 5),
        ]
        assert not await store.history.newest(("acme", "nobody"), 3)
