"""The handlers of the three kinds of work: each calls a method of the runner that the run names."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from headway.errors import InputError
from headway.lifecycles.task_runs.artifacts import ArtifactTooLargeError, Inheritance, checked_artifacts
from headway.lifecycles.task_runs.rules import TIMEOUT
from headway.lifecycles.task_runs.runners import (
    ProcessTask,
    Runner,
    Runners,
    RunTask,
    TransientError,
    process_data,
)
from headway.worker import Fail, Handlers, Work, failure

Result = dict[str, Any] | Fail
Calling = Callable[[Runners, Work], Awaitable[Result]]
NETWORK = "network_error"
TRANSIENT = (ConnectionError, TimeoutError)


class UnknownRunnerError(InputError):
    """A run names a runner that this process does not have."""

    code = "unknown_runner"


class TookTooLongError(Exception):
    """A method of a runner did not end within its limit."""

    code = TIMEOUT


def handlers_of(runners: Runners) -> Handlers:
    """The handlers of the charts, for these runners."""
    handlers = Handlers()
    for name, calling in CALLING.items():
        handlers.add(name, _handler(calling, runners))
    return handlers


def _handler(calling: Calling, runners: Runners) -> Callable[[Work], Awaitable[Result]]:
    async def handle(work: Work) -> Result:
        try:
            return await calling(runners, work)
        except (ArtifactTooLargeError, InputError) as error:
            return Fail(getattr(error, "code", "invalid_input"), str(error))

    return handle


async def _prepare(runners: Runners, work: Work) -> Result:
    runner, run = await _run_task(runners, work)
    given = Inheritance(run.input_artifacts)
    await _called(work, runner.prepare, run, runner.hook_timeout_seconds)
    return _added(runner, run, given)


async def _after_all(runners: Runners, work: Work) -> Result:
    runner, run = await _run_task(runners, work)
    given = Inheritance(run.input_artifacts)
    artifacts = await _called(work, runner.after_all_completed, run, runner.hook_timeout_seconds)
    return _added(runner, run, given) if run.added else {"artifacts": checked_artifacts(artifacts)}


async def _run(runners: Runners, work: Work) -> Result:
    snapshot = await work.snapshot()
    data = snapshot.context
    runner = _runner(runners, data["runner"])
    process = ProcessTask(work, data, snapshot.counters.get("restart_count", 0))
    try:
        artifacts = await _called(work, runner.run, process, data["timeout_seconds"])
    except Exception as error:  # noqa: BLE001 - a runner may raise anything
        return _failed(runner, error)
    kept = checked_artifacts(artifacts)
    return {"artifacts": kept} if kept else {}


CALLING: dict[str, Calling] = {
    "prepare_task_processes": _prepare,
    "run_process": _run,
    "after_all_processes_completed": _after_all,
}


async def _run_task(runners: Runners, work: Work) -> tuple[Runner, RunTask]:
    data = await work.context()
    return _runner(runners, data["runner"]), RunTask(work, data)


def _added(runner: Runner, run: RunTask, given: Inheritance) -> dict[str, Any]:
    return {"processes": [process_data(each, runner, given) for each in run.added]}


def _runner(runners: Runners, name: str) -> Runner:
    if name not in runners:
        raise UnknownRunnerError(f"no runner here is called {name!r}")
    return runners[name]()


async def _called(
    work: Work, method: Callable[[Any], Any], task: RunTask | ProcessTask, seconds: float
) -> Any:
    """What a method of a runner returns; raises what it raises, and TookTooLongError."""
    # The time counts from here, where a worker has taken the work: waiting in a queue uses up none of it, and
    # a thread begins at once.
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            if _is_async(getattr(method, "__func__", method)):
                return await method(task)
            return await work.in_thread(method, task)
    except Exception as error:
        if limit.expired():
            raise TookTooLongError(f"it took longer than {seconds:g} s") from error
        raise


@cache
def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function)


def _failed(runner: Runner, error: Exception) -> Fail:
    """A transient error by a retryable code, any other one by its own code or class."""
    by_code = isinstance(error, (TransientError, TookTooLongError))
    if by_code or not isinstance(error, (*TRANSIENT, *runner.retryable)):
        return failure(error)
    return Fail(NETWORK, f"{type(error).__name__}: {error}")
