"""Task runs as a lifecycle: the charts, the handlers of a team's runners, and the routes."""

from __future__ import annotations

from importlib.metadata import entry_points

from headway.errors import InputError, shown
from headway.lifecycle import Lifecycle
from headway.lifecycles.task_runs.chart import TaskProcess, TaskRun, WorkflowRun
from headway.lifecycles.task_runs.handlers import handlers_of
from headway.lifecycles.task_runs.runners import Runners

GROUP = "headway.task_runners"
CHARTS = (WorkflowRun, TaskRun, TaskProcess)


def task_runs(runners: Runners) -> Lifecycle:
    """The lifecycle with these runners; without the packages of the service it has no routes."""
    return Lifecycle(CHARTS, handlers_of(runners), routers=_routers(runners))


def registered_runners() -> Runners:
    """The runners of installed packages: entries of the group name a `Runners`. Raises InputError."""
    runners = Runners()
    for point in entry_points(group=GROUP):
        found = point.load()
        if not isinstance(found, Runners):
            raise InputError(f"{point.name} is registered as runners, and names {shown(found)}")
        runners.include(found)
    return runners


def _routers(runners: Runners) -> list[object]:
    try:
        from headway.lifecycles.task_runs.api import router_of  # noqa: PLC0415 - who serves nothing needs none
    except ModuleNotFoundError:
        return []
    return [router_of(runners)]


lifecycle = task_runs(registered_runners())
