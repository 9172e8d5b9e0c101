"""The delivery plan: what a relay tries next, what has to wait, and what is given up. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from headway.clock import backoff
from headway.codec import Value, replace
from headway.outbox.destination import Backoff, MessageFilter
from headway.store.queries import LetterPlace, MessagePage, Settlement
from headway.store.rows import Cursor, Key, LetterRow, MessageRow, Version

FAILURES = 10
"""How many instances must fail in a row before the circuit breaker opens."""
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
"""Seconds for which the circuit breaker pauses: after the first ten failures, and at most."""
LONGEST_QUIET = timedelta(hours=1)
"""No destination is left without attempts for longer, whatever it asks for."""
MOST_WAITING = 50_000
TOO_MANY = "not tried: too many messages wait before it"

Row = MessageRow | LetterRow
"""A new message, or the letter of one that was not accepted before."""


class Breaker(Value):
    """A circuit breaker: stops deliveries to a destination that accepts nothing, and probes it.

    `failing` are the instances whose messages were not accepted since the last success. When there are ten,
    the messages are not to blame: deliveries pause, then one message is tried as a probe. If that fails the
    next pause is twice as long; if it arrives all deliveries continue. `pauses` counts the pauses since the
    last success; until `quiet_until` nothing is tried.
    """

    failing: frozenset[Key] = frozenset()
    pauses: int = 0
    quiet_until: datetime | None = None

    @property
    def is_probing(self) -> bool:
        """Whether only one message is to be tried."""
        return self.pauses > 0

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is to be tried."""
        return self.quiet_until is not None

    @property
    def pause(self) -> float:
        """How many seconds the latest pause lasts."""
        return backoff(self.pauses, base=FIRST_PAUSE, cap=LONGEST_PAUSE)

    def at(self, now: datetime) -> Breaker:
        """The same, without a pause that is over; so is one that a clock set back makes too long."""
        until = self.quiet_until
        if until is None or now < until <= now + LONGEST_QUIET:
            return self
        return replace(self, quiet_until=None)

    def succeeded(self) -> Breaker:
        """After the destination accepted a message, or refused one for good."""
        return replace(self, failing=frozenset(), pauses=0) if self.failing or self.pauses else self

    def failed(self, key: Key, now: datetime) -> Breaker:
        """After a message of this instance was not accepted; failures during a pause do not count."""
        if self.is_quiet:
            return self
        failing = self.failing | {key}
        if not self.is_probing and len(failing) < FAILURES:
            return replace(self, failing=failing)
        opened = replace(self, failing=failing, pauses=self.pauses + 1)
        return opened.quiet(opened.pause, now)

    def quiet(self, seconds: float, now: datetime) -> Breaker:
        """The breaker with a pause of `seconds` from now on."""
        return replace(self, quiet_until=now + min(timedelta(seconds=seconds), LONGEST_QUIET))


class Backlog:
    """The letters that wait, by instance: later messages of these instances wait behind them.

    When the backlog is full, messages of such instances stay in the outbox while there is nobody else behind
    them; for somebody else they are passed. Then those of instances that have `failed` become dead letters,
    and those of instances that are only slow wait as letters, up to twice as many; more stay in the outbox,
    with all behind them. At twice as many, whatever fails becomes a dead letter at once. `searched` is how
    far the log is known to hold nothing of other instances.
    """

    def __init__(self, most: int = MOST_WAITING) -> None:
        self.most = most
        self.forget()

    def forget(self) -> None:
        """Be empty."""
        self.waiting: dict[Key, set[int]] = {}
        self.failed: set[Key] = set()
        self.count = 0
        self.searched = Cursor()

    @property
    def is_full(self) -> bool:
        """Whether no more messages should wait behind others."""
        return self.count >= self.most

    @property
    def has_room(self) -> bool:
        """Whether there is room for another failed message to wait for its retry."""
        return self.count < 2 * self.most

    def learn(self, letters: Iterable[LetterPlace]) -> None:
        """Hold these letters and no others."""
        before, searched = self.waiting, self.searched
        self.forget()
        for tenant, instance, position, attempts in letters:
            self.add((tenant, instance), position, attempts)
        if before.keys() <= self.waiting.keys():
            self.searched = searched

    def add(self, key: Key, position: int, attempts: int) -> None:
        """A letter of an instance waits."""
        if attempts:
            self.failed.add(key)
        positions = self.waiting.setdefault(key, set())
        self.count += position not in positions
        positions.add(position)

    def remove(self, key: Key, position: int) -> None:
        """A letter waits no longer; a dead one that was redriven was not known to wait."""
        positions = self.waiting.get(key, set())
        self.count -= position in positions
        positions.discard(position)
        self.failed.discard(key)
        if not positions and self.waiting.pop(key, None) is not None:
            self.searched = Cursor()

    def can_be_passed(self, page: MessagePage) -> bool:
        """Whether a page can be read although the backlog is full."""
        keys = {key_of(row) for row in page.messages}
        return self.has_room or not any(key in self.waiting and key not in self.failed for key in keys)


