"""Writes down how keys are used and refused: in the background, once a minute, one row for each day."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from headway.engine.service import Service
from headway.store.port import Store
from headway.store.rows import KeyNoteRow, KeyRow

KEEPS = timedelta(days=400)
MOST_OPEN = 10_000
MOST_PRUNED = 1_000


class Tally:
    """How often one thing was done with a key since it was last written down."""

    __slots__ = ("count", "first", "key", "last", "what")

    def __init__(self, key: KeyRow, what: str) -> None:
        self.key, self.what = key, what
        self.count, self.first, self.last = 0, 0.0, 0.0

    def add(self, now: float) -> None:
        """Once more."""
        if not self.count:
            self.first = now
        self.count += 1
        self.last = now


class KeyLog(Service):
    """Counts in memory and writes once a minute: what is counted costs its caller next to nothing.

    A process that is killed loses what it has not written: at most a minute of counts, never an act.
    """

    name = "key log"
    longest_rest = 60.0

    def __init__(self, store: Store, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._store, self._keys, self._monotonic = store, store.keys, monotonic
        self._tallies: dict[tuple[str, str], Tally] = {}

    def counting(self, key: KeyRow, what: str) -> Tally:
        """Where to count one thing of a key; beyond a bound, the one that was there first makes room."""
        found = self._tallies.get((key.id, what))
        if found is None:
            if len(self._tallies) >= MOST_OPEN:
                self._tallies.pop(next(iter(self._tallies)))
            found = self._tallies[key.id, what] = Tally(key, what)
        return found

    async def turn(self) -> bool:
        """Write what was counted, and drop what is older than it needs to be."""
        counted = [tally for tally in self._tallies.values() if tally.count]
        if counted:
            now, here = await self._store.now(), self._monotonic()
            notes = [_note(tally, now, here) for tally in counted]
            used = {note.key: note.last_at for note in notes if note.what == "used"}
            taken = [(tally, tally.count) for tally in counted]
            await self._keys.note(notes, used)
            for tally, count in taken:
                tally.count -= count
            self.tally["written"] += len(notes)
            await self._keys.prune_notes(now - KEEPS, MOST_PRUNED)
        return False

    async def stop(self) -> None:
        """Write the rest, and stop."""
        await super().stop()
        await self.turn()


def _note(tally: Tally, now: datetime, here: float) -> KeyNoteRow:
    """The note of a day; the times of this process's clock, told in the store's."""
    first, last = (now - timedelta(seconds=max(0.0, here - at)) for at in (tally.first, tally.last))
    day = last.replace(hour=0, minute=0, second=0, microsecond=0)
    first = max(first, day)
    return KeyNoteRow(tally.key.tenant, tally.key.id, day, tally.what, tally.count, first, last, by="")
