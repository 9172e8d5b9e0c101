"""Supervision as a lifecycle: its charts, what its workers do, and its routes."""

from __future__ import annotations

from headway.lifecycle import Lifecycle
from headway.lifecycles.supervision.chart import Job, Supervisor, Worker
from headway.lifecycles.supervision.handlers import MINUTE, handlers_for, read_aloud
from headway.lifecycles.supervision.meters import meter


def supervision(
    perform: str = f"{read_aloud.__module__}:{read_aloud.__name__}", *, carried_every: float = MINUTE
) -> Lifecycle:
    """The lifecycle whose workers perform tasks by a function, named as `module:function`.

    It is called in the process of a worker, with a `Part`, and its result is that of the task. Of its safe
    points, one in `carried_every` seconds outlives the worker and its node.
    """
    return Lifecycle(
        [Worker, Job, Supervisor],
        handlers_for(perform, carried_every),
        routers=_routers(),
        meters=[meter],
    )


def _routers() -> list[object]:
    """The routes; there are none where the packages of the service are not installed."""
    try:
        from headway.lifecycles.supervision.api import jobs, workers  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("headway"):
            raise
        return []
    return [workers.router, jobs.router]


lifecycle = supervision()
