"""The node of a process, made from settings: its parts, metrics and traces."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Any

from headway.cli.output import CommandError
from headway.clock import milliseconds
from headway.engine.nodes import Announcer
from headway.engine.service import Component
from headway.engine.tail import Tail
from headway.errors import HeadwayError
from headway.lifecycle import Lifecycle
from headway.node import Companion, Node, served_by
from headway.outbox.destination import Destination
from headway.outbox.endpoint import Endpoint
from headway.outbox.relay import Relay
from headway.outbox.untaken import untaken
from headway.settings import Hook, Settings
from headway.statechart.chart import chart_of
from headway.telemetry.counts import Counts
from headway.worker.handlers import observed
from headway.worker.rescue import Rescue, Takeover
from headway.worker.retention import Pruning, Retention
from headway.worker.timers import Timers
from headway.worker.worker import Worker


class ServicePart(StrEnum):
    """A part of the service that a process can run."""

    api = "api"
    worker = "worker"
    relays = "relays"
    timers = "timers"


PARTS: dict[type[Component], ServicePart | None] = {
    Tail: ServicePart.api,
    Worker: ServicePart.worker,
    Takeover: ServicePart.worker,
    Relay: ServicePart.relays,
    Timers: ServicePart.timers,
    Rescue: ServicePart.timers,
    Pruning: ServicePart.timers,
    Announcer: None,
}
"""The part that each background service belongs to; None: to all."""


class PartialNode(Node):
    """A node of which only some parts run."""

    def __init__(
        self,
        *arguments: Any,
        parts: Collection[ServicePart],
        counts: Counts,
        traced: Any = None,
        **more: Any,
    ) -> None:
        """`counts` counts the attempts of its handlers, `traced` makes their spans, if there is tracing."""
        super().__init__(*arguments, **more)
        self._parts, self.counts, self.traced = parts, counts, traced
        self.routers: Sequence[Any] = ()
        self.meters: Sequence[Any] = ()

    @property
    def services(self) -> list[Component]:
        """The background services of this process."""
        return [service for service in super().services if self._part(service) in {None, *self._parts}]

    def _part(self, service: Component) -> ServicePart | None:
        return ServicePart.relays if service is self.mirror else PARTS.get(type(service))


def node_of(
    settings: Settings,
    lifecycle: Lifecycle,
    parts: Collection[ServicePart] = tuple(ServicePart),
    *,
    charts_may_change: bool = False,
) -> PartialNode:
    """The node of a process; raises CommandError for an invalid setting."""
    counts = Counts(settings.metrics_tenants)
    traced = _tracing(settings)
    handlers = observed(lifecycle.handlers, [counts.begin, *([traced.begin] if traced else [])])
    destinations = destinations_of(settings, lifecycle)
    try:
        node = PartialNode(
            settings.database,
            lifecycle.charts,
            handlers=handlers if handlers.names else None,
            destinations=[traced.watch(served_by(each)) for each in destinations] if traced else destinations,
            mirror=_mirror(settings),
            facts=lifecycle.facts,
            secrets=settings.link_secrets,
            retention=Retention(messages=settings.keep_messages, instances=settings.keep_instances or None),
            queues=settings.queues,
            capacity=settings.capacity,
            name=settings.node,
            charts_may_change=charts_may_change,
            parts=parts,
            counts=counts,
            traced=traced,
        )
    except HeadwayError as error:
        raise CommandError(str(error)) from error
    node.routers, node.meters = lifecycle.routers, lifecycle.meters
    if node.worker is None and ServicePart.worker in parts:
        node.engine.handles_here = lambda _queue, _handler: False
    if node.worker is not None:
        node.worker.grace = milliseconds(settings.grace) / 1_000
    return node


def destinations_of(settings: Settings, lifecycle: Lifecycle | None) -> list[Destination | Endpoint]:
    """The destinations of the lifecycle and of the settings; raises InputError."""
    own = lifecycle.destinations if lifecycle is not None else ()
    return [*own, *map(_endpoint, settings.webhooks)]


def untaken_of(settings: Settings, lifecycle: Lifecycle) -> list[str]:
    """The messages of a lifecycle's charts that no destination takes; raises InputError."""
    wanted = [each.filter for each in destinations_of(settings, lifecycle)]
    return untaken(map(chart_of, lifecycle.charts), wanted)


def _endpoint(hook: Hook) -> Endpoint:
    return Endpoint(
        hook.id,
        hook.url,
        hook.secret,
        tenant=hook.tenant,
        events=hook.events,
        allow_private=hook.allow_private,
    )


def _mirror(settings: Settings) -> Companion | None:
    if not settings.redis:
        return None
    try:
        from headway.outbox.mirror import RedisMirror  # noqa: PLC0415 - who has no Redis needs no client of it
    except ModuleNotFoundError as error:
        raise CommandError(f"the setting redis needs {error.name}: pip install 'headway[redis]'") from error
    return RedisMirror(settings.redis)


def _tracing(settings: Settings) -> Any:
    if not settings.otlp:
        return None
    try:
        from headway.telemetry.tracing import Tracing  # noqa: PLC0415 - who traces nothing needs no exporter
    except ModuleNotFoundError as error:
        raise CommandError(f"the setting otlp needs {error.name}: pip install 'headway[tracing]'") from error
    return Tracing.to(settings.otlp)
