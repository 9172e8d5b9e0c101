"""Letters: stored messages that a destination has not accepted, waiting for a retry or dead."""

from __future__ import annotations

from collections.abc import Sequence

from headway.engine.requests import Repeatable, run_command
from headway.store.port import Store
from headway.store.queries import LetterQuery
from headway.store.rows import LetterRow
from headway.store.unit import DiscardLetters, RedriveLetters

MOST = 1_000
"""How many letters one call redrives or discards by default."""


class Letters:
    """Lists, redrives and discards the letters of one tenant at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list(
        self,
        tenant: str,
        *,
        destination: str | None = None,
        instance: str | None = None,
        ids: Sequence[str] = (),
        dead: bool | None = True,
        after: int = 0,
        limit: int = 100,
    ) -> Sequence[LetterRow]:
        """A page of letters: dead ones, waiting ones (`dead=False`) or all (`dead=None`).

        `after` is the position of the last one seen; within one destination no letter is left out.
        """
        return await self._store.letters.page(
            LetterQuery(
                destination=destination,
                tenant=tenant,
                instance=instance,
                ids=tuple(ids),
                dead=dead,
                after=after,
                limit=limit,
            )
        )

    async def redrive(
        self,
        tenant: str,
        *,
        destination: str | None = None,
        instance: str | None = None,
        ids: Sequence[str] = (),
        limit: int = MOST,
        once: Repeatable[int] | None = None,
    ) -> int:
        """Retry dead letters at once, with all their attempts, the oldest first; answers how many.

        With `once`, for the first request with its key alone; raises RepeatedError and RequestReusedError.
        """
        query = LetterQuery(destination, tenant, instance, tuple(ids), dead=True, limit=limit)
        return await run_command(self._store, RedriveLetters(query), once)

    async def discard(
        self,
        tenant: str,
        *,
        destination: str,
        instance: str | None = None,
        ids: Sequence[str] = (),
        limit: int = MOST,
        waiting: bool = False,
        once: Repeatable[int] | None = None,
    ) -> int:
        """Delete dead letters of a destination, the oldest first; answers how many.

        With `waiting`, letters that wait for a retry instead; one that is being delivered may come back. With
        `once`, for the first request with its key alone; raises RepeatedError and RequestReusedError.
        """
        query = LetterQuery(destination, tenant, instance, tuple(ids), dead=not waiting, limit=limit)
        return await run_command(self._store, DiscardLetters(query), once)

    async def retire(self, destination: str) -> bool:
        """Delete a destination with its letters, for all tenants; False while a relay serves it.

        Until then the messages that it has not received are kept.
        """
        return await self._store.messages.retire(destination)
