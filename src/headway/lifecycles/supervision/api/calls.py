"""What the routes of workers and of jobs have in common."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from headway import Event, Refusal, Snapshot
from headway.api.answers import json_response
from headway.api.caller import Caller
from headway.api.cursors import cursor_place, cursor_text, position_of, position_text
from headway.api.depends import Here, Sealed, Who, paged
from headway.api.problems import Problem, problem_of
from headway.api.requests import REQUEST, request_key, wrong
from headway.api.seals import Seal
from headway.clock import time_text
from headway.codec import decode, encode
from headway.engine.orders import DAY, HOUR, Receipt
from headway.errors import InstanceExistsError, InternalError, UnknownInstanceError
from headway.lifecycles.supervision.api.shapes import Move
from headway.lifecycles.supervision.chart import Supervisor
from headway.lifecycles.supervision.meters import meters_of
from headway.node import Node
from headway.store.queries import InstanceQuery
from headway.store.rows import HistoryRow, InstanceRow

Shown = dict[str, Any]
HISTORY = "transitions"
NOTHING_SAID = Move.model_validate({})


class Doing(NamedTuple):
    """The event that an action is, and what its body may tell."""

    event: str
    takes: tuple[str, ...] = ()


class Machine(NamedTuple):
    """A chart as callers see it: what its ids begin with, what can be done, and how one is shown."""

    chart: str
    prefix: str
    actions: Mapping[str, Doing]
    show: Callable[[InstanceRow, Snapshot], Shown]


class Calls:
    """One request, and what it does to workers or jobs."""

    def __init__(self, machine: Machine, caller: Caller, node: Node, *, seal: Seal, key: str | None) -> None:
        self.machine, self.caller, self.node, self._seal, self._key = machine, caller, node, seal, key

    def shown(self, row: InstanceRow, status: str | None = None) -> Shown:
        """An instance as callers see it, in the status that it had when its answer was decided."""
        told = self.machine.show(row, decode(Snapshot, row.snapshot))
        return {
            "id": row.id,
            "status": status or row.status,
            **told,
            "created_at": time_text(row.created_at),
            "updated_at": time_text(row.updated_at),
        }

    async def row(self, name: str) -> InstanceRow:
        """An instance of the machine; raises UnknownInstanceError, also for one of another."""
        row = await self.node.engine.row(self.caller.tenant, name)
        if row.chart != self.machine.chart:
            raise UnknownInstanceError(f"there is no instance {name}")
        return row

    async def get(self, name: str) -> Response:
        """One of them."""
        return json_response(self.shown(await self.row(name)))

    async def create(self, context: Mapping[str, Any], request_id: str | None) -> Response:
        """Begin a life; the same request begins one, for as long as it is remembered."""
        for turn in count():
            name = self._new_name(request_id, context, turn)
            if await self._is_new(name, context, is_named=(request_id or self._key) is not None):
                break
        return await self.created(name)

    async def _is_new(self, name: str, context: Mapping[str, Any], *, is_named: bool) -> bool:
        """Whether a life has begun by this request: now, or when it came first and was not forgotten yet."""
        engine, tenant = self.node.engine, self.caller.tenant
        try:
            _taken(
                await engine.create(tenant, name, self.machine.chart, context=context, by=self.caller.actor)
            )
        except InstanceExistsError:
            if not is_named:
                raise
            return await engine.store.now() - (await self.row(name)).created_at < DAY
        return True

    async def created(self, name: str) -> Response:
        """One that has just begun, as the answer to its creation."""
        kind = self.machine.chart.rpartition(".")[2]
        return json_response(
            self.shown(await self.row(name)), 201, {"Location": f"/api/{kind}s/{quote(name)}"}
        )

    async def child(self, parent: str, seq: int) -> str:
        """The child that an event has made; the parent has heard of it since, in the same transaction."""
        for step in (seq - 1, seq):
            with suppress(UnknownInstanceError):
                return (await self.row(f"{parent}:{step}:0")).id
        raise InternalError(f"{parent} has made no child")

    async def send(self, name: str, event: Event, request_id: str | None, lasts: timedelta = HOUR) -> Receipt:
        """Send an event; raises Problem when it is refused, which is remembered with the answer only."""
        key = request_id or self._key
        return _taken(
            await self.node.engine.send(
                self.caller.tenant,
                name,
                event,
                request_id=None if key is None else REQUEST + key,
                lasts=lasts,
                keeps_refusals=False,
            )
        )

    async def move(self, name: str, action: str, body: Move | None) -> Response:
        """Do what an action says; raises Problem 422 for what it does not take."""
        told, doing = body or NOTHING_SAID, self.machine.actions[action]
        given = told.model_fields_set - {"reason", "request_id"}
        if unwanted := sorted(given - {*doing.takes}):
            raise wrong(f"body.{unwanted[0]}", f"{action} takes no {unwanted[0]}")
        await self.row(name)
        data = {field: getattr(told, field) for field in doing.takes if field in given}
        event = Event(doing.event, data if doing.takes else None, by=self.caller.actor, reason=told.reason)
        receipt = await self.send(name, event, told.request_id)
        return json_response(self.shown(await self.row(name), receipt.status))

    async def page(
        self, cursor: str | None, limit: int, *, status: str | None = None, parent: str | None = None
    ) -> Response:
        """A page of them, in the order of their creation."""
        after = None if cursor is None else await self._known(cursor)
        query = InstanceQuery(
            self.caller.tenant, self.machine.chart, status, parent, after=after, limit=limit + 1
        )
        rows, following = await paged(
            lambda _most: self.node.engine.list(query),
            limit,
            lambda row: cursor_text(self.machine.chart, row.id),
        )
        return json_response({"items": [self.shown(row) for row in rows], "next": following})

    async def transitions(self, name: str, cursor: str | None, limit: int) -> Response:
        """A page of the changes of one of them; what changed no state is left out."""
        await self.row(name)
        after = position_of(HISTORY, cursor, self._seal)
        rows, following = await paged(
            lambda most: self.node.engine.history(self.caller.tenant, name, after=after, limit=most),
            limit,
            lambda row: position_text(HISTORY, row.position, self._seal),
        )
        items = [_change(row) for row in rows if row.before != row.after]
        return json_response({"items": items, "next": following})

    async def supervisor(self, workspace: str) -> str:
        """The supervisor of a workspace, there from the first call on."""
        engine, tenant, name = self.node.engine, self.caller.tenant, _supervisor_name(workspace)
        try:
            await engine.row(tenant, name)
        except UnknownInstanceError:
            with suppress(InstanceExistsError):
                await engine.create(tenant, name, Supervisor.chart.name, context={"workspace_id": workspace})
        return name

    def _new_name(self, request_id: str | None, context: Mapping[str, Any], turn: int) -> str:
        """A name; that of a request is the same whenever it comes, should its answer not have been kept."""
        key = request_id or self._key
        if key is None:
            return self.machine.prefix + secrets.token_hex(6)
        asked = encode((self.caller.actor.id, self.machine.chart, key, context, *([turn] if turn else [])))
        return self.machine.prefix + sha256(asked).hexdigest()[:24]

    async def _known(self, cursor: str) -> str:
        name = cursor_place(self.machine.chart, str, cursor)
        try:
            await self.row(name)
        except UnknownInstanceError as error:
            raise Problem("cursor", "what the cursor names is no longer there") from error
        return name


def _taken(answer: Receipt | Refusal) -> Receipt:
    if isinstance(answer, Refusal):
        raise problem_of(answer)
    return answer


def calls_on(machine: Machine) -> Callable[..., Any]:
    """A dependency: the calls of a request on one machine."""

    async def calls(request: Request, node: Here, caller: Who, seal: Sealed) -> Calls:
        meters_of(node)
        return Calls(machine, caller, node, seal=seal, key=request_key(dict(request.headers.raw)))

    return calls


def _supervisor_name(workspace: str) -> str:
    """The id begins as a worker's does, because the ids of workers that a supervisor makes begin with it."""
    return f"w_{sha256(f'workspace:{workspace}'.encode()).hexdigest()[:12]}"


def _change(row: HistoryRow) -> Shown:
    return {
        "from_state": row.before or None,
        "to_state": row.after,
        "trigger": row.transition or row.event,
        "actor": row.actor,
        "reason": row.reason,
        "timestamp": time_text(row.at),
    }
