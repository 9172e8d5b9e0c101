"""Letters: what destinations have not taken yet, for people to look at and decide about."""

from __future__ import annotations

from collections.abc import Sequence

from headway.store.port import LetterQuery, Store
from headway.store.rows import LetterRow


class Letters:
    """The letters of one tenant at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list(
        self,
        tenant: str,
        *,
        destination: str | None = None,
        dead: bool | None = True,
        after: int = 0,
        limit: int = 100,
    ) -> Sequence[LetterRow]:
        """A page of letters: dead ones, waiting ones (`dead=False`) or all (`dead=None`).

        `after` is the position of the last one seen; within one destination no letter is left out.
        """
        return await self._store.letters(
            LetterQuery(destination=destination, tenant=tenant, dead=dead, after=after, limit=limit)
        )

    async def redrive(self, tenant: str, *, destination: str | None = None, ids: Sequence[str] = ()) -> int:
        """Have dead letters tried again at once, with all their attempts; answers how many."""
        return await self._store.redrive(_dead(tenant, destination, ids))

    async def discard(self, tenant: str, *, destination: str, ids: Sequence[str] = ()) -> int:
        """Give dead letters of a destination up for good; answers how many."""
        return await self._store.discard(_dead(tenant, destination, ids))

    async def retire(self, destination: str) -> bool:
        """Forget a destination that is no more, for all tenants, with its letters; False while one serves it.

        Until then the messages it has not seen are kept for it.
        """
        return await self._store.retire(destination)


def _dead(tenant: str, destination: str | None, ids: Sequence[str]) -> LetterQuery:
    return LetterQuery(destination=destination, tenant=tenant, ids=tuple(ids), dead=True)
