"""For operators: many instances cancelled, moved or retried by one call, after a dry run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from fastapi import APIRouter, Request

from headway.api import operations_shapes as shapes
from headway.api.caller import Caller
from headway.api.cursors import cursor_place, cursor_text
from headway.api.depends import Here, RequestId, Who, needs, paged
from headway.api.operations import id_of, tell_workers
from headway.api.problems import Problem, problem_of
from headway.engine.engine import Engine
from headway.engine.operations import Act, Cancelling, Outcome, Retrying, Sending
from headway.engine.service import LOG
from headway.errors import UnknownInstanceError
from headway.node import Node
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Event
from headway.store.port import InstanceQuery

BULK = "bulk"
SAMPLE = 10
"""So many instances of each outcome and code are named."""

router = APIRouter(prefix="/v1/operations", tags=["operations"], dependencies=[needs("operate")])


def _cancelling(engine: Engine, caller: Caller, body: shapes.BulkCancel) -> Act:
    return Cancelling(engine, caller.tenant, caller.actor, body.reason)


def _sending(engine: Engine, caller: Caller, body: shapes.BulkSend) -> Act:
    return Sending(engine, caller.tenant, Event(body.event, body.data, caller.actor, reason=body.reason))


def _retrying(engine: Engine, caller: Caller, _: shapes.BulkRetry) -> Act:
    return Retrying(engine, caller.tenant)


ACTS: dict[str, Callable[[Engine, Caller, Any], Act]] = {
    "cancel": _cancelling,
    "send": _sending,
    "retry": _retrying,
}


@router.post("/bulk", operation_id="change_many")
async def change_many(
    body: shapes.BulkBody, node: Here, caller: Who, request: Request, *, request_id: RequestId
) -> shapes.BulkResult:
    """Cancel instances, send them an event, or retry their work. A dry run, unless told otherwise.

    The instances are taken in the order of their creation, each with an outcome of its own. Charts judge as
    ever who may do what. A call that did not come back is repeated with the same `Idempotency-Key` and
    cursor: what was done is not done again.
    """
    act = ACTS[body.action](node.engine, caller, body)
    after = None if body.cursor is None else await _known(node, caller, body.cursor)

    async def read(count: int) -> Any:
        wanted = body.filter.model_dump()
        return await node.engine.list(InstanceQuery(caller.tenant, **wanted, after=after, limit=count))

    rows, following = await paged(read, body.limit, lambda row: cursor_text(BULK, row.id))
    outcomes = await (act.rehearse(rows) if body.dry_run else act.perform(rows, request_id))
    result = _result(body, [*map(_told, outcomes)], following)
    if not body.dry_run:
        LOG.info("%s: %s of %d instances of %s", caller.actor.id, body.action, result.done, caller.tenant)
        if body.action == "retry":
            tell_workers(request)
    return result


class Told(NamedTuple):
    """An outcome as it is told."""

    instance: str
    outcome: str
    code: str | None = None
    detail: str | None = None


def _told(outcome: Outcome) -> Told:
    instance, answer = outcome
    if answer is None:
        return Told(instance, "skipped")
    if isinstance(answer, Refusal):
        return Told(instance, "refused", answer.code, answer.message)
    if isinstance(answer, BaseException):
        problem = problem_of(answer)
        if problem.code == "internal":
            LOG.error("a change of %s failed", instance, exc_info=answer)
        return Told(instance, "failed", problem.code, problem.detail)
    return Told(instance, "done")


def _result(body: shapes.BulkBody, told: list[Told], following: str | None) -> shapes.BulkResult:
    outcomes = Counter(each.outcome for each in told)
    return shapes.BulkResult(
        action=body.action,
        dry_run=body.dry_run,
        seen=len(told),
        done=outcomes["done"],
        skipped=outcomes["skipped"],
        refused=_codes(told, "refused"),
        failed=_codes(told, "failed"),
        sample=[shapes.BulkItem(**each._asdict()) for each in _sample(told)],
        next=following,
    )


def _codes(told: Iterable[Told], outcome: str) -> dict[str, int]:
    return dict(sorted(Counter(each.code or "" for each in told if each.outcome == outcome).items()))


def _sample(told: Iterable[Told]) -> list[Told]:
    seen: Counter[tuple[str, str | None]] = Counter()
    chosen = []
    for each in told:
        kind = (each.outcome, each.code)
        seen[kind] += 1
        if seen[kind] <= SAMPLE:
            chosen.append(each)
    return chosen


async def _known(node: Node, caller: Caller, cursor: str) -> str:
    """The instance that a cursor names; raises Problem 422 when it is gone: who knows what came after it."""
    instance = id_of(cursor_place(BULK, str, cursor))
    try:
        await node.engine.row(caller.tenant, instance)
    except UnknownInstanceError as error:
        raise Problem("cursor", "what the cursor names is no longer there") from error
    return instance
