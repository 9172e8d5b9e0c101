"""Delivery of messages after the commit: at least once, in order per instance and destination.

`Kafka`, the Redis destinations and `Webhook` are imported when they are first used, as each needs a client
that is installed with an extra: `pip install "headway[kafka]"`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headway.errors import PermanentError
from headway.outbox.destination import Backoff, DeliveryPolicy, Destination, MessageFilter, Subscriber
from headway.outbox.endpoint import Endpoint, new_secret
from headway.outbox.message import Message

if TYPE_CHECKING:
    from headway.outbox.kafka import Kafka
    from headway.outbox.mirror import RedisMirror
    from headway.outbox.redis import RedisChannel, RedisStream
    from headway.outbox.webhook import Webhook

__all__ = [
    "Backoff",
    "DeliveryPolicy",
    "Destination",
    "Endpoint",
    "Kafka",
    "Message",
    "MessageFilter",
    "PermanentError",
    "RedisChannel",
    "RedisMirror",
    "RedisStream",
    "Subscriber",
    "Webhook",
    "new_secret",
]

WITH_CLIENT = {
    "Kafka": "headway.outbox.kafka",
    "RedisChannel": "headway.outbox.redis",
    "RedisMirror": "headway.outbox.mirror",
    "RedisStream": "headway.outbox.redis",
    "Webhook": "headway.outbox.webhook",
}


def __getattr__(name: str) -> Any:
    """Import a destination that needs a client; raises ModuleNotFoundError that names the extra."""
    if name not in WITH_CLIENT:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(WITH_CLIENT[name]), name)
