"""Instances: create, look at, list, move, explain, cancel."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

from fastapi import APIRouter, Path, Query
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headway.api import shapes
from headway.api.answers import json_response
from headway.api.cursors import cursor_place, cursor_text, position_of, position_text
from headway.api.depends import PER_PAGE, Cursor, Here, Limit, RequestId, Sealed, Who, Yes, needs, paged
from headway.api.hot import shown
from headway.api.problems import Problem, problem_of
from headway.api.requests import expected_seq
from headway.clock import time_text
from headway.codec import decode, to_data
from headway.engine.engine import LONGEST_NAME
from headway.engine.redaction import context_of, data_of
from headway.errors import InternalError, UnknownInstanceError
from headway.statechart.refusal import Refusal, allowed_now
from headway.statechart.snapshot import Snapshot
from headway.store.queries import InstanceQuery
from headway.store.rows import HistoryRow, InstanceRow

INSTANCES, HISTORY = "instances", "history"

router = APIRouter(prefix="/v1/instances", tags=["instances"])

Name = Annotated[str, Path(description="The instance's id.", min_length=1, max_length=LONGEST_NAME)]
SUMMARY = ("id", "chart", "version", "seq", "status", "ended", "parent", "owner", "created_at", "updated_at")
DETAILS = (
    "states",
    "context",
    "since",
    "timers",
    "work",
    "asks",
    "children",
    "counters",
    "progress",
    "output",
)
LINE = (
    *("seq", "row", "at", "event", "transition", "before", "after", "actor", "reason", "attempt"),
    *("version", "hash"),
)


class HotRoute(APIRoute):
    """A route that `headway.api.hot` serves; what stands here is its description."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve it, without the machinery that reads descriptions."""
        if scope["method"] != "POST" or not await scope["app"].state.hot.serves(scope, receive, send):
            await super().handle(scope, receive, send)


hot = APIRouter(prefix="/v1/instances", tags=["instances"], route_class=HotRoute)


@hot.post("", operation_id="create_instance", status_code=201, response_model=shapes.Standing)
async def create_instance(body: shapes.NewInstance) -> NoReturn:
    """Begin a life by the newest version of a chart. Needs the scope `send`."""
    raise InternalError(f"served elsewhere: {body.chart}")


@hot.post("/{instance}/events", operation_id="send_event", response_model=shapes.Standing)
async def send_event(instance: Name, body: shapes.SendEvent) -> NoReturn:
    """Send an event. It is committed when the answer comes. Needs the scope `send`.

    An event that the chart refuses changes nothing: the problem says where the instance stands and what it
    would take. With `If-Match`, the event counts only for the version that the caller has seen.
    """
    raise InternalError(f"served elsewhere: {instance} {body.event}")


@router.get("", operation_id="list_instances", dependencies=[needs("read")])
async def list_instances(
    node: Here,
    caller: Who,
    *,
    chart: Annotated[str | None, Query(description="Only those of this chart.")] = None,
    status: Annotated[str | None, Query(description="Only those with this status.")] = None,
    parent: Annotated[str | None, Query(description="Only the children of this instance.")] = None,
    owner: Annotated[str | None, Query(description="Only those of this owner.")] = None,
    ended: Annotated[Yes | None, Query(description="Only those that have ended, or have not.")] = None,
    cursor: Cursor = None,
    limit: Limit = PER_PAGE,
) -> shapes.Instances:
    """The instances of the caller's tenant, in the order of their creation."""
    if chart is not None:
        node.engine.charts.newest(chart)
    after = None if cursor is None else await _known(node, caller, cursor)

    async def read(count: int) -> Any:
        return await node.engine.list(
            InstanceQuery(
                caller.tenant, chart, status, parent, owner=owner, ended=ended, after=after, limit=count
            )
        )

    rows, following = await paged(read, limit, lambda row: cursor_text(INSTANCES, row.id))
    return shapes.Instances(items=[shapes.Summary(**summary(row)) for row in rows], next=following)


