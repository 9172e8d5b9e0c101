"""Producers without an outbox: they make the same events of rows in memory, and hand them over."""

from collections.abc import Callable, Sequence
from itertools import chain
from time import perf_counter
from typing import Any

from confluent_kafka import Producer
from redis import Redis

from bench.engine.places import Places
from bench.harness import WrongResult
from bench.trust.messages import copies, of_a_transition
from bench.trust.servers import TOPIC, Servers
from headway.outbox.kafka import DEFAULTS, HEADERS, OURS
from headway.outbox.message import cloud_event, message_of
from headway.outbox.redis import LONGEST_STREAM
from headway.outbox.redis import PAGE as REDIS_PAGE
from headway.store.rows import MessageRow

SOURCE = "headway"
FEW = 100
POLL_EVERY = 1_000


class Bare:
    """Sends rows; the clock runs from the first to the moment when all are known to have arrived."""

    def __init__(self, places: Places) -> None:
        self._row = of_a_transition(places)
        self.expected = self.arrived = 0
        self.run(FEW)

    def run(self, cycles: int) -> float:
        """Send so many messages."""
        rows = [*chain.from_iterable(copies(self._row, cycles, self._row.at))]
        self.expected += cycles
        return self.send(rows)

    def verify(self) -> None:
        """All have arrived."""
        if self.arrived != self.expected:
            raise WrongResult(f"{self.arrived} messages instead of {self.expected}")

    def send(self, rows: Sequence[MessageRow]) -> float:
        """Send rows; answers with seconds."""
        begin = perf_counter()
        self.send_all(rows)
        return perf_counter() - begin

    def send_all(self, rows: Sequence[MessageRow]) -> None:
        """Make the events and send them."""
        raise NotImplementedError


class BareKafka(Bare):
    """librdkafka with the settings of the relay, which hears only of what does not arrive."""

    def __init__(self, places: Places, servers: Servers) -> None:
        self._producer = Producer({**DEFAULTS, **servers.kafka.config, **OURS})
        super().__init__(places)

    def send_all(self, rows: Sequence[MessageRow]) -> None:
        """Make each event as the relay does."""
        for number, row in enumerate(rows):
            message = message_of(row)
            self._produce(cloud_event(message, SOURCE), message.instance.encode())
            if number % POLL_EVERY == 0:
                self._producer.poll(0)
        self._flush(len(rows))

    def _flush(self, sent: int) -> None:
        self.arrived += sent - self._producer.flush()

    def _produce(self, value: bytes, key: bytes) -> None:
        self._producer.produce(TOPIC, value, key, headers=HEADERS, on_delivery=self._told)

    def _told(self, _error: object, _record: object) -> None:
        self.arrived -= 1


class ReadyKafka(BareKafka):
    """The same with events that were made before: what is left is librdkafka and its callbacks."""

    def send(self, rows: Sequence[MessageRow]) -> float:
        """Make the events first."""
        ready = [(cloud_event(message_of(row), SOURCE), row.instance.encode()) for row in rows]
        begin = perf_counter()
        for number, (value, key) in enumerate(ready):
            self._produce(value, key)
            if number % POLL_EVERY == 0:
                self._producer.poll(0)
        self._flush(len(rows))
        return perf_counter() - begin


class BareRedis(Bare):
    """redis-py with pages as large as the relay's, each a transaction."""

    def __init__(
        self, places: Places, servers: Servers, command: Callable[[MessageRow], tuple[Any, ...]]
    ) -> None:
        self._client = Redis.from_url(servers.redis)
        self._command = command
        super().__init__(places)

    def send_all(self, rows: Sequence[MessageRow]) -> None:
        """Make each event as the relay does."""
        for first in range(0, len(rows), REDIS_PAGE):
            pipeline = self._client.pipeline(transaction=True)
            for row in rows[first : first + REDIS_PAGE]:
                pipeline.execute_command(*self._command(row))  # type: ignore[no-untyped-call]  # theirs
            self.arrived += len(pipeline.execute())


def published(row: MessageRow) -> tuple[Any, ...]:
    """A message to a channel."""
    return "PUBLISH", "bare", cloud_event(message_of(row), SOURCE)


def added(row: MessageRow) -> tuple[Any, ...]:
    """A message to a stream."""
    message = message_of(row)
    fields = ("id", message.id, "type", message.name, "subject", message.instance)
    event = cloud_event(message, SOURCE)
    return "XADD", "bare", "MAXLEN", "~", LONGEST_STREAM, "*", *fields, "event", event
