"""Messages to Kafka, as CloudEvents keyed by instance."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Event, Thread
from typing import Any, Literal

from confluent_kafka import KafkaError, KafkaException, Producer

from headway.clock import milliseconds
from headway.engine.service import LOG
from headway.errors import InputError
from headway.outbox.cloudevents import CONTENT_TYPE, cloud_event
from headway.outbox.destination import (
    SOON,
    Backoff,
    DeliveryError,
    Message,
    PermanentError,
    Terms,
    Told,
    UnreachableError,
    Wants,
    several,
)
from headway.outbox.templates import Template

PAGE = 5_000
POLL_SECONDS = 0.2
PURGE_SECONDS = 5.0
REST_SECONDS = 1.0
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
HEADERS: list[tuple[str, str | bytes | None]] = [("content-type", CONTENT_TYPE.encode())]
OURS = {
    "enable.idempotence": True,
    "acks": "all",
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
    }
)


class Kafka:
    """Writes each message to a topic: the key is the instance, so that its messages stay in order.

    A page of messages is on its way at once, through an idempotent producer that waits for all replicas. When
    the brokers do not answer within the timeout, all that is under way is called back, and sent again when
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
        self.wants = Wants(several(kinds), several(events), tenant)
        self.terms = Terms(begins, PAGE, backoff, PAGE)
        self._topic, self._source = Template(topic), source
        self._seconds = milliseconds(timeout) / 1_000
        fixed = sorted(OURS.keys() & config.keys())
        if fixed:
            raise InputError(f"not for a destination to choose: {', '.join(fixed)}")
        self._config = {**DEFAULTS, **config, **OURS}
        self._line: Line | None = None

    async def deliver(self, message: Message) -> None:
        """Write one message; raises DeliveryError, of which kind ever, when it is not taken."""
        errors: list[Exception | None] = []
        await self.deliver_all([message], lambda _, error: errors.append(error))
        if errors[0] is not None:
            raise errors[0]

    async def deliver_all(self, messages: Sequence[Message], told: Told) -> None:
        """Write messages in their order, and tell of each when all replicas have it."""
        line = self._opened()
        shipment = Shipment(told)
        try:
            self._send_all(line, shipment, messages)
            await shipment.done(self._seconds)
        finally:
            # Also when the relay stops: what comes out of the queue later would be there twice, and too late.
            if shipment.left:
                line.purge()
                await asyncio.shield(shipment.done(PURGE_SECONDS))

    async def close(self) -> None:
        """Let go of the connections."""
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    def _opened(self) -> Line:
        if self._line is not None and self._line.is_broken:
            self._line.abandon()
            self._line = None
        if self._line is None:
            self._line = Line(self._config)
        return self._line

    def _send_all(self, line: Line, shipment: Shipment, messages: Sequence[Message]) -> None:
        """Send what can be sent; what follows of an instance does not go before what could not."""
        behind: dict[tuple[str, str], Exception] = {}
        for place, message in enumerate(messages):
            key = (message.tenant, message.instance)
            error = behind.get(key) or self._sent(line, message, (shipment, place))
            if error is None:
                shipment.left += 1
                continue
            shipment.refused(place, error)
            if not isinstance(error, PermanentError):
                behind[key] = error

    def _sent(self, line: Line, message: Message, ticket: Ticket) -> Exception | None:
        """Send a message; answers with what is wrong, if anything."""
        try:
            topic = self._topic.fill(message)
            if not TOPIC.fullmatch(topic):
                return PermanentError(f"not the name of a topic: {topic!r}")
            line.send(topic, message.instance.encode(), cloud_event(message, self._source), ticket)
        except BufferError:
            return UnreachableError("the queue to Kafka is full", after=REST_SECONDS)
        except KafkaException as error:
            reason = error.args[0]
            too_large = reason.code() == KafkaError.MSG_SIZE_TOO_LARGE
            return PermanentError(f"Kafka: {reason.str()}") if too_large else _explained(reason)
        except Exception as error:  # noqa: BLE001 - it is this message's own; its neighbours go on
            return error
        return None


class Shipment:
    """Messages that are on their way together, and who wants to know."""

    def __init__(self, told: Told) -> None:
        self.left = 0
        self._told = told
        self._arrived = asyncio.Event()

    def refused(self, place: int, error: Exception) -> None:
        """It was not even sent."""
        self._told(place, error)

    def ended(self, place: int, error: KafkaError | None) -> None:
        """It has arrived, or will not."""
        self.left -= 1
        self._told(place, None if error is None else _explained(error))
        if not self.left:
            self._arrived.set()

    async def done(self, seconds: float) -> None:
        """Come back when nothing is under way any more, or the time is over."""
        if self.left:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._arrived.wait()


Ticket = tuple[Shipment, int]


class Line:
    """A producer, and the thread on which it tells what has become of its messages."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.is_broken = False
        self._loop = asyncio.get_running_loop()
        self._heard: list[tuple[Ticket, KafkaError | None]] = []
        try:
            self._producer = Producer({**config, "error_cb": self._error}, logger=LOG)
        except KafkaException as error:
            raise InputError(f"Kafka: {error.args[0].str()}") from None
        self._over = Event()
        self._thread = Thread(target=self._listen, name="headway-kafka", daemon=True)
        self._thread.start()

    def send(self, topic: str, key: bytes, value: bytes, ticket: Ticket) -> None:
        """Put a message into the queue; raises KafkaException and BufferError."""
        self._producer.produce(
            topic, value, key, headers=HEADERS, on_delivery=partial(self._delivered, ticket)
        )

    def purge(self) -> None:
        """Call everything back that is under way."""
        self._producer.purge(blocking=False)

    async def close(self) -> None:
        """End the thread; whoever calls has nothing under way."""
        self.abandon()
        await asyncio.to_thread(self._thread.join)

    def abandon(self) -> None:
        """End the thread, some time."""
        self._over.set()

    # On the thread.

    def _listen(self) -> None:
        while not self._over.is_set():
            self._producer.poll(POLL_SECONDS)
            if self._heard:
                heard, self._heard = self._heard, []
                with suppress(RuntimeError):  # the loop has closed: nobody waits
                    self._loop.call_soon_threadsafe(_tell, heard)

    def _delivered(self, ticket: Ticket, error: KafkaError | None, _message: object) -> None:
        self._heard.append((ticket, error))

    def _error(self, error: KafkaError) -> None:
        if error.fatal():
            self.is_broken = True
        LOG.info("Kafka: %s", error.str())


def _tell(heard: Sequence[tuple[Ticket, KafkaError | None]]) -> None:
    for (shipment, place), error in heard:
        shipment.ended(place, error)


def _explained(error: KafkaError) -> Exception:
    """What an error means for a message: a broker refuses whole batches, so it may be a neighbour's fault."""
    if error.code() in UNREACHABLE:
        return UnreachableError("Kafka does not answer", after=REST_SECONDS)
    return DeliveryError(f"Kafka: {error.str()}")
