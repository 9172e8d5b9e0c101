"""The runners of a team, for tests: what each process does stands in its config."""

import asyncio
from collections import Counter
from typing import Any

from headway.errors import InputError
from headway.lifecycles.task_runs.runners import (
    Process,
    ProcessTask,
    Runner,
    Runners,
    RunTask,
    TransientError,
)

runners = Runners()
calls: Counter[str] = Counter()
"""How often each process, by its name, was run; tests clear it."""


@runners("listed")
class Listed(Runner):
    """Runs the processes that its config lists; each waits for a gate, fails, or brings its name out."""

    async def prepare(self, run: RunTask) -> None:
        """One process for each that is listed."""
        _break(run, "prepare")
        for each in run.config.get("processes", []):
            limits = {key: each[key] for key in ("timeout_seconds", "max_retries") if key in each}
            run.add(Process(each["name"], run.input_artifacts, each, **limits))

    async def run(self, process: ProcessTask) -> list[Any]:
        """Do what the config says."""
        calls[process.name] += 1
        does = process.config.get("does", "")
        if does == "tell":
            process.work.progress(0.5, "half of it")
            await asyncio.Event().wait()
        if does == "hang" and process.restarts < process.config.get("times", 99):
            await asyncio.Event().wait()
        if does == "flicker" and process.restarts < process.config["times"]:
            raise TransientError("not yet")
        if does == "fail" and calls[process.name] <= process.config.get("times", 99):
            raise ValueError("no good")
        if does == "large":
            return ["x" * 200_000]
        return [f"{process.name} of {len(process.input_artifacts)}"]

    async def after_all_completed(self, run: RunTask) -> list[Any] | None:
        """Go on with the next phase that is listed; then bring out all that was made."""
        calls["hook"] += 1
        _break(run, "hook")
        more = run.config.get("more", [])
        if run.phase <= len(more):
            run.add(*(Process(name) for name in more[run.phase - 1]))
            return None
        return [item async for each in run.processes() for item in each.artifacts]


def _break(run: RunTask, method: str) -> None:
    if run.config.get("breaks") != method:
        return
    calls[f"{method} called"] += 1
    if calls[f"{method} called"] <= run.config.get("times", 99):
        raise InputError(f"{method} is broken")


@runners("slow")
class Slow(Listed):
    """Hangs in the method that its config names, which has little time."""

    hook_timeout_seconds = 0.05

    async def prepare(self, run: RunTask) -> None:
        """Name what is listed, or hang."""
        await _hang(run, "prepare")
        await super().prepare(run)

    async def after_all_completed(self, run: RunTask) -> list[Any] | None:
        """Bring out what was made, or hang."""
        await _hang(run, "hook")
        return await super().after_all_completed(run)


@runners("patient")
class Patient(Slow):
    """The same with an hour for each."""

    hook_timeout_seconds = 3_600


async def _hang(run: RunTask, method: str) -> None:
    calls[f"{method} hangs"] += 1
    if run.config.get("hangs") == method:
        await asyncio.Event().wait()


@runners("threaded")
class Threaded(Runner):
    """Has no async method, and two errors that are told apart."""

    max_retries = 0
    retryable = (LookupError,)

    def run(self, process: ProcessTask) -> None:
        """Fail in the way that is asked for."""
        raise {"lookup": LookupError, "value": ValueError}[process.config["error"]]("oh")


@runners("nothing")
class Nothing(Runner):
    """Has nothing to do."""

    def prepare(self, run: RunTask) -> None:
        """Name no process."""


@runners("bulky")
class Bulky(Runner):
    """Brings out so many bytes as its config says, or tells how many it got."""

    def run(self, process: ProcessTask) -> list[Any]:
        """In artifacts that are just not too large."""
        if "bytes" in process.config:
            return [
                f"{number} of {process.name}".ljust(process.config["bytes"] // 4 - 2) for number in range(4)
            ]
        return [sum(map(len, process.input_artifacts))]

    async def after_all_completed(self, run: RunTask) -> list[Any]:
        """Bring out all that was made."""
        return [item async for each in run.processes() for item in each.artifacts]


@runners("one-each")
class OneEach(Bulky):
    """Has a process for each artifact."""

    def prepare(self, run: RunTask) -> None:
        """One each."""
        run.add(*(Process(str(number), [item]) for number, item in enumerate(run.input_artifacts)))
