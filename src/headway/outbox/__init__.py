"""Messages leave here after the commit: at least once, in order per instance and destination."""

from headway.errors import PermanentError
from headway.outbox.destination import Backoff, Message
from headway.outbox.endpoint import Endpoint
from headway.outbox.subscriber import Subscriber

__all__ = ["Backoff", "Endpoint", "Message", "PermanentError", "Subscriber"]
