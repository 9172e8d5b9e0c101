"""The calls of a worker: claim work of states, keep its lease, and end it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from headway.client.actions import Steps
from headway.client.answers import AnswerPage, Sign, Standing, WorkShown
from headway.client.requests import RepeatedRequests, given, quoted

T = TypeVar("T")


class WorkVerbs(RepeatedRequests):
    """The calls about work. `worker` is a name that no other process uses at the same time.

    After the end of an attempt each raises CallConflictError with the code `lease_lost`.
    """

    def claim_work(
        self,
        worker: str,
        handlers: Sequence[str],
        *,
        queues: Sequence[str] = ("default",),
        charts: Mapping[str, Sequence[int]] | None = None,
        limit: int = 1,
        wait: float = 0,
        request_id: str | None = None,
    ) -> Steps[Sequence[WorkShown]]:
        """Lease work for these handlers; without any, the answer waits for `wait` seconds (30 at most)."""
        body = given(
            worker=worker, handlers=[*handlers], queues=[*queues], charts=charts, limit=limit, wait=wait
        )
        path = "/v1/work/claim"
        page = yield from self._post(AnswerPage[WorkShown], path, body, request_id=request_id, wait=wait)
        return page.items

    def heartbeat_work(
        self,
        worker: str,
        work: WorkShown,
        progress: float | None = None,
        *,
        message: str | None = None,
        data: Mapping[str, Any] | None = None,
        counters: Mapping[str, int] | None = None,
        checkpoint: Any = None,
        request_id: str | None = None,
    ) -> Steps[Sign]:
        """Keep the lease, and report progress from 0 to 1; continue only if the answer is `held`."""
        body = given(progress=progress, message=message, data=data, counters=counters, checkpoint=checkpoint)
        return self._of_attempt(Sign, (worker, work, "heartbeat"), body, request_id)

    def checkpoint_work(
        self, worker: str, work: WorkShown, checkpoint: Any, *, request_id: str | None = None
    ) -> Steps[Sign]:
        """Store how far the work is, for the next attempt."""
        return self._of_attempt(Sign, (worker, work, "checkpoint"), {"checkpoint": checkpoint}, request_id)

    def complete_work(
        self,
        worker: str,
        work: WorkShown,
        result: Any = None,
        *,
        event: str | None = None,
        request_id: str | None = None,
    ) -> Steps[Standing]:
        """End the work with a result, or with an event of the chart that carries it.

        Raises CallConflictError with the code `result_refused` if the chart does not accept it.
        """
        body = given(result=result, event=event)
        return self._of_attempt(Standing, (worker, work, "complete"), body, request_id)

    def fail_work(
        self,
        worker: str,
        work: WorkShown,
        code: str,
        message: str = "",
        *,
        details: Mapping[str, Any] | None = None,
        request_id: str | None = None,
    ) -> Steps[Standing]:
        """End the attempt with an error code; the chart says whether there is another."""
        body = given(code=code, message=message, details=details)
        return self._of_attempt(Standing, (worker, work, "fail"), body, request_id)

    def release_work(
        self, worker: str, work: WorkShown, *, after: str = "0s", request_id: str | None = None
    ) -> Steps[Sign]:
        """Hand the work back without an outcome: anybody can claim the same attempt after that time."""
        return self._of_attempt(Sign, (worker, work, "release"), {"after": after}, request_id)

    def _of_attempt(
        self,
        kind: type[T],
        call: tuple[str, WorkShown, str],
        body: Mapping[str, Any],
        request_id: str | None,
    ) -> Steps[T]:
        worker, work, verb = call
        path = f"/v1/work/{quoted(work.id)}/{verb}"
        fields = {**body, "worker": worker, "attempt": work.attempt}
        return self._post(kind, path, fields, request_id=request_id)
