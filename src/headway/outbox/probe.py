"""A probe: the one message with which a destination is tried that was left alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headway.outbox.breaker import Breaker
from headway.outbox.destination import Wants
from headway.outbox.round import key_of
from headway.store.queries import MessagePage
from headway.store.rows import Cursor, Key, LetterRow

Chosen = tuple[Sequence[LetterRow], MessagePage]
"""A letter, if that is the probe, and messages: all of them wait behind others, but for the probe."""

FREE = (False, 0)
"""No doubts: neither the letter nor its instance has failed."""


class Probe:
    """Chooses a message of an instance that has not failed, if there is one.

    Instances whose messages are to blame would else speak for the destination, and keep those of all others
    waiting. Letters that nobody has tried and new messages take turns; what has failed before is the last
    choice, and is made only when the log was read to its `end`, where it ended when the search began.
    """

    def __init__(self, breaker: Breaker, wants: Wants) -> None:
        self._breaker, self._wants = breaker, wants
        self.forget()

    def forget(self) -> None:
        """Begin a new search."""
        self.end: Cursor | None = None

    def chosen(
        self, due: Sequence[LetterRow], page: MessagePage, cursor: Cursor, blocked: Collection[Key]
    ) -> Chosen:
        """Of letters that are due and a page after a cursor, what to go on with."""
        letter, is_its_turn = self._best(due)
        place = first_free(page, self._wants, blocked)
        if place is None and not is_its_turn and self.end is not None and cursor < page.cursor < self.end:
            return (), page
        self.forget()
        if place is not None and not is_its_turn:
            return (), up_to(place + 1, page, cursor)
        return () if letter is None else (letter,), page if place is None else up_to(place, page, cursor)

    def peeked(
        self, due: Sequence[LetterRow], page: MessagePage, cursor: Cursor, blocked: Collection[Key]
    ) -> Chosen:
        """The same when too many wait already: nothing is passed on the way to a message.

        So it is on its page again later, and may come twice.
        """
        self.forget()
        letter, is_its_turn = self._best(due)
        place = first_free(page, self._wants, blocked)
        if place is not None and not is_its_turn:
            return (), MessagePage([page.messages[place]], cursor)
        return () if letter is None else (letter,), MessagePage([], cursor)

    def _best(self, due: Sequence[LetterRow]) -> tuple[LetterRow | None, bool]:
        """The letter that says most, and whether it goes before what is new."""
        letter = min(due, key=self._doubts, default=None)
        is_free = letter is not None and self._doubts(letter) == FREE
        return letter, is_free and self._breaker.pauses % 2 == 0

    def _doubts(self, letter: LetterRow) -> tuple[bool, int]:
        """How likely it is that the letter itself is to blame: the less, the better."""
        return self._breaker.has_failed(key_of(letter)), letter.attempts


def first_free(page: MessagePage, wants: Wants, blocked: Collection[Key]) -> int | None:
    """The place of the first message that is wanted and waits behind no other."""
    free = next((row.position for row in wants.of(page.messages) if key_of(row) not in blocked), None)
    places = (place for place, row in enumerate(page.messages) if row.position == free)
    return next(places, None)


def up_to(count: int, page: MessagePage, cursor: Cursor) -> MessagePage:
    """The first of the messages, and where to read on."""
    rows = page.messages[:count]
    return MessagePage(rows, rows[-1].cursor if rows else cursor)
