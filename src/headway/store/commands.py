"""Commands: calls of the port that a unit runs in its own transaction."""

from __future__ import annotations

from headway.codec import Value
from headway.store.queries import Claim, LetterQuery
from headway.store.rows import Attempt, Key, KeyNoteRow, KeyRow


class Command(Value):
    """A call of the port whose result a unit gets with its reads."""


class ClaimWork(Command):
    """As `WorkStore.claim`: the work that was leased."""

    claim: Claim


class HastenWork(Command):
    """As `WorkStore.hasten`: the keys of the work that was to be done later."""

    items: tuple[Attempt, ...]


class RedriveLetters(Command):
    """As `LetterStore.redrive`: how many letters."""

    query: LetterQuery


class DiscardLetters(Command):
    """As `LetterStore.discard`: how many letters."""

    query: LetterQuery


class LookUpInstances(Command):
    """As `InstanceStore.look_up`: the instances, without locking them."""

    keys: tuple[Key, ...]


class AddKey(Command):
    """As `KeyStore.add`: True."""

    key: KeyRow
    note: KeyNoteRow


class ChangeKey(Command):
    """As `KeyStore.change`: False if the key has another secret or is revoked."""

    key: KeyRow
    note: KeyNoteRow
    was: str
