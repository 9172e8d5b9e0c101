"""What a caller can cost: the limits of the service."""

from __future__ import annotations

from headway.codec import Value


class Limits(Value):
    """How much the service takes of one request, and of all connections."""

    body: int = 1_000_000
    """The largest body, in bytes."""
    request_seconds: float = 20.0
    """How long a connection may take to send a request, or say nothing before its first one."""
    keep_alive_seconds: float = 60.0
    """How long a connection may say nothing between requests."""
    connections: int | None = None
    """How many connections at once; by default as many as the process may have files open, less a reserve."""
