"""Where messages go in the trust suite: Kafka's protocol within the process, and a Redis of its own."""

import shutil
from functools import cached_property

from bench.engine.places import Places
from bench.harness import Unavailable
from tests.outbox.kafka_cluster import KafkaCluster
from tests.outbox.redis_server import RedisProcess

TOPIC = "ring"


class Servers:
    """Starts what is needed first, and ends it with the places."""

    def __init__(self, places: Places) -> None:
        self._places = places

    @cached_property
    def kafka(self) -> KafkaCluster:
        """One broker with a topic of four partitions."""
        cluster = self._places.enter(KafkaCluster())
        cluster.create(TOPIC)
        return cluster

    @cached_property
    def redis(self) -> str:
        """The URL of a server that keeps what it is given on disk; raises Unavailable where there is none."""
        if shutil.which("redis-server") is None:
            raise Unavailable("there is no redis-server on this machine")
        process = RedisProcess(self._places.new_folder())
        self._places.run(process.start())
        self._places.at_end(process.kill)
        return process.url