class DeliveryState:
    """What a relay knows of its destination; all but the circuit breaker only while it holds the lease.

    `cursor` is how far the log was read. `search_end` is where the log ended when the search for a probe
    began. `missing` are chart versions that another node must know to deliver what this one could not.
    """

    def __init__(
        self,
        consumer: str,
        holder: str,
        filter_: MessageFilter,
        backoff: Backoff,
        *,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self.consumer, self.holder, self.filter, self.backoff = consumer, holder, filter_, backoff
        self.breaker = Breaker()
        self.backlog = Backlog(most_waiting)
        self.missing: set[Version] = set()
        self.forget()

    def forget(self) -> None:
        """Another holder of the lease may have changed anything since."""
        self.cursor = Cursor()
        self.search_end: Cursor | None = None
        self.backlog.forget()

    @property
    def nothing(self) -> MessagePage:
        """A page without messages."""
        return MessagePage([], self.cursor)

    def settlement(
        self, cursor: Cursor, letters: Sequence[LetterRow] = (), delivered: Sequence[int] = ()
    ) -> Settlement:
        """What to write when the destination has reached a cursor."""
        return Settlement(self.consumer, self.holder, cursor, tuple(letters), tuple(delivered))


class DeliveryPlan(Value):
    """What to do before progress is written.

    `tries` are to be delivered, in the order of the log: the `due` letters and new messages. `queued` wait
    behind letters of their instances, and `given_up` are dead letters. Then the destination is at `cursor`.
    `has_more`: the log has more messages after it. `is_idle`: there is nothing to do until something changes.
    """

    cursor: Cursor
    due: Sequence[LetterRow] = ()
    tries: Sequence[Row] = ()
    queued: Sequence[MessageRow] = ()
    given_up: Sequence[LetterRow] = ()
    search_end: Cursor | None = None
    has_more: bool = False
    is_idle: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to deliver and nothing to write but the cursor."""
        return not (self.tries or self.queued or self.given_up)


def reads_on(state: DeliveryState, due: Sequence[LetterRow], limit: int) -> bool:
    """Whether to read new messages beside letters that are due, of which at most `limit` were read.

    Letters that were never tried go first: while there are as many as can go at once, more would pile up.
    """
    if state.breaker.is_probing or len(due) < limit:
        return True
    return sum(not row.attempts for row in due) < limit


def ready(behind: Iterable[LetterRow]) -> list[LetterRow]:
    """Of letters behind those that are due: what can go along, up to one with a due time of its own."""
    found: list[LetterRow] = []
    resting: set[Key] = set()
    for row in behind:
        if row.attempts:
            resting.add(key_of(row))
        if key_of(row) not in resting:
            found.append(row)
    return found


def choose(
    state: DeliveryState, due: Sequence[LetterRow], page: MessagePage, others: MessagePage | None
) -> DeliveryPlan:
    """Decide what to do with letters that are due and with the page of messages after the cursor.

    `others` is the same page, or when the backlog is full the first one from there on that has a message of
    an instance without letters, if one was found.
    """
    search_end = None
    if state.breaker.is_probing:
        due, page, search_end = _probe(state, due, page, others)
    elif state.backlog.is_full:
        page = _passable(state, page, others)
    waiting, new = state.backlog.waiting, state.filter.of(page.messages)
    tries: Sequence[Row] = new
    queued: Sequence[MessageRow] = ()
    given_up: Sequence[LetterRow] = ()
    if due or waiting:
        busy = {*map(key_of, due), *waiting}
        behind = (row for row in new if key_of(row) in busy)
        # A message that is itself a letter was tried as a probe, and waits already.
        queued = [row for row in behind if row.position not in waiting.get(key_of(row), ())]
        tries = [*due, *(row for row in new if key_of(row) not in busy)]
    if state.backlog.is_full:
        failed = state.backlog.failed
        dead = [letter_of(state.consumer, row) for row in queued if key_of(row) in failed]
        given_up = [replace(letter, dead=True, error=TOO_MANY) for letter in dead]
        queued = [row for row in queued if key_of(row) not in failed]
    return DeliveryPlan(
        page.cursor,
        due,
        tries,
        queued,
        given_up,
        search_end,
        has_more=not page.complete,
        is_idle=not due and not page.messages and page.cursor == state.cursor,
    )


def _passable(state: DeliveryState, page: MessagePage, others: MessagePage | None) -> MessagePage:
    """What to read of a page when the backlog is full: only what another instance is behind, or among."""
    if others is None or not state.backlog.can_be_passed(page):
        return state.nothing
    if others is not page:
        return page
    backwards = MessagePage(page.messages[::-1], page.cursor)
    behind = first_free(state, backwards)
    return _head(state, page, len(page.messages) - behind) if behind else page


def _probe(
    state: DeliveryState, due: Sequence[LetterRow], page: MessagePage, others: MessagePage | None
) -> tuple[Sequence[LetterRow], MessagePage, Cursor | None]:
    """One message to try, what is passed on the way to it, and where the search ends if it continues.

    It is of an instance that has not failed, if there is one: instances whose own messages are to blame would
    else speak for the destination and keep all others waiting. Letters that were never tried and new messages
    take turns. What has failed before is the last choice, and only when the log was read to `search_end`.
    """
    letter, goes_first = _best(state, due)
    letters = () if letter is None else (letter,)
    if state.backlog.is_full:
        # Nothing is passed on the way: the message is on its page again later, and may be delivered twice.
        index = None if others is None else first_free(state, others)
        if others is None or index is None or goes_first:
            return letters, state.nothing, None
        return (), MessagePage([others.messages[index]], state.cursor), None
    index, end = first_free(state, page), state.search_end
    if index is None and not goes_first and end is not None and state.cursor < page.cursor < end:
        return (), page, end
    if index is not None and not goes_first:
        return (), _head(state, page, index + 1), None
    return letters, page if index is None else _head(state, page, index), None


def _best(state: DeliveryState, due: Sequence[LetterRow]) -> tuple[LetterRow | None, bool]:
    """The letter that is least likely to be to blame itself, and whether it goes before new messages."""

    def doubts(letter: LetterRow) -> tuple[bool, int]:
        return key_of(letter) in state.breaker.failing, letter.attempts

    letter = min(due, key=doubts, default=None)
    return letter, letter is not None and doubts(letter) == (False, 0) and state.breaker.pauses % 2 == 0


def first_free(state: DeliveryState, page: MessagePage) -> int | None:
    """The index of the first message that is wanted and waits behind no letter."""
    waiting: Collection[Key] = state.backlog.waiting
    free = next((row.position for row in state.filter.of(page.messages) if key_of(row) not in waiting), None)
    return next((index for index, row in enumerate(page.messages) if row.position == free), None)


def _head(state: DeliveryState, page: MessagePage, count: int) -> MessagePage:
    """The first messages of a page, and where to read on."""
    rows = page.messages[:count]
    return MessagePage(rows, rows[-1].cursor if rows else state.cursor)


def lanes(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows by instance, in order; instances that have failed before come last.

    So they neither keep others waiting nor open the circuit breaker before others had their turn.
    """
    found: dict[Key, list[Row]] = {}
    for row in rows:
        found.setdefault(key_of(row), []).append(row)
    return sorted(found.values(), key=lambda lane: isinstance(lane[0], LetterRow) and lane[0].attempts > 0)


def key_of(row: Row) -> Key:
    """The instance that a message belongs to."""
    return row.tenant, row.instance


def letter_of(consumer: str, row: Row) -> LetterRow:
    """A message as a letter: a new one is due as soon as it is the first of its instance."""
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
