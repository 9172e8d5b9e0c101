"""What the engine is asked to do, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from headway.codec import Scratch, Value, decode, encode
from headway.errors import EngineError
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import SYSTEM, Actor, Event
from headway.store.rows import Key

HOUR = timedelta(hours=1)
DAY = timedelta(hours=24)


class Receipt(Value):
    """The answer to an event that went through: where the instance stands now."""

    instance: str
    chart: str
    version: int
    seq: int
    status: str
    states: tuple[str, ...]
    ended: bool = False


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


class Creation(Value):
    """What a new instance begins with."""

    chart: str
    context: Mapping[str, Any] | None = None
    by: Actor = SYSTEM
    seed: int = 0
    parent: str | None = None
    depth: int = 0


class Order(Scratch):
    """One call to the engine: an event for an instance, or the creation of one."""

    key: Key
    act: Event | Creation
    request_id: str | None = None
    lasts: timedelta = HOUR
    expected_seq: int | None = None
    answer: Answer | None = None
    error: Exception | None = None
    replayed: bool = False

    def fingerprint(self) -> str:
        """What was asked, so that the same request id with another body is told apart."""
        return encode((self.key[1], self.act, self.expected_seq)).decode()
