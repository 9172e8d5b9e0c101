"""Instances: create, read, list, send events to, explain and cancel them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from headway.api.access import Caller, readable_by, readable_row
from headway.api.bodies import NO_NUL, RequestBody, ResponseBody, wrong
from headway.api.call import JSON_HEADERS, Reply, json_response
from headway.api.cursors import cursor_place, cursor_text, paged, position_of, position_text
from headway.api.parameters import (
    PER_PAGE,
    Cipher,
    Cursor,
    ExpectedSeq,
    Here,
    Limit,
    RequestId,
    Who,
    Yes,
    needs,
)
from headway.api.problems import Problem, problem_of
from headway.api.route import Router
from headway.clock import time_text
from headway.codec import Meta, decode, encode, to_data
from headway.engine.commit import stored_snapshot
from headway.engine.engine import LONGEST_NAME, LONGEST_NEW_NAME
from headway.engine.orders import Answer, parent_named
from headway.engine.redaction import context_of, data_of
from headway.errors import InputError, UnknownInstanceError
from headway.node import Node
from headway.statechart.refusal import Refusal, allowed_now
from headway.statechart.snapshot import Event
from headway.store.queries import InstanceQuery
from headway.store.rows import HistoryRow, InstanceRow

INSTANCES, HISTORY = "instances", "history"
CREATED = 201
UNADDRESSABLE = frozenset({".", ".."})

OWN_IDS = (
    "a credential with the scope own cannot choose ids, which would tell whether they exist:"
    " leave it out, and send an Idempotency-Key"
)

router = Router(prefix="/v1/instances", tags=["instances"])

Name = Annotated[str, Path(description="The instance's id.", min_length=1, max_length=LONGEST_NAME)]
Text = Annotated[str, Meta(pattern=NO_NUL)]
NewName = Annotated[str, Meta(min_length=1, max_length=LONGEST_NEW_NAME, pattern=r"^[^\x00]+$")]
Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time, always with microseconds: see `time_text`."""
SUMMARY = ("id", "chart", "version", "seq", "status", "ended", "parent", "owner")
DETAILS = ("states", "since", "timers", "work", "asks", "children", "counters", "progress", "output")
LINE = (
    *("seq", "row", "event", "transition", "before", "after", "actor", "reason", "attempt"),
    *("version", "hash"),
)


class SendEvent(RequestBody):
    """An event for an instance. The credential names the sender."""

    event: Annotated[str, Meta(description="The event's name.", examples=["submit"], min_length=1)]
    data: Annotated[Any, Meta(description="Its data, as the chart's model for it says.")] = None
    reason: Annotated[Text | None, Meta(description="Why, for the history.")] = None


class NewInstance(RequestBody):
    """An instance to create."""

    chart: Annotated[str, Meta(description="The chart's name.", examples=["Expense"])]
    id: Annotated[NewName | None, Meta(description="Its id; without one it gets one.")] = None
    context: Annotated[
        dict[str, Any] | None, Meta(description="Its first context, as the chart's model says.")
    ] = None


class CancelBody(RequestBody):
    """Why an instance is cancelled."""

    reason: Text | None = None


class Standing(ResponseBody):
    """Where an instance stands."""

    id: str
    chart: str
    version: int
    seq: Annotated[
        int, Meta(description="The instance's version: the number of its steps. Its ETag is this in quotes.")
    ]
    status: Annotated[str, Meta(description="The outermost active state.")]
    states: Annotated[
        tuple[str, ...], Meta(description="The innermost active states, one for each parallel region.")
    ]
    ended: bool


class InstanceSummary(ResponseBody):
    """An instance in a list."""

    id: str
    chart: str
    version: int
    seq: int
    status: str
    ended: bool
    parent: str | None
    owner: str | None
    created_at: Time
    updated_at: Time


class Instances(ResponseBody):
    """A page of instances."""

    items: list[InstanceSummary]
    next: Annotated[str | None, Meta(description="The cursor of the next page; null on the last one.")]


class Instance(InstanceSummary):
    """An instance as it is now."""

    states: tuple[str, ...]
    context: dict[str, Any]
    since: Annotated[dict[str, datetime], Meta(description="Since when each active state is.")]
    timers: dict[str, Any]
    work: Annotated[dict[str, Any], Meta(description="The open work, by state.")]
    asks: Annotated[dict[str, Any], Meta(description="The open asks, by state.")]
    children: Annotated[dict[str, int], Meta(description="How many children have which status.")]
    counters: dict[str, int]
    progress: float
    output: Any


