"""Messages leave here after the commit: at least once, in order per instance and destination."""

from headway.errors import PermanentError
from headway.outbox.destination import Backoff, Destination, Terms, Wants
from headway.outbox.endpoint import Endpoint, new_secret
from headway.outbox.message import Message
from headway.outbox.subscriber import Subscriber

__all__ = [
    "Backoff",
    "Destination",
    "Endpoint",
    "Message",
    "PermanentError",
    "Subscriber",
    "Terms",
    "Wants",
    "new_secret",
]
