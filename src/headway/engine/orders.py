"""What the engine is asked to do, and what it answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any

from headway.codec import Plain, Scratch, Value, decode, encode, fingerprint, require_finite
from headway.errors import EngineError
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import SYSTEM, Actor, Event
from headway.statechart.upgrade.instance import UpgradeRecord
from headway.store.rows import Key

HOUR = timedelta(hours=1)
DAY = timedelta(hours=24)
NO_SEQ = -1
CASCADES = "with its children"
CHILD = re.compile(r"(.+):\d+:\d+", re.DOTALL)


class Receipt(Plain):
    """The answer to an event that went through: where the instance stands now."""

    instance: str
    chart: str
    version: int
    seq: int
    status: str
    states: tuple[str, ...]
    ended: bool = False

    def __str__(self) -> str:
        """Where the instance stands."""
        return f"{self.instance} is in {' + '.join(self.states)}"

    def unwrap(self) -> Receipt:
        """The receipt itself: for callers who know that the event must go through."""
        return self


Answer = Receipt | Refusal


class Answered(Value):
    """An answer as it is stored for a request id."""

    receipt: Receipt | None = None
    refusal: Refusal | None = None


def answer_text(answer: Answer) -> str:
    """An answer as text."""
    if isinstance(answer, Receipt):
        return encode(Answered(receipt=answer)).decode()
    return encode(Answered(refusal=answer)).decode()


def answer_of(text: str) -> Answer:
    """The answer that a text holds."""
    answered = decode(Answered, text)
    answer = answered.receipt or answered.refusal
    if answer is None:
        raise EngineError(f"not an answer: {text}")
    return answer


class Creation(Plain):
    """What a new instance begins with."""

    chart: str
    context: Mapping[str, Any] | None = None
    by: Actor = SYSTEM
    seed: int = 0
    parent: str | None = None
    depth: int = 0


class Upgrading(Value):
    """An instance becomes one of another version; with the record of an upgrade, of the one before it.

    `acted` is who did what only the new version wants to know.
    """

    to: int
    by: Actor = SYSTEM
    reason: str | None = None
    acted: dict[str, tuple[str, ...]] = {}
    record: UpgradeRecord | None = None


class Order(Scratch):
    """One call to the engine: an event for an instance, its creation, or its change to another version.

    What `cascades` is a cancellation that the instance's children get too. A request id that does not
    keep refusals can be used again after one. An `unnamed` creation has an id that was made up for it: it is
    no part of what was asked. `trace` goes along with what follows from the call.
    """

    key: Key
    act: Event | Creation | Upgrading
    request_id: str | None = None
    lasts: timedelta = HOUR
    expected_seq: int | None = None
    cascades: bool = False
    unnamed: bool = False
    keeps_refusals: bool = True
    answer: Answer | None = None
    error: BaseException | None = None
    replayed: bool = False
    body: str = ""
    trace: str | None = None

    def fingerprint(self) -> str:
        """What was asked, so that the same request id with another body is told apart."""
        if not self.body:
            expected = NO_SEQ if self.expected_seq is None else self.expected_seq
            name = "" if self.unnamed else self.key[1]
            asked = (name, self.act, expected, *([CASCADES] if self.cascades else []))
            self.body = fingerprint(asked).decode()
        return self.body

    def digest(self) -> str:
        """The same as a hash: what is stored tells nothing of what was asked."""
        return sha256(self.fingerprint().encode()).hexdigest()

    def require_json(self) -> None:
        """Raises InputError when what is brought along would not come back as it is."""
        if "null" in self.fingerprint() and not isinstance(self.act, Upgrading):
            require_finite(self.act.context if isinstance(self.act, Creation) else self.act.data)


def own_id(kind: str, request_id: str, part: str | int) -> str:
    """The request id of one part of a call; no other request id, and no other part, makes the same."""
    return f"{kind}/{sha256(encode((request_id, part))).hexdigest()}"


def parent_named(name: str) -> str | None:
    """The parent whose child an instance of this name is: it is named after it, and nobody else may be."""
    child = CHILD.fullmatch(name)
    return None if child is None else child[1]


def lineage(key: Key) -> list[Key]:
    """An instance and all above it, by their names."""
    above = [key]
    while (parent := parent_named(above[-1][1])) is not None:
        above.append((key[0], parent))
    return above
