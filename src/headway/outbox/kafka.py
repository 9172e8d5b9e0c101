"""Messages to Kafka, as CloudEvents keyed by instance."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from threading import Event
from time import monotonic
from typing import Any, Literal

try:
    from confluent_kafka import KafkaError, KafkaException, Producer
except ModuleNotFoundError as error:
    raise ModuleNotFoundError('Kafka needs its client: pip install "headway[kafka]"') from error

from headway.clock import milliseconds
from headway.engine.service import LOG
from headway.errors import DeliveryError, InputError, PermanentError, UnreachableError
from headway.outbox.destination import (
    SOON,
    Backoff,
    DeliveryReport,
    Terms,
    Wants,
    deliver_one,
    outward,
    several,
)
from headway.outbox.message import CONTENT_TYPE, Message, Template, cloud_event
from headway.store.rows import Key

PAGE = 10_000
LOOK_SECONDS = 0.05
PURGE_SECONDS = 5.0
REST_SECONDS = 1.0
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
NO_TOPIC = ""
HEADERS: list[tuple[str, str | bytes | None]] = [("content-type", CONTENT_TYPE.encode())]
OURS = {
    "enable.idempotence": True,
    "acks": "all",
    # What is not reported and not under way any more has arrived.
    "delivery.report.only.error": True,
    # The relay has one time for all that is under way: were each message given up by itself, a later one
    # of its instance could overtake it.
    "message.timeout.ms": 0,
}
DEFAULTS = {"client.id": "headway", "linger.ms": 5, "log_level": 2}
UNREACHABLE = frozenset(
    {
        KafkaError._PURGE_QUEUE,  # noqa: SLF001 - so they are called
        KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._FATAL,  # noqa: SLF001 - this producer sends nothing any more; the next one does
    }
)

BROKEN = UnreachableError("Kafka: the producer is broken", after=REST_SECONDS)

Placed = tuple[int, Message]
"""A message, and its place in its page."""


class Kafka:
    """Writes each message to a topic: the key is the instance, so that its messages stay in order.

    A page of messages is on its way at once, through an idempotent producer that waits for all replicas. When
    the brokers take none of it within the timeout, all that is under way is called back, and sent again when
    they are there: nothing is given up because a cluster is down.
    """

    def __init__(
        self,
        name: str,
        topic: str,
        config: Mapping[str, Any],
        *,
        events: str | Sequence[str] = "*",
        kinds: str | Sequence[str] = "topic",
        tenant: str | None = None,
        source: str = "headway",
        begins: Literal["now", "first"] = "now",
        timeout: str | float = "30s",
        backoff: Backoff = SOON,
    ) -> None:
        """`topic` may have fields to fill in: `headway.{tenant}.{name}`; `config` is librdkafka's.

        Raises InputError for a template or a setting that cannot be used.
        """
        self.name = f"kafka:{name}"
        self.wants = Wants(outward(kinds), several(events), tenant)
        self.terms = Terms(begins, PAGE, backoff, PAGE)
        self._topic, self._source = Template(topic), source
        self._only_topic = None if self._topic.has_fields else topic
        if self._only_topic is not None and not is_topic(topic):
            raise InputError(f"not the name of a topic: {topic!r}")
        self._seconds = milliseconds(timeout) / 1_000
        fixed = sorted(OURS.keys() & config.keys())
        if fixed:
            raise InputError(f"not for a destination to choose: {', '.join(fixed)}")
        self._config = {**DEFAULTS, **config, **OURS}
        self._line: Line | None = None

    async def deliver(self, message: Message) -> None:
        """Write one message; raises DeliveryError, of which kind ever, when it is not taken."""
        await deliver_one(self, message)

    async def deliver_all(self, messages: Iterable[Message], report: DeliveryReport) -> None:
        """Write messages in their order, and tell of each when all replicas have it."""
        line = self._opened()
        called_back = Event()
        shipped = asyncio.get_running_loop().run_in_executor(
            line.thread, self._ship, line, messages, report, called_back
        )
        try:
            await asyncio.wait([shipped])
        finally:
            # Also when the relay stops: what comes out of the queue later would be there twice, and too late.
            called_back.set()
            await asyncio.wait([shipped])
        shipped.result()

    async def close(self) -> None:
        """Let go of the connections."""
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    def _opened(self) -> Line:
        if self._line is not None and self._line.is_broken:
            self._line.thread.shutdown(wait=False)
            self._line = None
        if self._line is None:
            self._line = Line(self._config)
        return self._line

    # On the thread of the line.

    def _ship(
        self, line: Line, messages: Iterable[Message], report: DeliveryReport, called_back: Event
    ) -> None:
        """Send a page; an instance's messages to another topic go when those before them have arrived.

        So does what the producer's queue has no room for.
        """
        behind: dict[Key, Exception] = {}
        left: Iterable[Placed] = enumerate(messages)
        while left:
            shipment = Shipment(behind)
            self._send_all(line, shipment, left, report)
            complete = line.flush(self._seconds, called_back)
            if line.is_broken:
                report.failed += [(place, BROKEN) for place in shipment.places]
                return
            refused = shipment.conclude(report, complete=complete)
            is_gone = any(isinstance(error, UnreachableError) for error in refused.values())
            # With one topic for each instance nobody notes whose messages are refused: the rest is not tried.
            is_stuck = refused and self._topic.is_one_per_instance
            if not complete or is_gone or is_stuck or called_back.is_set():
                return
            left, behind = shipment.kept_back, behind | shipment.instances_of(refused)

    def _send_all(
        self, line: Line, shipment: Shipment, messages: Iterable[Placed], report: DeliveryReport
    ) -> None:
        """Send what can be sent; what follows of an instance does not go before what could not."""
        behind, source, only_topic = shipment.behind, self._source, self._only_topic
        has_several = not self._topic.is_one_per_instance
        produce = partial(line.produce, headers=HEADERS, on_delivery=shipment.told)
        sent, places = shipment.sent.append, shipment.places.append
        messages = iter(messages)
        for place, message in messages:
            error = behind.get((message.tenant, message.instance)) if behind else None
            if error is None:
                try:
                    topic = only_topic or self._topic_of(message)
                    if has_several and not shipment.takes(place, message, topic):
                        continue
                    value = cloud_event(message, source)
                    at = round(message.at.timestamp() * 1_000)  # the store's time, not this machine's
                    produce(topic, value, message.instance.encode(), timestamp=at)
                except Exception as raised:  # noqa: BLE001 - it is this message's own; its neighbours go on
                    if isinstance(raised, BufferError) and shipment.sent:
                        shipment.kept_back += ((place, message), *messages)
                        return
                    error = _reason(raised)
                else:
                    sent(value)
                    places(place)
                    continue
            report.failed.append((place, error))
            if not isinstance(error, PermanentError):
                behind[message.tenant, message.instance] = error

    def _topic_of(self, message: Message) -> str:
        topic = self._topic.fill(message)
        if not is_topic(topic):
            raise PermanentError(f"not the name of a topic: {topic!r}")
        return topic


class Shipment:
    """Messages that are on their way together: `sent`, and the `places` of these; no two are the same.

    Those of an instance go to one topic: a broker may refuse what is for one and take what is for another.
    `kept_back` is what has to wait for the next shipment; what comes of instances that are `behind` fails.
    """

    def __init__(self, behind: dict[Key, Exception]) -> None:
        self.behind = behind
        self.sent: list[bytes] = []
        self.places: list[int] = []
        self.kept_back: list[Placed] = []
        self._failed: list[tuple[bytes, KafkaError]] = []
        self._topics: dict[Key, str] = {}
        self._instances: dict[int, Key] = {}

    def takes(self, place: int, message: Message, topic: str) -> bool:
        """Whether a message may go with the others; when not, nor may what follows of its instance."""
        key = self._instances[place] = message.tenant, message.instance
        if self._topics.setdefault(key, topic) == topic:
            return True
        self._topics[key] = NO_TOPIC
        self.kept_back.append((place, message))
        return False

    def instances_of(self, refused: Mapping[int, Exception]) -> dict[Key, Exception]:
        """Whose messages are refused; known only of those that may have several topics."""
        return {self._instances[place]: refused[place] for place in refused if place in self._instances}

    def told(self, error: KafkaError | None, record: Any) -> None:
        """A message will not arrive."""
        if error is not None:
            self._failed.append((record.value(), error))

    def conclude(self, report: DeliveryReport, *, complete: bool) -> Mapping[int, Exception]:
        """Tell of all; when some are still under way nobody knows which, and all are sent again.

        Answers with what was refused.
        """
        places = dict(zip(self.sent, self.places, strict=True)) if self._failed else {}
        refused = {places[value]: _explained(error) for value, error in self._failed}
        report.failed += refused.items()
        if complete:
            arrived = self.places
            report.delivered += [place for place in arrived if place not in refused] if refused else arrived
        return refused


class Line:
    """A producer, and the thread on which it is used."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.is_broken = False
        try:
            self._producer = Producer({**config, "error_cb": _note}, logger=LOG)
        except KafkaException as error:
            raise InputError(f"Kafka: {error.args[0].str()}") from None
        self.produce = self._producer.produce
        self.thread = ThreadPoolExecutor(1, "headway-kafka")

    def flush(self, seconds: float, called_back: Event) -> bool:
        """Wait until all is told, as long as it moves, and call back what is late.

        Answers False when some is still under way, or nobody can tell because the producer is broken.
        """
        try:
            return self._flush(seconds, called_back)
        except (KafkaException, SystemError) as error:
            # A fatal error comes out of it, or is in the way of what is told at the same time.
            LOG.warning("Kafka: the producer is broken, and another takes its place: %s", error)
            self.is_broken = True
            return False

    def _flush(self, seconds: float, called_back: Event) -> bool:
        until, fewest = monotonic() + seconds, len(self._producer)
        while left := self._producer.flush(LOOK_SECONDS):
            if left < fewest:
                until, fewest = monotonic() + seconds, left
            if called_back.is_set() or monotonic() > until:
                self._producer.purge(blocking=False)
                return not self._producer.flush(PURGE_SECONDS)
        return True

    async def close(self) -> None:
        """End the thread; whoever calls has nothing under way."""
        await asyncio.to_thread(self.thread.shutdown)


@lru_cache(1_000)
def is_topic(name: str) -> bool:
    """Whether Kafka would take it for the name of a topic."""
    return TOPIC.fullmatch(name) is not None


def _note(error: KafkaError) -> None:
    LOG.info("Kafka: %s", error.str())


def _reason(error: Exception) -> Exception:
    """What an error means that the producer has raised at once."""
    if isinstance(error, BufferError):
        return UnreachableError("the queue to Kafka is full", after=REST_SECONDS)
    if not isinstance(error, KafkaException):
        return error
    told = error.args[0]
    too_large = told.code() == KafkaError.MSG_SIZE_TOO_LARGE
    return PermanentError(f"Kafka: {told.str()}") if too_large else _explained(told)


def _explained(error: KafkaError) -> Exception:
    """What an error means for a message: a broker refuses whole batches, so it may be a neighbour's fault."""
    if error.code() in UNREACHABLE:
        return UnreachableError("Kafka does not answer", after=REST_SECONDS)
    return DeliveryError(f"Kafka: {error.str()}")