@router.get(
    "/{instance}",
    operation_id="get_instance",
    response_model=shapes.Instance,
    dependencies=[needs("read")],
)
async def get_instance(instance: Name, node: Here, caller: Who, request: Request) -> Response:
    """Where an instance stands and what it knows; its `ETag` is its version."""
    row = await node.engine.row(caller.tenant, instance)
    tag = {"ETag": f'"{row.seq}"'}
    if request.headers.get("if-none-match") == tag["ETag"]:
        return Response(status_code=304, headers=tag)
    snapshot = decode(Snapshot, row.snapshot)
    details = {name: getattr(snapshot, name) for name in DETAILS}
    if not snapshot.ended:
        node.engine.charts.known(snapshot.chart, snapshot.version)  # else nobody could say what may be shown
    details["context"] = context_of(snapshot, node.engine.charts)
    times = {name: time_text(getattr(row, name)) for name in ("created_at", "updated_at")}
    return json_response({**summary(row), **times, **details}, headers=tag)


@router.get("/{instance}/allowed", operation_id="get_allowed_events", dependencies=[needs("read")])
async def get_allowed(instance: Name, node: Here, caller: Who) -> shapes.AllowedEvents:
    """The events that some transition waits for now, whatever its conditions say."""
    snapshot = await node.engine.get(caller.tenant, instance)
    chart = node.engine.charts.chart(snapshot.chart, snapshot.version)
    active = () if snapshot.ended else chart.configuration(snapshot.states)
    items = [
        shapes.AllowedEvent(
            event=each.event,
            by=[*each.by],
            targets=[*each.targets],
            yours=not each.by or not caller.actor.roles.isdisjoint(each.by),
        )
        for each in allowed_now(chart, active, snapshot.asks)
    ]
    return shapes.AllowedEvents(seq=snapshot.seq, items=items)


@router.get("/{instance}/history", operation_id="get_history", dependencies=[needs("read")])
async def get_history(
    instance: Name, node: Here, caller: Who, seal: Sealed, *, cursor: Cursor = None, limit: Limit = PER_PAGE
) -> shapes.Lines:
    """What has happened to an instance: who did what and when, the oldest first."""
    after = position_of(HISTORY, cursor, seal)
    await node.engine.row(caller.tenant, instance)

    async def read(count: int) -> Any:
        return await node.engine.history(caller.tenant, instance, after=after, limit=count)

    rows, following = await paged(read, limit, lambda row: position_text(HISTORY, row.position, seal))
    return shapes.Lines(items=[_line(row) for row in rows], next=following)


@router.get("/{instance}/why", operation_id="get_why", dependencies=[needs("read")])
async def get_why(instance: Name, node: Here, caller: Who) -> shapes.Why:
    """What an instance waits for, who or what could move it, and what stands in the way."""
    explained = await node.engine.why(caller.tenant, instance)
    return shapes.Why(
        text=str(explained),
        stuck=explained.stuck,
        why=to_data(explained.why),
        work=[to_data(each) for each in explained.work],
        children=[*explained.children],
        undelivered=[*explained.undelivered],
    )


@router.post(
    "/{instance}/cancel",
    operation_id="cancel_instance",
    response_model=shapes.Standing,
    dependencies=[needs("send")],
)
async def cancel_instance(
    instance: Name,
    node: Here,
    caller: Who,
    *,
    request: Request,
    request_id: RequestId,
    body: shapes.Cancel | None = None,
) -> Response:
    """Cancel an instance and its children, by the event that its chart names for it.

    With `If-Match`, only the version that the caller has seen.
    """
    answer = await node.engine.cancel(
        caller.tenant,
        instance,
        by=caller.actor,
        reason=None if body is None else body.reason,
        request_id=request_id,
        expected_seq=expected_seq(dict(request.scope["headers"])),
    )
    if isinstance(answer, Refusal):
        raise problem_of(answer)
    return json_response(shown(answer), headers={"ETag": f'"{answer.seq}"'})


def summary(row: InstanceRow) -> dict[str, Any]:
    """What a list says of an instance."""
    return {name: getattr(row, name) for name in SUMMARY}


def _line(row: HistoryRow) -> shapes.Line:
    known = {name: getattr(row, name) for name in LINE}
    return shapes.Line(**known, data=data_of(row), note=_json(row.note))


def _json(text: str | None) -> Any:
    return None if text is None else decode(object, text)


async def _known(node: Here, caller: Who, cursor: str) -> str:
    """The instance that a cursor names; raises Problem 422 when it is gone: who knows what came after it."""
    instance = cursor_place(INSTANCES, str, cursor)
    try:
        await node.engine.row(caller.tenant, instance)
    except UnknownInstanceError as error:
        raise Problem("cursor", "what the cursor names is no longer there") from error
    return instance
