"""Commands: writes that have an answer, which a unit runs in its transaction with what it changes itself."""

from __future__ import annotations

from headway.store.port import Attempt, Claim, Command, LetterQuery
from headway.store.rows import Key, KeyNoteRow, KeyRow


class ClaimWork(Command):
    """As `Store.claim_work`: the work that was leased."""

    claim: Claim


class HastenWork(Command):
    """As `Store.hasten_work`: the keys of the work that was to be done later."""

    items: tuple[Attempt, ...]


class RedriveLetters(Command):
    """As `Store.redrive`: how many letters."""

    query: LetterQuery


class DiscardLetters(Command):
    """As `Store.discard`: how many letters."""

    query: LetterQuery


class LookUpInstances(Command):
    """As `Store.look_up`: the instances, without locking them."""

    keys: tuple[Key, ...]


class AddKey(Command):
    """Store a new API key, and a note of it: True. Only where the store keeps keys."""

    key: KeyRow
    note: KeyNoteRow


class ChangeKey(Command):
    """Give an API key its new secrets and times: False when it has another secret or is revoked."""

    key: KeyRow
    note: KeyNoteRow
    was: str
