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
    DeliveryPolicy,
    DeliveryReport,
    MessageFilter,
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
    # A message that is neither reported nor in flight any more has arrived.
    "delivery.report.only.error": True,
    # One timeout for all messages in flight: if each had its own, a later message of an instance could
    # overtake an earlier one.
    "message.timeout.ms": 0,
}
DEFAULTS = {"client.id": "headway", "linger.ms": 5, "log_level": 2}
UNREACHABLE = frozenset(
    {
        KafkaError._PURGE_QUEUE,  # noqa: SLF001 - their names in librdkafka
        KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._FATAL,  # noqa: SLF001 - this producer sends nothing any more; the next one does
    }
)

BROKEN = UnreachableError("Kafka: the producer failed", after=REST_SECONDS)

Placed = tuple[int, Message]
"""A message, and its index in the page."""


class Kafka:
    """Writes each message to a topic: the key is the instance, so that its messages stay in order.

    A page of messages is sent at once, through an idempotent producer that waits for all replicas. When the
    brokers accept none of it within the timeout, messages in flight are purged, and sent again when the
    brokers are back: no message is given up because a cluster is down.
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
        """`topic` may have fields, as in `headway.{tenant}.{name}`; `config` is librdkafka's.

        Raises InputError for a template or a setting that cannot be used.
        """
        self.name = f"kafka:{name}"
        self.filter = MessageFilter(outward(kinds), several(events), tenant)
        self.policy = DeliveryPolicy(begins, PAGE, backoff, PAGE)
        self._topic, self._source = Template(topic), source
        self._only_topic = None if self._topic.has_fields else topic
        if self._only_topic is not None and not is_topic(topic):
            raise InputError(f"not a valid topic name: {topic!r}")
        self._seconds = milliseconds(timeout) / 1_000
        fixed = sorted(OURS.keys() & config.keys())
        if fixed:
            raise InputError(f"these settings are set by Headway: {', '.join(fixed)}")
        self._config = {**DEFAULTS, **config, **OURS}
        self._producer_thread: ProducerThread | None = None

    async def deliver(self, message: Message) -> None:
        """Write one message; raises DeliveryError or a subclass if the broker does not accept it."""
        await deliver_one(self, message)

    async def deliver_all(self, messages: Iterable[Message], report: DeliveryReport) -> None:
        """Write messages in order, and report each when all replicas have it."""
        producer = self._opened()
        purged = Event()
        shipped = asyncio.get_running_loop().run_in_executor(
            producer.thread, self._ship, producer, messages, report, purged
        )
        try:
            await asyncio.wait([shipped])
        finally:
            # Also when the relay stops: what left the queue later would arrive twice, and out of order.
            purged.set()
            await asyncio.wait([shipped])
        shipped.result()

    async def close(self) -> None:
        """Close the connections."""
        producer, self._producer_thread = self._producer_thread, None
        if producer is not None:
            await producer.close()

    def _opened(self) -> ProducerThread:
        if self._producer_thread is not None and self._producer_thread.is_broken:
            self._producer_thread.thread.shutdown(wait=False)
            self._producer_thread = None
        if self._producer_thread is None:
            self._producer_thread = ProducerThread(self._config)
        return self._producer_thread

    # On the thread of the producer.

    def _ship(
        self, producer: ProducerThread, messages: Iterable[Message], report: DeliveryReport, purged: Event
    ) -> None:
        """Send a page; messages of an instance to another topic go when the earlier ones have arrived.

        So do messages for which the producer's queue has no room.
        """
        behind: dict[Key, Exception] = {}
        left: Iterable[Placed] = enumerate(messages)
        while left:
            shipment = Shipment(behind)
            self._send_all(producer, shipment, left, report)
            complete = producer.flush(self._seconds, purged)
            if producer.is_broken:
                report.failed += [(place, BROKEN) for place in shipment.places]
                return
            refused = shipment.conclude(report, complete=complete)
            is_gone = any(isinstance(error, UnreachableError) for error in refused.values())
            # With one topic per instance it is unknown whose messages are refused: the rest is not tried.
            is_stuck = refused and self._topic.is_one_per_instance
            if not complete or is_gone or is_stuck or purged.is_set():
                return
            left, behind = shipment.kept_back, behind | shipment.instances_of(refused)

    def _send_all(
        self, producer: ProducerThread, shipment: Shipment, messages: Iterable[Placed], report: DeliveryReport
    ) -> None:
        """Send what can be sent; later messages of an instance do not go before one that failed."""
        behind, source, only_topic = shipment.behind, self._source, self._only_topic
        has_several = not self._topic.is_one_per_instance
        produce = partial(producer.produce, headers=HEADERS, on_delivery=shipment.on_delivery)
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
                except BufferError:
                    if shipment.sent:
                        shipment.kept_back += ((place, message), *messages)
                        return
                    error = UnreachableError("the producer's queue is full", after=REST_SECONDS)
                except Exception as raised:  # noqa: BLE001 - it concerns this message only, not the others of the batch
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
            raise PermanentError(f"not a valid topic name: {topic!r}")
        return topic


class Shipment:
    """Messages in flight together: `sent` are their values, which differ, and `places` their indexes.

    Those of an instance go to one topic: a broker may refuse messages for one topic and accept others.
    `kept_back` wait for the next shipment; messages of instances that are `behind` a failed one fail.
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
        """Whether a message may go with the others; if not, neither may later ones of its instance."""
        key = self._instances[place] = message.tenant, message.instance
        if self._topics.setdefault(key, topic) == topic:
            return True
        self._topics[key] = NO_TOPIC
        self.kept_back.append((place, message))
        return False

    def instances_of(self, refused: Mapping[int, Exception]) -> dict[Key, Exception]:
        """The instances of refused messages; known only if an instance may have several topics."""
        return {self._instances[place]: refused[place] for place in refused if place in self._instances}

    def on_delivery(self, error: KafkaError | None, record: Any) -> None:
        """Note a message that will not arrive."""
        if error is not None:
            self._failed.append((record.value(), error))

    def conclude(self, report: DeliveryReport, *, complete: bool) -> Mapping[int, Exception]:
        """Report all; if some are still in flight it is unknown which, and all are sent again.

        Answers with the refused ones.
        """
        places = dict(zip(self.sent, self.places, strict=True)) if self._failed else {}
        refused = {places[value]: _explained(error) for value, error in self._failed}
        report.failed += refused.items()
        if complete:
            arrived = self.places
            report.delivered += [place for place in arrived if place not in refused] if refused else arrived
        return refused