class AllowedEvent(ResponseBody):
    """An event that the instance would accept now."""

    event: str
    by: Annotated[tuple[str, ...], Meta(description="The roles that may send it.")]
    people: Annotated[
        tuple[str, ...],
        Meta(description="The ids of people who may send it; if there are no roles either, anybody may."),
    ]
    targets: tuple[str, ...]
    yours: Annotated[bool, Meta(description="Whether the caller may send it, by role or by name.")]


class AllowedEvents(ResponseBody):
    """The events that an instance would accept now."""

    seq: int
    items: list[AllowedEvent]
    next: None = None


class Line(ResponseBody):
    """A line of an instance's history."""

    seq: int
    row: int
    at: Time
    event: str
    transition: str
    before: str
    after: str
    actor: str
    reason: str | None
    attempt: int
    data: Any
    version: int
    note: Annotated[
        Any, Meta(description="What people were asked in this step, and which questions it closed.")
    ]
    since: Annotated[
        Time | None,
        Meta(description="When the states before were reached, if this line left them; else null."),
    ]
    hash: Annotated[str, Meta(description="Covers the line and the hash of the line before it.")]


class Lines(ResponseBody):
    """A page of an instance's history, the oldest first."""

    items: list[Line]
    next: str | None


class WhyShown(ResponseBody):
    """Why an instance is in its current states."""

    text: Annotated[str, Meta(description="The explanation for a person.")]
    stuck: bool
    why: dict[str, Any]
    failure: Annotated[
        dict[str, Any] | None,
        Meta(description="The last error of its work that has not succeeded since, and the next attempt."),
    ]
    ending: Annotated[dict[str, Any] | None, Meta(description="What ended it; null while it lives.")]
    work: list[Any]
    children: list[str]
    undelivered: list[str]


SENDS: dict[str, Any] = {"response_model": Standing, "dependencies": [needs("send", own=True)]}
READS: dict[str, Any] = {"dependencies": [needs("read", own=True)]}


@router.post("", operation_id="create_instance", status_code=CREATED, **SENDS)
async def create_instance(body: NewInstance, node: Here, caller: Who, request_id: RequestId) -> Response:
    """Create an instance of the newest version of a chart. Needs the scope `send`."""
    if caller.actor.own and body.id is not None:
        raise wrong("body.id", OWN_IDS)
    _check_name(body.id)
    tenant = node.tenant(caller.tenant)
    try:
        answer = await tenant.create(
            body.chart, body.id, body.context, by=caller.actor, request_id=request_id
        )
    except InputError as error:
        raise Problem("context", str(error)) from error
    return standing_reply(answer, CREATED)


@router.post("/{instance}/events", operation_id="send_event", **SENDS)
async def send_event(
    instance: Name,
    body: SendEvent,
    node: Here,
    caller: Who,
    *,
    request_id: RequestId,
    expected_seq: ExpectedSeq,
) -> Response:
    """Send an event. It is committed when the answer comes. Needs the scope `send`.

    An event that the chart refuses changes nothing: the problem says where the instance stands and which
    events it would accept. With `If-Match`, the event is only for the version that the caller has seen.
    """
    event = Event(body.event, body.data, by=caller.actor, reason=body.reason)
    answer = await node.engine.send(
        caller.tenant, instance, event, request_id=request_id, expected_seq=expected_seq
    )
    return standing_reply(answer)


@router.get("", operation_id="list_instances", **READS)
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
) -> Instances:
    """The instances of the caller's tenant, in the order of their creation."""
    if chart is not None:
        node.engine.charts.newest(chart)
    after = (
        None if cursor is None else await readable_place(node, caller, cursor_place(INSTANCES, str, cursor))
    )
    readable = await readable_by(node.engine, caller)
    if caller.actor.own:
        if owner not in {None, caller.actor.id}:
            return Instances(items=[], next=None)
        owner = caller.actor.id

    async def read(count: int) -> Any:
        return await node.engine.list(
            InstanceQuery(
                caller.tenant,
                chart,
                status,
                parent,
                owner=owner,
                ended=ended,
                readable=readable,
                after=after,
                limit=count,
            )
        )

    rows, following = await paged(read, limit, lambda row: cursor_text(INSTANCES, row.id))
    return Instances(items=[InstanceSummary(**summary(row)) for row in rows], next=following)


@router.get("/{instance}", operation_id="get_instance", response_model=Instance, **READS)
async def get_instance(instance: Name, node: Here, caller: Who, request: Request) -> Response:
    """An instance with its states and its context; its `ETag` is its version."""
    row = await readable_row(node.engine, caller, instance)
    tag = {"ETag": f'"{row.seq}"'}
    if request.headers.get("if-none-match") == tag["ETag"]:
        return Response(status_code=304, headers=tag)
    snapshot = stored_snapshot(row)
    if not snapshot.ended:
        node.engine.charts.known(snapshot.chart, snapshot.version)  # else nobody could say what may be shown
    details = {name: getattr(snapshot, name) for name in DETAILS}
    shown = Instance(**summary(row), **details, context=context_of(snapshot, node.engine.charts))
    return json_response(shown, headers=tag)


