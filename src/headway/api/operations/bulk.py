"""For operators: many instances cancelled, moved or retried by one call, after a dry run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from headway.api.access import Caller, readable_by
from headway.api.bodies import NO_NUL, Check, RequestBody, ResponseBody, wrong
from headway.api.call import HttpCall
from headway.api.cursors import cursor_place, cursor_text, id_of, paged
from headway.api.instances import readable_place
from headway.api.operations.work import DryRun, Name, wake_workers
from headway.api.parameters import Here, Who, needs
from headway.api.problems import problem_of
from headway.api.route import Router
from headway.codec import Meta, as_dict
from headway.engine.bulk import BulkOperation, Cancelling, Plan, Retrying, Sending, Summary, planned
from headway.engine.engine import Engine
from headway.engine.service import LOG
from headway.node import Node
from headway.statechart.snapshot import Event
from headway.store.queries import InstanceQuery
from headway.store.rows import InstanceRow

BULK = "bulk"
MOST_AT_ONCE = 500
Reason = Annotated[str, Meta(max_length=10_000, pattern=NO_NUL)]

router = Router(prefix="/v1/operations", tags=["operations"], dependencies=[needs("operate")])


def _must_be_false(ended: bool) -> None:  # noqa: FBT001 - a field's value
    if ended:
        raise ValueError("instances that have ended cannot be changed")


class Filter(RequestBody):
    """Which instances: those of a chart that have not ended, and fit all that is given."""

    chart: Name
    status: Name | None = None
    owner: Name | None = None
    parent: Name | None = None
    ended: Annotated[bool, Check(_must_be_false), Meta(extra_json_schema={"const": False})] = False


class _Bulk(RequestBody):
    filter: Filter
    dry_run: DryRun = True
    limit: Annotated[
        int,
        Meta(ge=1, le=MOST_AT_ONCE),
        Meta(description="The most instances to change; `next` leads to the rest."),
    ] = MOST_AT_ONCE
    cursor: Annotated[
        Annotated[str, Meta(max_length=1000)] | None, Meta(description="The `next` of the call before.")
    ] = None


class BulkCancel(_Bulk, tag_field="action", tag="cancel"):
    """Cancel instances and their children, each by the event that its chart names for it."""

    reason: Reason | None = None


class BulkSend(_Bulk, tag_field="action", tag="send", kw_only=True):
    """Send each instance the same event."""

    event: Name
    data: Any = None
    reason: Reason | None = None


class BulkRetry(_Bulk, tag_field="action", tag="retry"):
    """Let work that waits for its next attempt be due now."""


BulkBody = BulkCancel | BulkSend | BulkRetry


class BulkItem(ResponseBody):
    """What became of one instance, or would; a code and a detail say why not."""

    instance: str
    outcome: Literal["done", "skipped", "refused", "failed"]
    code: str | None
    detail: str | None


class BulkResult(ResponseBody):
    """What became of the instances, or would."""

    action: Literal["cancel", "send", "retry"]
    dry_run: bool
    seen: Annotated[int, Meta(description="How many instances fitted the filter.")]
    done: int
    skipped: Annotated[int, Meta(description="There was nothing to do for them.")]
    refused: Annotated[dict[str, int], Meta(description="How many the chart refused, by code.")]
    failed: Annotated[dict[str, int], Meta(description="How many failed for another reason, by code.")]
    sample: Annotated[list[BulkItem], Meta(description="The first of each outcome and code.")]
    next: Annotated[str | None, Meta(description="The cursor of the rest; null when there is none.")]


def _cancelling(engine: Engine, caller: Caller, body: BulkCancel) -> BulkOperation:
    return Cancelling(engine, caller.tenant, caller.actor, body.reason)


def _sending(engine: Engine, caller: Caller, body: BulkSend) -> BulkOperation:
    return Sending(engine, caller.tenant, Event(body.event, body.data, caller.actor, reason=body.reason))


def _retrying(engine: Engine, caller: Caller, _: BulkRetry) -> BulkOperation:
    return Retrying(engine, caller.tenant)


OPERATIONS: dict[type[BulkBody], Callable[[Engine, Caller, Any], BulkOperation]] = {
    BulkCancel: _cancelling,
    BulkSend: _sending,
    BulkRetry: _retrying,
}


@router.post("/bulk", operation_id="change_many")
async def change_many(body: BulkBody, node: Here, caller: Who, call: HttpCall) -> BulkResult:
    """Cancel instances, send them an event, or retry their work. A dry run unless `dry_run` is false.

    The instances that the caller may read are taken in the order of their creation, each with an outcome of
    its own. Charts judge as ever who may do what. A call that did not come back is repeated with the same
    `Idempotency-Key` and cursor: what was done is not done again.
    """
    _require_states(node, body.filter)
    act = OPERATIONS[type(body)](node.engine, caller, body)
    after = (
        None
        if body.cursor is None
        else await readable_place(node, caller, id_of(cursor_place(BULK, str, body.cursor)))
    )
    readable = await readable_by(node.engine, caller)

    async def read(count: int) -> Any:
        wanted = as_dict(body.filter)
        query = InstanceQuery(caller.tenant, **wanted, readable=readable, after=after, limit=count)
        return await node.engine.list(query)

    rows, following = await paged(read, body.limit, lambda row: cursor_text(BULK, row.id))
    if call.keyed is not None and not body.dry_run:
        own = call.keyed.part("plan")
        plan = await planned(node.engine, own, Plan(tuple(row.id for row in rows), following))
        following = plan.next
        if own.is_repeat:
            rows = await _rows(node, caller, plan)
    summary = Summary(_fault)
    request_id = None if call.keyed is None else call.keyed.part_id("act")
    summary.add(await (act.rehearse(rows) if body.dry_run else act.perform(rows, request_id)))
    result = _result(body, summary, following)
    if not body.dry_run:
        LOG.info("%s: %s of %d instances of %s", caller.actor.id, _action(body), result.done, caller.tenant)
        if _action(body) == "retry":
            wake_workers(call)
    return result


def _action(body: BulkBody) -> Any:
    return type(body).__struct_config__.tag


async def _rows(node: Node, caller: Caller, plan: Plan) -> list[InstanceRow]:
    """The instances of a plan as they are now, in its order."""
    found = await node.engine.store.instances.look_up([(caller.tenant, name) for name in plan.instances])
    by_name = {row.id: row for row in found}
    return [by_name[name] for name in plan.instances if name in by_name]


def _require_states(node: Node, wanted: Filter) -> None:
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


def _result(body: BulkBody, summary: Summary, following: str | None) -> BulkResult:
    return BulkResult(
        action=_action(body),
        dry_run=body.dry_run,
        seen=summary.seen,
        done=summary.count("done"),
        skipped=summary.count("skipped"),
        refused=summary.codes("refused"),
        failed=summary.codes("failed"),
        sample=[BulkItem(**each._asdict()) for each in summary.sample],
        next=following,
    )