class ProducerThread:
    """A producer and the thread on which it is used."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.is_broken = False
        try:
            self._producer = Producer({**config, "error_cb": _note}, logger=LOG)
        except KafkaException as error:
            raise InputError(f"Kafka: {error.args[0].str()}") from None
        self.produce = self._producer.produce
        self.thread = ThreadPoolExecutor(1, "headway-kafka")

    def flush(self, seconds: float, purged: Event) -> bool:
        """Wait for all reports as long as some arrive, and purge what is late.

        Answers False if messages are still in flight, or if the producer is broken and this is unknown.
        """
        try:
            return self._flush(seconds, purged)
        except (KafkaException, SystemError) as error:
            # A fatal error is raised here, or disturbs the reports of the same moment.
            LOG.warning("Kafka: the producer failed and is replaced: %s", error)
            self.is_broken = True
            return False

    def _flush(self, seconds: float, purged: Event) -> bool:
        until, fewest = monotonic() + seconds, len(self._producer)
        while left := self._producer.flush(LOOK_SECONDS):
            if left < fewest:
                until, fewest = monotonic() + seconds, left
            if purged.is_set() or monotonic() > until:
                self._producer.purge(blocking=False)
                return not self._producer.flush(PURGE_SECONDS)
        return True

    async def close(self) -> None:
        """End the thread; the caller has nothing in flight."""
        await asyncio.to_thread(self.thread.shutdown)


@lru_cache(1_000)
def is_topic(name: str) -> bool:
    """Whether it is a valid topic name."""
    return TOPIC.fullmatch(name) is not None


def _note(error: KafkaError) -> None:
    LOG.info("Kafka: %s", error.str())


def _reason(error: Exception) -> Exception:
    """What an error that the producer raised at once means for a message."""
    if not isinstance(error, KafkaException):
        return error
    cause = error.args[0]
    too_large = cause.code() == KafkaError.MSG_SIZE_TOO_LARGE
    return PermanentError(f"Kafka: {cause.str()}") if too_large else _explained(cause)


def _explained(error: KafkaError) -> Exception:
    """What a reported error means for a message; a broker may refuse it because of another of its batch."""
    if error.code() in UNREACHABLE:
        return UnreachableError("Kafka does not answer", after=REST_SECONDS)
    return DeliveryError(f"Kafka: {error.str()}")