@router.get("/{instance}/allowed", operation_id="get_allowed_events", **READS)
async def get_allowed(instance: Name, node: Here, caller: Who) -> AllowedEvents:
    """The events that some transition waits for now, whatever its conditions say."""
    row = await readable_row(node.engine, caller, instance)
    snapshot = stored_snapshot(row)
    chart = node.engine.charts.chart(snapshot.chart, snapshot.version)
    active = () if snapshot.ended else chart.configuration(snapshot.states)
    items = [
        AllowedEvent(
            event=each.event,
            by=each.by,
            people=each.people,
            targets=each.targets,
            yours=each.is_for(caller.actor),
        )
        for each in allowed_now(chart, active, snapshot)
    ]
    return AllowedEvents(seq=snapshot.seq, items=items)


@router.get("/{instance}/history", operation_id="get_history", **READS)
async def get_history(
    instance: Name, node: Here, caller: Who, cipher: Cipher, *, cursor: Cursor = None, limit: Limit = PER_PAGE
) -> Lines:
    """What has happened to an instance: who did what and when, the oldest first."""
    after = position_of(HISTORY, cursor, cipher)
    await readable_row(node.engine, caller, instance)

    async def read(count: int) -> Any:
        return await node.engine.history(caller.tenant, instance, after=after, limit=count)

    rows, following = await paged(read, limit, lambda row: position_text(HISTORY, row.position, cipher))
    return Lines(items=[_line(row) for row in rows], next=following)


@router.get("/{instance}/why", operation_id="get_why", **READS)
async def get_why(instance: Name, node: Here, caller: Who) -> WhyShown:
    """What an instance waits for, who or what could move it, and what stands in the way."""
    await readable_row(node.engine, caller, instance)
    readable = await readable_by(node.engine, caller)
    explained = await node.engine.why(caller.tenant, instance, readable=readable)
    if caller.actor.own:
        explained = explained.without_operations()
    return WhyShown(
        text=str(explained),
        stuck=explained.stuck,
        why=to_data(explained.why),
        failure=to_data(explained.failure),
        ending=to_data(explained.ending),
        work=[to_data(each) for each in explained.work],
        children=[*explained.children],
        undelivered=[*explained.undelivered],
    )


@router.post("/{instance}/cancel", operation_id="cancel_instance", **SENDS)
async def cancel_instance(
    instance: Name,
    node: Here,
    caller: Who,
    *,
    request_id: RequestId,
    expected_seq: ExpectedSeq,
    body: CancelBody | None = None,
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
        expected_seq=expected_seq,
    )
    return standing_reply(answer)


def standing_reply(answer: Answer, status: int = 200) -> Reply:
    """Where an instance stands after a call to the engine, with its `ETag`; a new one with its `Location`.

    Raises Problem for a refusal.
    """
    if isinstance(answer, Refusal):
        raise problem_of(answer)
    shown = Standing(
        answer.instance,
        answer.chart,
        answer.version,
        answer.seq,
        answer.status,
        answer.states,
        answer.ended,
    )
    headers = [*JSON_HEADERS, (b"etag", b'"%d"' % shown.seq)]
    if status == CREATED:
        headers.append((b"location", b"/v1/instances/" + quote(shown.id, safe="").encode()))
    return Reply(status, encode(shown), headers)


def summary(row: InstanceRow) -> dict[str, Any]:
    """What a list says of an instance."""
    times = {name: time_text(getattr(row, name)) for name in ("created_at", "updated_at")}
    return {**{name: getattr(row, name) for name in SUMMARY}, **times}


def _check_name(name: str | None) -> None:
    """Raises Problem 422 for a name that no path can hold, or that only a parent gives."""
    if name is not None and (name in UNADDRESSABLE or parent_named(name)):
        raise wrong("body.id", 'it must not be "." or "..", nor have the form of a child\'s name')


def _line(row: HistoryRow) -> Line:
    known = {name: getattr(row, name) for name in LINE}
    note = None if row.note is None else decode(object, row.note)
    since = None if row.since is None else time_text(row.since)
    return Line(**known, at=time_text(row.at), data=data_of(row), note=note, since=since)


async def readable_place(node: Node, caller: Caller, instance: str) -> str:
    """The instance that a cursor names; raises Problem 422 when it is gone: who knows what came after it."""
    try:
        await readable_row(node.engine, caller, instance)
    except UnknownInstanceError as error:
        raise Problem("cursor", "the instance that the cursor names is no longer there") from error
    return instance
