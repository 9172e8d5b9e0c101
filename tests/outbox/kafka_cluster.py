"""A Kafka cluster in this process: librdkafka's own, which speaks the protocol and fails when told to."""

import asyncio
import ctypes
import time
from ctypes import c_char_p, c_int, c_int32, c_size_t, c_void_p
from importlib.metadata import files
from pathlib import Path
from typing import Any, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

LONGEST = 60
PRODUCE = 0
REFUSED = 44
"""POLICY_VIOLATION: the policy may change."""
FORBIDDEN = 29
"""TOPIC_AUTHORIZATION_FAILED."""
BROKEN = 45
"""OUT_OF_ORDER_SEQUENCE_NUMBER: the producer cannot go on."""
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "rd_kafka_conf_new": (c_void_p,),
    "rd_kafka_conf_set": (c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t),
    "rd_kafka_new": (c_void_p, c_int, c_void_p, c_char_p, c_size_t),
    "rd_kafka_destroy": (None, c_void_p),
    "rd_kafka_mock_cluster_new": (c_void_p, c_void_p, c_int),
    "rd_kafka_mock_cluster_destroy": (None, c_void_p),
    "rd_kafka_mock_cluster_bootstraps": (c_char_p, c_void_p),
    "rd_kafka_mock_topic_create": (c_int, c_void_p, c_char_p, c_int, c_int),
    "rd_kafka_mock_topic_set_error": (None, c_void_p, c_char_p, c_int),
    "rd_kafka_mock_broker_set_down": (c_int, c_void_p, c_int32),
    "rd_kafka_mock_broker_set_up": (c_int, c_void_p, c_int32),
    "rd_kafka_mock_broker_set_rtt": (c_int, c_void_p, c_int32, c_int),
    "rd_kafka_mock_push_request_errors_array": (None, c_void_p, c_int, c_size_t, c_void_p),
}


def library() -> Any:
    """The librdkafka that the Python package brings along."""
    shipped = [Path(str(file.locate())) for file in files("confluent-kafka") or []]
    [found] = [file for file in shipped if file.match("librdkafka*.so*")]
    loaded = ctypes.CDLL(str(found))
    for name, (result, *arguments) in SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


class KafkaCluster:
    """Brokers on loopback, for the length of a block."""

    def __init__(self, brokers: int = 1) -> None:
        self._brokers = brokers
        self._lib = library()

    def __enter__(self) -> Self:
        """Start."""
        why = ctypes.create_string_buffer(512)
        conf = self._lib.rd_kafka_conf_new()
        self._lib.rd_kafka_conf_set(conf, b"log_level", b"0", why, len(why))
        self._client = self._lib.rd_kafka_new(0, conf, why, len(why))
        self._cluster = self._lib.rd_kafka_mock_cluster_new(self._client, self._brokers)
        self.servers: str = self._lib.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._lib.rd_kafka_mock_cluster_destroy(self._cluster)
        self._lib.rd_kafka_destroy(self._client)

    @property
    def config(self) -> dict[str, Any]:
        """How to reach it."""
        return {"bootstrap.servers": self.servers, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50}

    def create(self, topic: str, partitions: int = 4) -> None:
        """A topic of so many partitions; others come by themselves."""
        self._lib.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, self._brokers)

    def forbid(self, topic: str, error: int = FORBIDDEN) -> None:
        """Let nobody write to a topic; with 0 they may again."""
        self._lib.rd_kafka_mock_topic_set_error(self._cluster, topic.encode(), error)

    def down(self) -> None:
        """Cut all connections, and take no new ones."""
        for broker in range(1, self._brokers + 1):
            self._lib.rd_kafka_mock_broker_set_down(self._cluster, broker)

    def up(self) -> None:
        """Take connections again."""
        for broker in range(1, self._brokers + 1):
            self._lib.rd_kafka_mock_broker_set_up(self._cluster, broker)

    def slow(self, milliseconds: int) -> None:
        """Let each answer take so long."""
        for broker in range(1, self._brokers + 1):
            self._lib.rd_kafka_mock_broker_set_rtt(self._cluster, broker, milliseconds)

    def refuse(self, times: int = 1, error: int = REFUSED) -> None:
        """Answer so many requests to write with an error."""
        errors = (c_int * times)(*[error] * times)
        self._lib.rd_kafka_mock_push_request_errors_array(self._cluster, PRODUCE, times, errors)

    async def read(self, *topics: str, count: int = 1, last: str = "") -> list[Message]:
        """The first messages of topics, at least up to one that holds `last`; raises TimeoutError."""
        return await asyncio.to_thread(self._read, topics, count, last.encode())

    def _read(self, topics: tuple[str, ...], count: int, last: bytes) -> list[Message]:
        consumer = Consumer({**self.config, "group.id": "test", "fetch.wait.max.ms": 20, "log_level": 0})
        known = [consumer.list_topics(topic, LONGEST).topics[topic] for topic in topics]
        # Without a group, which would take its time to form.
        places = [(topic.topic, number) for topic in known for number in topic.partitions]
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
        seen: list[Message] = []
        give_up = time.monotonic() + LONGEST
        while len(seen) < count or not any(last in (message.value() or b"") for message in seen):
            if time.monotonic() > give_up:
                raise TimeoutError(f"{len(seen)} messages, not {count}, or none of {last!r}")
            seen += [message for message in consumer.consume(500, 0.1) if message.error() is None]
        seen += [message for message in consumer.consume(500, 0.1) if message.error() is None]
        consumer.close()
        return seen
