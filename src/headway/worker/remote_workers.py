"""Which workers in other processes have been heard of here, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headway.codec import Scratch
from headway.store.queries import Claim

FORGOTTEN_AFTER = 300.0
MOST = 10_000


class RemoteWorker(Scratch):
    """A worker, what it claims, and when it last spoke, by the monotonic clock of this process."""

    tenant: str
    name: str
    seen_at: float
    queues: tuple[str, ...] = ()
    handlers: tuple[str, ...] = ()
    waiting: bool = False
    claimed: int = 0
    ended: int = 0


class RemoteWorkers:
    """Those that have spoken in the last minutes."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._known: dict[tuple[str, str], RemoteWorker] = {}

    def of(self, tenant: str) -> Sequence[RemoteWorker]:
        """The workers of a tenant, the one that spoke last first."""
        self._forget()
        return sorted(
            (worker for worker in self._known.values() if worker.tenant == tenant),
            key=lambda worker: -worker.seen_at,
        )

    def claims(self, claim: Claim) -> None:
        """A worker asks for work."""
        worker = self.spoke(claim.tenants[0], claim.worker)
        worker.queues, worker.handlers, worker.waiting = claim.queues, claim.handlers, True

    def took(self, claim: Claim, count: int) -> None:
        """A worker waits no more."""
        worker = self.spoke(claim.tenants[0], claim.worker)
        worker.waiting = False
        worker.claimed += count

    def spoke(self, tenant: str, name: str) -> RemoteWorker:
        """A worker is there."""
        worker = self._known.pop((tenant, name), None) or RemoteWorker(tenant, name, 0.0)
        worker.seen_at = self._monotonic()
        self._known[tenant, name] = worker
        if len(self._known) > MOST:
            self._known.pop(next(iter(self._known)))
        return worker

    def _forget(self) -> None:
        """They stand in the order in which they last spoke."""
        too_old = self._monotonic() - FORGOTTEN_AFTER
        for key, worker in [*self._known.items()]:
            if worker.seen_at > too_old:
                break
            if not worker.waiting:
                del self._known[key]
