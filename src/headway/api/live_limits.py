"""What a reader of live events can cost, and how long it is waited for."""

from __future__ import annotations

from headway.codec import Value


class LiveLimits(Value):
    """Times in seconds, and what may wait for one reader."""

    hello: float = 10.0
    """How long a WebSocket may say nothing before it has said what it wants."""
    heartbeat: float = 15.0
    """After so long without an event there is a sign of life."""
    look: float = 1.0
    """How often all connections are looked at: for heartbeats, slow readers and credentials."""
    most_waiting: int = 1_000
    most_waiting_bytes: int = 1_000_000
    """More does not wait for a reader: it reads the rest by itself when it has taken what waits."""
    patience: float = 5.0
    """For whom too much waits and who has taken nothing for so long is cut off."""
    stalled: float = 60.0
    """Who has taken nothing for so long is cut off however little waits."""
    farewell: float = 10.0
    """For so long a reader that is cut off can still take the word that says why."""
