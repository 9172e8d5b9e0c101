"""What the routes of workers and of jobs have in common."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.responses import Response

from headway import Event, Refusal, Snapshot
from headway.clock import time_text
from headway.codec import UNSET, decode
from headway.errors import InstanceExistsError, InternalError, UnknownInstanceError
from headway.http import (
    Caller,
    Cipher,
    CursorCipher,
    Here,
    Keyed,
    Problem,
    Who,
    cursor_place,
    cursor_text,
    json_response,
    paged,
    position_of,
    position_text,
    problem_of,
    wrong,
)
from headway.http import KeyedRequest as Request
from headway.lifecycles.supervision.api.shapes import Move
from headway.lifecycles.supervision.chart import Supervisor
from headway.lifecycles.supervision.meters import meters_of
from headway.node import HOUR, HistoryRow, InstanceQuery, InstanceRow, Node, Receipt

Shown = dict[str, Any]
HISTORY = "transitions"
NOTHING_SAID = Move()


class Doing(NamedTuple):
    """The event of an action, and the data that its body may have."""

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

    def __init__(
        self, machine: Machine, caller: Caller, node: Node, *, cipher: CursorCipher, keyed: Request | None
    ) -> None:
        self.machine, self.caller, self.node, self._cipher, self._keyed = machine, caller, node, cipher, keyed

    def shown(self, row: InstanceRow, status: str | None = None) -> Shown:
        """An instance as callers see it, in the status that it had when its answer was decided."""
        shown = self.machine.show(row, decode(Snapshot, row.snapshot))
        return {
            "id": row.id,
            "status": status or row.status,
            **shown,
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

    async def create(self, context: Mapping[str, Any]) -> Response:
        """Begin a life; a repeat of the request finds the one that it has begun."""
        receipt = _taken(
            await self.node.engine.create(
                self.caller.tenant,
                self.machine.prefix + secrets.token_hex(6),
                self.machine.chart,
                context=context,
                by=self.caller.actor,
                request_id=self._part_id("create"),
                unnamed=True,
            )
        )
        return await self.created(receipt.instance)

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

    async def send(self, name: str, event: Event, lasts: timedelta = HOUR) -> Receipt:
        """Send an event; raises Problem when it is refused, which is stored with the answer only."""
        return _taken(
            await self.node.engine.send(
                self.caller.tenant,
                name,
                event,
                request_id=self._part_id("send"),
                lasts=lasts,
                keeps_refusals=False,
            )
        )

    async def move(self, name: str, action: str, body: Move | None) -> Response:
        """Do what an action says; raises Problem 422 for what it does not take."""
        given_body, doing = body or NOTHING_SAID, self.machine.actions[action]
        fields = {*Move.__struct_fields__} - {"reason", "request_id"}
        given = {name for name in fields if getattr(given_body, name) is not UNSET}
        if unwanted := sorted(given - {*doing.takes}):
            raise wrong(f"body.{unwanted[0]}", f"{action} takes no {unwanted[0]}")
        await self.row(name)
        data = {field: getattr(given_body, field) for field in doing.takes if field in given}
        event = Event(
            doing.event, data if doing.takes else None, by=self.caller.actor, reason=given_body.reason
        )
        receipt = await self.send(name, event)
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
        after = position_of(HISTORY, cursor, self._cipher)
        rows, following = await paged(
            lambda most: self.node.engine.history(self.caller.tenant, name, after=after, limit=most),
            limit,
            lambda row: position_text(HISTORY, row.position, self._cipher),
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

    def _part_id(self, part: str) -> str | None:
        return None if self._keyed is None else self._keyed.part_id(part)

    async def _known(self, cursor: str) -> str:
        name = cursor_place(self.machine.chart, str, cursor)
        try:
            await self.row(name)
        except UnknownInstanceError as error:
            raise Problem("cursor", "the instance that the cursor names no longer exists") from error
        return name


def _taken(answer: Receipt | Refusal) -> Receipt:
    if isinstance(answer, Refusal):
        raise problem_of(answer)
    return answer


def calls_on(machine: Machine) -> Callable[..., Any]:
    """A dependency: the calls of a request on one machine."""

    async def calls(node: Here, caller: Who, cipher: Cipher, keyed: Keyed) -> Calls:
        meters_of(node)
        return Calls(machine, caller, node, cipher=cipher, keyed=keyed)

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
