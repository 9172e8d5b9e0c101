"""Whether the service lives, and whether it can answer."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Request

from headway.api.bodies import ResponseBody
from headway.api.parameters import Here
from headway.api.problems import Problem
from headway.api.route import Router
from headway.codec import Meta

router = Router(tags=["health"])
PROBE = ("", "ready")
"""A name that nobody holds: looking for it asks the database itself."""


class Health(ResponseBody):
    """The service lives."""

    status: Literal["alive"] = "alive"


class UnknownVersionShown(ResponseBody):
    """A version that instances live by and this node does not know, with the living nodes that know it."""

    chart: str
    version: int
    nodes: Annotated[
        list[str], Meta(description="Empty: its instances stand still until a node that knows it runs.")
    ]


class Readiness(ResponseBody):
    """The service can answer."""

    status: Literal["ready"] = "ready"
    unknown_versions: Annotated[
        list[UnknownVersionShown], Meta(description="What this node leaves to others, as of the last minute.")
    ] = []


@router.get("/health", operation_id="health")
async def health() -> Health:
    """Alive: the process answers. Restart it when it does not."""
    return Health()


@router.get("/ready", operation_id="ready")
async def ready(request: Request, node: Here) -> Readiness:
    """Ready: the database can be reached and has the schema of this version. Else 503: ask elsewhere."""
    if request.app.state.stopping.is_set():
        raise Problem("unavailable", "the service is about to stop", headers={"Retry-After": "5"})
    await node.engine.store.leases.get(PROBE)
    unknown = [
        UnknownVersionShown(chart=each.chart, version=each.version, nodes=[*each.nodes])
        for each in node.presence.unknown
    ]
    return Readiness(unknown_versions=unknown)
