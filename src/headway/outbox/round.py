"""A round: what a relay delivers before it writes how far it has come."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

from headway.codec import replace
from headway.store.rows import Key, LetterRow


class Round:
    """Letters that are due and new messages, in lanes: one for each instance, in order.

    All that is to be tried stands in `trying`, too, in the order of the log.

    Until something is known of a message, it counts as not tried: `written` is true at any time.
    """

    def __init__(self, due: Sequence[LetterRow], new: Sequence[LetterRow], blocked: Collection[Key]) -> None:
        trying = {(letter.tenant, letter.instance) for letter in due}
        lanes: dict[Key, list[LetterRow]] = {}
        self.queued: list[LetterRow] = []
        for letter in new:
            key = (letter.tenant, letter.instance)
            if key in blocked or key in trying:
                self.queued.append(letter)
            else:
                lanes.setdefault(key, []).append(letter)
        self.lanes = [*([letter] for letter in due), *lanes.values()]
        self.trying = [*due, *(letter for letter in new if (letter.tenant, letter.instance) in lanes)]
        self._stored = {letter.position for letter in due}
        self._untried = {letter.position: letter for lane in self.lanes for letter in lane}
        self._arrived: list[LetterRow] = []
        self._failed: list[tuple[LetterRow, timedelta]] = []
        self._dead: list[LetterRow] = []

    def arrived(self, letter: LetterRow) -> None:
        """The destination has taken it."""
        del self._untried[letter.position]
        self._arrived.append(letter)

    def failed(self, letter: LetterRow, pause: timedelta) -> None:
        """It is to be tried again after a pause."""
        del self._untried[letter.position]
        self._failed.append((letter, pause))

    def died(self, letter: LetterRow) -> None:
        """It is not tried any more."""
        del self._untried[letter.position]
        self._dead.append(letter)

    @property
    def is_untouched(self) -> bool:
        """Whether nothing has become of any message, so that the round can be made again."""
        return not self._arrived and not self._failed and not self._dead and not self.queued

    def ended(self) -> Iterator[LetterRow]:
        """What blocks nobody any more."""
        yield from self._arrived
        yield from self._dead

    def waiting(self) -> Iterator[LetterRow]:
        """What has to be tried, now or later, before the messages that follow."""
        yield from self._untried.values()
        yield from (letter for letter, _ in self._failed)
        yield from self.queued

    def written(self, now: datetime) -> tuple[tuple[LetterRow, ...], tuple[int, ...]]:
        """The letters to write, and the positions of those that have arrived."""
        letters = [letter for letter in self._untried.values() if letter.position not in self._stored]
        letters += [replace(letter, due=now + pause) for letter, pause in self._failed]
        letters += [*self._dead, *self.queued]
        delivered = [letter.position for letter in self._arrived if letter.position in self._stored]
        return tuple(letters), tuple(delivered)
