"""An event that this node cannot decide reaches its instance through the outbox."""

from __future__ import annotations

from headway.codec import decode
from headway.engine.commit import Commit, write_forward
from headway.engine.orders import DAY
from headway.statechart.snapshot import Event, Snapshot
from headway.store.rows import Key, RequestRow
from headway.store.unit import Changes, Found, Reads


class Forwarding:
    """A unit that leaves an event in the outbox; a node that knows the version of the instance sends it.

    An instance that is gone gets nothing. An event that is forwarded again leaves no second message: it is
    known by its request id, or as the end of the attempt it names.
    """

    def __init__(self, key: Key, event: Event, *, request_id: str | None, trace: str | None) -> None:
        self._key, self._event, self._request_id, self._trace = key, event, request_id, trace
        self._effect = f"{key[1]}:{event.name}:{request_id or f'{event.ref}:{event.attempt}'}"
        self._name = (key[0], f"forward:{self._effect}")

    def begin(self) -> Reads:
        """Look at the instance, and whether there is a message already."""
        self._changes = Changes()
        return Reads(instances={self._key}, requests={self._name})

    def take(self, found: Found) -> None:
        """Write the message."""
        row, known = found.instances.get(self._key), found.requests.get(self._name)
        if row is None or (known is not None and known.expires_at > found.now):
            return
        snapshot = decode(Snapshot, row.snapshot)
        commit = Commit(self._changes, self._key, snapshot, now=found.now, trace=self._trace)
        write_forward(commit, self._effect, self._event, self._request_id)
        self._changes.requests.append(RequestRow(*self._name, self._effect, "", found.now + DAY))

    def changes(self) -> Changes:
        """The message."""
        return self._changes
