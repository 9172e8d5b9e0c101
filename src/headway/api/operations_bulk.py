"""For operators: many instances cancelled, moved or retried by one call, after a dry run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request

from headway.api import operations_shapes as shapes
from headway.api.caller import Caller
from headway.api.cursors import cursor_place, cursor_text
from headway.api.depends import Here, Keyed, RequestId, Who, needs, paged
from headway.api.operations import id_of, tell_workers
from headway.api.problems import Problem, problem_of
from headway.api.requests import wrong
from headway.engine.bulk import Act, Cancelling, Plan, Retrying, Sending, Summary, planned
from headway.engine.engine import Engine
from headway.engine.once import Request as KeyedRequest
from headway.engine.service import LOG
from headway.errors import UnknownInstanceError
from headway.node import Node
from headway.statechart.snapshot import Event
from headway.store.queries import InstanceQuery
from headway.store.rows import InstanceRow

BULK = "bulk"

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
    body: shapes.BulkBody, node: Here, caller: Who, request: Request, *, request_id: RequestId, keyed: Keyed
) -> shapes.BulkResult:
    """Cancel instances, send them an event, or retry their work. A dry run, unless told otherwise.

    The instances are taken in the order of their creation, each with an outcome of its own. Charts judge as
    ever who may do what. A call that did not come back is repeated with the same `Idempotency-Key` and
    cursor: what was done is not done again.
    """
    _require_states(node, body.filter)
    act = ACTS[body.action](node.engine, caller, body)
    after = None if body.cursor is None else await _known(node, caller, body.cursor)

    async def read(count: int) -> Any:
        wanted = body.filter.model_dump()
        return await node.engine.list(InstanceQuery(caller.tenant, **wanted, after=after, limit=count))

    rows, following = await paged(read, body.limit, lambda row: cursor_text(BULK, row.id))
    if keyed is not None and request_id is not None and not body.dry_run:
        own = KeyedRequest((caller.tenant, request_id), keyed.asked)
        plan = await planned(node.engine, own, Plan(tuple(row.id for row in rows), following))
        following = plan.next
        if own.is_repeat:
            rows = await _rows(node, caller, plan)
    summary = Summary(_fault)
    summary.add(await (act.rehearse(rows) if body.dry_run else act.perform(rows, request_id)))
    result = _result(body, summary, following)
    if not body.dry_run:
        LOG.info("%s: %s of %d instances of %s", caller.actor.id, body.action, result.done, caller.tenant)
        if body.action == "retry":
            tell_workers(request)
    return result


async def _rows(node: Node, caller: Caller, plan: Plan) -> list[InstanceRow]:
    """The instances of a plan as they are now, in its order."""
    found = await node.engine.store.instances.look_up([(caller.tenant, name) for name in plan.instances])
    by_name = {row.id: row for row in found}
    return [by_name[name] for name in plan.instances if name in by_name]


def _require_states(node: Node, wanted: shapes.Filter) -> None:
    """Raises UnknownChartError, and Problem 422 for a status that no version of the chart has."""
    newest, charts = node.engine.charts.newest(wanted.chart), node.engine.charts
    versions = [newest, *(chart for chart in charts if chart.name == wanted.chart)]
    known = dict.fromkeys(state.id for chart in versions for state in chart.root.children)
    if wanted.status is not None and wanted.status not in known:
        raise wrong("body.filter.status", f"{wanted.chart} has no such status; there are: {', '.join(known)}")


def _fault(error: BaseException) -> tuple[str, str]:
    problem = problem_of(error)
    if problem.code == "internal":
        LOG.error("a change of many instances failed for one of them", exc_info=error)
    return problem.code, problem.detail


def _result(body: shapes.BulkBody, summary: Summary, following: str | None) -> shapes.BulkResult:
    return shapes.BulkResult(
        action=body.action,
        dry_run=body.dry_run,
        seen=summary.seen,
        done=summary.count("done"),
        skipped=summary.count("skipped"),
        refused=summary.codes("refused"),
        failed=summary.codes("failed"),
        sample=[shapes.BulkItem.model_validate(each._asdict()) for each in summary.sample],
        next=following,
    )


async def _known(node: Node, caller: Caller, cursor: str) -> str:
    """The instance that a cursor names; raises Problem 422 when it is gone: who knows what came after it."""
    instance = id_of(cursor_place(BULK, str, cursor))
    try:
        await node.engine.row(caller.tenant, instance)
    except UnknownInstanceError as error:
        raise Problem("cursor", "what the cursor names is no longer there") from error
    return instance
