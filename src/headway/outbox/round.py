"""A round: what a relay delivers before it writes how far it has come."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from headway.codec import replace
from headway.store.rows import Key, LetterRow, MessageRow

Row = MessageRow | LetterRow
"""A message that nobody has tried yet, or one that was not taken before."""


class Round:
    """Letters that are due and new messages; until something is known of one, it counts as not tried.

    `trying` is what is to be tried, in the order of the log; `queued` waits behind letters of its instance.
    `blocked` are the instances with letters and the positions of these: a message that is one of them was a
    probe, and waits already. `written` is true at any time.
    """

    def __init__(
        self, due: Sequence[LetterRow], new: Sequence[MessageRow], blocked: Mapping[Key, Collection[int]]
    ) -> None:
        self.due = due
        self.queued: Sequence[MessageRow] = ()
        self.trying: Sequence[Row] = new
        if due or blocked:
            busy = {*map(key_of, due), *blocked}
            behind = (row for row in new if key_of(row) in busy)
            self.queued = [row for row in behind if row.position not in blocked.get(key_of(row), ())]
            self.trying = [*due, *(row for row in new if key_of(row) not in busy)]
        self._arrived: set[int] = set()
        self._failed: dict[int, tuple[LetterRow, timedelta]] = {}
        self._dead: dict[int, LetterRow] = {}

    def lanes(self) -> list[list[Row]]:
        """What is to be tried, one lane for each instance, in order; those that have failed before come last.

        So they neither keep others waiting nor have the destination left alone before others had their turn.
        """
        lanes: dict[Key, list[Row]] = {}
        for row in self.trying:
            lanes.setdefault(key_of(row), []).append(row)
        return sorted(
            lanes.values(), key=lambda lane: isinstance(lane[0], LetterRow) and lane[0].attempts > 0
        )

    def arrived(self, rows: Iterable[Row]) -> None:
        """The destination has taken them."""
        self._arrived.update(row.position for row in rows)

    def failed(self, letter: LetterRow, pause: timedelta) -> None:
        """It is to be tried again after a pause."""
        self._failed[letter.position] = (letter, pause)

    def died(self, letter: LetterRow) -> None:
        """It is not tried any more."""
        self._dead[letter.position] = letter

    @property
    def is_untouched(self) -> bool:
        """Whether nothing has become of any message, so that the round can be made again."""
        return not self._arrived and not self._failed and not self._dead and not self.queued

    def ended(self) -> Iterator[LetterRow]:
        """Letters that block nobody any more."""
        return (row for row in self.due if row.position in self._arrived or row.position in self._dead)

    def waiting(self) -> Iterator[Row]:
        """What has to be tried, now or later, before the messages that follow."""
        yield from self._untried()
        yield from (letter for letter, _ in self._failed.values())
        yield from self.queued

    def written(self, consumer: str, now: datetime) -> tuple[tuple[LetterRow, ...], tuple[int, ...]]:
        """The letters to write, and the positions of those that have arrived."""
        new = [row for row in (*self._untried(), *self.queued) if isinstance(row, MessageRow)]
        letters = [letter_of(consumer, row) for row in new]
        letters += [replace(letter, due=now + pause) for letter, pause in self._failed.values()]
        letters += self._dead.values()
        delivered = [letter.position for letter in self.due if letter.position in self._arrived]
        return tuple(letters), tuple(delivered)

    def _untried(self) -> list[Row]:
        if len(self._arrived) == len(self.trying):
            return []
        known = {*self._arrived, *self._failed, *self._dead}
        return [row for row in self.trying if row.position not in known]


def key_of(row: Row) -> Key:
    """The instance that a message is of."""
    return row.tenant, row.instance


def letter_of(consumer: str, row: Row) -> LetterRow:
    """A message as a letter: one that nobody has tried is due as soon as it is the first of its instance."""
    if isinstance(row, LetterRow):
        return row
    return LetterRow(
        destination=consumer,
        tenant=row.tenant,
        id=row.id,
        instance=row.instance,
        kind=row.kind,
        name=row.name,
        data=row.data,
        at=row.at,
        position=row.position,
        attempts=0,
        due=row.at,
        error="",
        trace=row.trace,
    )
