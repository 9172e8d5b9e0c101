"""Metrics for Prometheus: all of them for who has the token, a tenant's own for its operators."""

from __future__ import annotations

import hmac
from typing import Annotated

from fastapi import Header, Request
from starlette.responses import Response

from headway.api.access import Access
from headway.api.problems import lacks_scope
from headway.api.route import Front, Router
from headway.telemetry.metrics import CONTENT_TYPE, Metrics, ProcessMetric

router = Router(tags=["health"])

Bearer = Annotated[str | None, Header(alias="Authorization", description="`Bearer` and a token or a key.")]


@router.get("/metrics", operation_id="metrics", response_class=Response)
async def metrics(request: Request, authorization: Bearer = None) -> Response:
    """The metrics of this process, in the text format of Prometheus.

    With the setting `metrics_token` as the bearer token: all of them. With a key that has the scope
    `operate`: those of its tenant.
    """
    shown: Metrics = request.app.state.metrics
    token: str = request.app.state.metrics_token
    given = (authorization or "").encode("utf-8", "surrogateescape")
    if token and hmac.compare_digest(given, f"Bearer {token}".encode()):
        return Response(await shown.text(), media_type=CONTENT_TYPE)
    access: Access = request.app.state.access
    caller = await access.caller(authorization)
    if not caller.may("operate"):
        raise lacks_scope("operate")
    return Response(await shown.text(caller.tenant), media_type=CONTENT_TYPE)


def expose(front: Front, metrics: Metrics, token: str) -> None:
    """Add the route of metrics to a service."""
    state = front.app.state
    state.metrics, state.metrics_token = metrics, token
    metrics.others += [
        ProcessMetric(
            "gauge", "streams_open", "Streams that are open.", "of", lambda: {"all": len(state.streams)}
        ),
        ProcessMetric(
            "counter",
            "streams_refused",
            "Streams refused, by the limit they would have exceeded.",
            "limit",
            lambda: state.streams.refused,
        ),
        ProcessMetric(
            "counter",
            "handshakes_refused",
            "WebSockets closed before their hello to make room, by the limit.",
            "limit",
            lambda: state.handshakes.refused,
        ),
    ]
    front.app.include_router(router)
