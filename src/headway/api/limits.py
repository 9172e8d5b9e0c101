"""The limits of the service: sizes, times, connections, and streams that are open at once."""

from __future__ import annotations

import resource
from collections import Counter

from headway.api.access import Caller
from headway.api.problems import Problem
from headway.codec import Value

RESERVE = 256
"""Files for the database, the log and the outgoing connections."""
RETRY_AFTER = {"Retry-After": "5"}
MOST_FILES = 1 << 20
"""Where the system sets no limit to the files of a process."""


class Limits(Value):
    """How much the service takes of one request, and of all connections of one process."""

    body: int = 1_000_000
    """The largest body, in bytes."""
    request_seconds: float = 20.0
    """How long a connection may take to send a request, or say nothing before its first one."""
    keep_alive_seconds: float = 60.0
    """How long a connection may say nothing between requests."""
    connections: int | None = None
    """How many connections at once; by default as many as the process may have files open, less a reserve."""
    streams: int | None = None
    """How many streams (live events, claims that wait) at once; by default half of all connections."""
    tenant_streams: int | None = None
    """How many streams of one tenant; by default half of `streams`."""
    key_streams: int | None = None
    """How many streams of one key or token; by default half of `tenant_streams`."""
    handshakes: int | None = None
    """How many WebSockets that have not sent a hello; by default an eighth of all connections."""
    address_handshakes: int | None = None
    """How many of them from one address; by default half of `handshakes`."""

    @property
    def most_connections(self) -> int:
        """How many connections at once."""
        return self.connections or _most_files() - RESERVE

    @property
    def most_streams(self) -> int:
        """The most streams that may be open at once."""
        return self.streams or max(1, self.most_connections // 2)

    @property
    def most_tenant_streams(self) -> int:
        """How many streams of one tenant."""
        return self.tenant_streams or max(1, self.most_streams // 2)

    @property
    def most_key_streams(self) -> int:
        """How many streams of one key or token."""
        return self.key_streams or max(1, self.most_tenant_streams // 2)

    @property
    def most_handshakes(self) -> int:
        """How many WebSockets that have not sent a hello."""
        return self.handshakes or max(1, self.most_connections // 8)

    @property
    def most_address_handshakes(self) -> int:
        """How many of them from one address."""
        return self.address_handshakes or max(1, self.most_handshakes // 2)


class LiveLimits(Value):
    """Times in seconds, and what may wait for one reader."""

    hello: float = 10.0
    """How long a WebSocket may take to send its hello."""
    heartbeat: float = 15.0
    """The time without an event after which a heartbeat is sent."""
    look: float = 1.0
    """How often all connections are checked: for heartbeats, slow readers and credentials."""
    most_waiting: int = 1_000
    most_waiting_bytes: int = 1_000_000
    """The largest backlog of a reader; beyond it the reader catches up by pages from the log."""
    patience: float = 5.0
    """A reader whose backlog is full and who reads nothing for this long is disconnected."""
    stalled: float = 60.0
    """A reader who reads nothing for this long is disconnected, however small its backlog."""
    farewell: float = 10.0
    """How long a reader that is disconnected may take to receive the reason."""


class Streams:
    """Counts the streams that are open, and refuses one that is beyond a limit.

    A stream is a request that may take long because it waits: live events, a claim with `wait`, or a repeat
    for the answer to the first request.
    """

    def __init__(self, limits: Limits) -> None:
        self.refused: Counter[str] = Counter()
        """How many were refused, by the limit: `key`, `tenant` or `all`."""
        self._most = {
            "key": limits.most_key_streams,
            "tenant": limits.most_tenant_streams,
            "all": limits.most_streams,
        }
        self._open: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        """How many are open."""
        return self._open["all", ""]

    def take(self, caller: Caller) -> Slot:
        """Count a stream of a caller until its slot is released; raises Problem 429 that names the limit."""
        places = [("key", caller.credential), ("tenant", caller.tenant), ("all", "")]
        for limit, name in places:
            if self._open[limit, name] >= self._most[limit]:
                self.refused[limit] += 1
                raise Problem("too_many_streams", self._detail(limit), headers=RETRY_AFTER, limit=limit)
        self._open.update(places)
        return Slot(self._open, places)

    def _detail(self, limit: str) -> str:
        whose = {"key": "this credential has", "tenant": "this tenant has", "all": "this process serves"}
        return f"{whose[limit]} {self._most[limit]:,} streams open, which is the limit"


class Slot:
    """The place of one open stream."""

    __slots__ = ("_open", "_places")

    def __init__(self, counts: Counter[tuple[str, str]], places: list[tuple[str, str]]) -> None:
        self._open, self._places = counts, places

    def release(self) -> None:
        """The stream has ended; to say so again changes nothing."""
        for place in self._places:
            self._open[place] -= 1
            if not self._open[place]:
                del self._open[place]
        self._places = []

    def __enter__(self) -> None:
        """It is open."""

    def __exit__(self, *_: object) -> None:
        """It has ended."""
        self.release()


def _most_files() -> int:
    """How many files the process may have open; the server raises its soft limit to this."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_FILES if hard == resource.RLIM_INFINITY else hard


def raise_file_limit() -> None:
    """Let the process have as many files open as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
