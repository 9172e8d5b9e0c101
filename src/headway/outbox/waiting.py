"""Who waits: the instances of which a destination has not taken something, as its relay knows them."""

from __future__ import annotations

from collections.abc import Iterable

from headway.outbox.destination import Wants
from headway.outbox.probe import first_free, up_to
from headway.outbox.round import key_of
from headway.store.queries import LetterPlace, MessagePage
from headway.store.rows import Cursor, Key

MOST_WAITING = 50_000


class Waiting:
    """The letters that wait, by instance: what follows of these instances waits behind them.

    When they are too many, messages of such instances stay in the outbox while there is nobody else behind
    them; for somebody else they are passed. Then those of instances that have `failed` are dead letters, and
    those of instances that are only slow wait as letters, up to twice as many; more stay in the outbox, with
    all behind them. When there are twice as many, whatever fails is a dead letter at once. `searched` is how
    far the log is known to hold nothing of anybody else.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.forget()

    def forget(self) -> None:
        """Know of nobody."""
        self.blocked: dict[Key, set[int]] = {}
        self.failed: set[Key] = set()
        self.count = 0
        self.searched = Cursor()

    @property
    def are_too_many(self) -> bool:
        """Whether no more should wait behind others."""
        return self.count >= self.most

    @property
    def has_room(self) -> bool:
        """Whether what fails for the first time can still wait."""
        return self.count < 2 * self.most

    def learn(self, letters: Iterable[LetterPlace]) -> None:
        """Know these and no others."""
        before, searched = self.blocked, self.searched
        self.forget()
        for tenant, instance, position, attempts in letters:
            self.block((tenant, instance), position, attempts)
        if before.keys() <= self.blocked.keys():
            self.searched = searched

    def block(self, key: Key, position: int, attempts: int) -> None:
        """A letter of an instance waits."""
        if attempts:
            self.failed.add(key)
        positions = self.blocked.setdefault(key, set())
        self.count += position not in positions
        positions.add(position)

    def unblock(self, key: Key, position: int) -> None:
        """It waits no longer; one that was dead and is driven again was not known to wait."""
        positions = self.blocked.get(key, set())
        self.count -= position in positions
        positions.discard(position)
        self.failed.discard(key)
        if not positions and self.blocked.pop(key, None) is not None:
            self.searched = Cursor()

    def has_others(self, page: MessagePage, wants: Wants) -> bool:
        """Whether a page holds something of an instance that waits for nothing."""
        return first_free(page, wants, self.blocked) is not None

    def can_be_passed(self, page: MessagePage) -> bool:
        """Whether a page can be read although too many wait."""
        keys = {key_of(row) for row in page.messages}
        return self.has_room or not any(key in self.blocked and key not in self.failed for key in keys)

    def up_to_the_last_other(self, page: MessagePage, wants: Wants) -> MessagePage:
        """A page without those at its end that can stay in the outbox."""
        backwards = MessagePage(page.messages[::-1], page.cursor)
        behind = first_free(backwards, wants, self.blocked)
        return page if not behind else up_to(len(page.messages) - behind, page, page.cursor)
