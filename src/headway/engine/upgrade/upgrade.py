"""Moves living instances to a new version of their chart in batches, and undoes it.

Instances are read page by page, so that memory does not grow with their number. Instances that are upgraded
already are skipped: an interrupted run is continued by running it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import compress

from headway.codec import Scratch, decode
from headway.engine.engine import Engine
from headway.engine.upgrade.activity import acted_anew
from headway.engine.upgrade.versions import Versions, lines_of, pages, prepared
from headway.errors import (
    EngineError,
    UnknownInstanceError,
    UnknownVersionError,
    UpgradeError,
    VersionConflictError,
)
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import SYSTEM, Actor
from headway.statechart.upgrade.instance import UPGRADE, UpgradeRecord
from headway.store.rows import HistoryRow, InstanceRow

ATTEMPTS = 20
MOST_FAILURES = 20

Change = Callable[[InstanceRow], Awaitable[bool]]
Progress = Callable[[int], None]
"""Called with how many instances were gone through, after each page."""


class Upgraded(Scratch):
    """The result: how many instances were upgraded, how many were skipped, and which failed and why."""

    done: int = 0
    passed: int = 0
    failed: int = 0
    failures: list[tuple[str, str]] = []

    @property
    def ok(self) -> bool:
        """Whether none was left behind."""
        return not self.failed

    def fail(self, row: InstanceRow, why: str) -> None:
        """One could not be changed."""
        self.failed += 1
        if len(self.failures) < MOST_FAILURES:
            self.failures.append((f"{row.tenant}/{row.id}", why))


async def upgrade(
    engine: Engine,
    chart: str,
    to: int,
    *,
    by: Actor = SYSTEM,
    reason: str | None = None,
    progress: Progress | None = None,
) -> Upgraded:
    """Bring all living instances of older versions to a version; raises UnknownChartError, ChartChangedError.

    One that cannot be brought there (see `rehearse`) stays as it is.
    """
    versions = Versions(engine, await prepared(engine, chart, to))
    return await _each(engine, chart, _Upgrader(engine, Ordered(to, by, reason), versions), progress)


async def undo(
    engine: Engine,
    chart: str,
    to: int,
    *,
    by: Actor = SYSTEM,
    reason: str | None = None,
    progress: Progress | None = None,
) -> Upgraded:
    """Bring back what was upgraded to a version and has not moved; the rest is passed over.

    Who has moved by itself in the upgrade has moved: what that has led to in the world is not taken back.
    """
    await prepared(engine, chart, to)
    return await _each(engine, chart, _Undoer(engine, Ordered(to, by, reason)), progress)


class Ordered(Scratch):
    """The order: target version, sender and reason."""

    to: int
    by: Actor
    reason: str | None


class _Upgrader:
    """Upgrades instances one by one."""

    def __init__(self, engine: Engine, ordered: Ordered, versions: Versions) -> None:
        self._engine, self._ordered, self._versions = engine, ordered, versions

    async def __call__(self, row: InstanceRow) -> bool:
        """Whether an instance was changed; starts over when it moves meanwhile, so that nothing is lost."""
        engine, ordered = self._engine, self._ordered
        key = (row.tenant, row.id)
        for _ in range(ATTEMPTS):
            if row.ended or row.version >= ordered.to:
                return False
            acted = await acted_anew(engine.store, key, row.version, self._versions)
            try:
                answer = await engine.upgrade(
                    *key, ordered.to, by=ordered.by, reason=ordered.reason, acted=acted, expected_seq=row.seq
                )
            except VersionConflictError:
                row = await engine.row(*key)
                continue
            if isinstance(answer, Refusal):
                raise UpgradeError(key[1], (answer.message,))
            return True
        raise EngineError("it kept changing: run the upgrade again")


class _Undoer:
    """Brings instances back one by one."""

    def __init__(self, engine: Engine, ordered: Ordered) -> None:
        self._engine, self._ordered = engine, ordered

    async def __call__(self, row: InstanceRow) -> bool:
        """Whether an instance was brought back; one that has moved since, or moves meanwhile, is not."""
        engine, ordered = self._engine, self._ordered
        if row.version != ordered.to:
            return False
        key = (row.tenant, row.id)
        record = _record([line async for line in lines_of(engine.store, key) if line.seq == row.seq], row)
        if record is None:
            return False
        try:
            answer = await engine.upgrade(
                *key,
                record.version,
                by=ordered.by,
                reason=ordered.reason,
                record=record,
                expected_seq=row.seq,
            )
        except VersionConflictError:
            return False
        if isinstance(answer, Refusal):
            raise UpgradeError(key[1], (answer.message,))
        return True


def _record(lines: Sequence[HistoryRow], row: InstanceRow) -> UpgradeRecord | None:
    """What the last upgrade has changed, when it was the last step and nothing has followed in it."""
    if len(lines) != 1 or {lines[0].event, lines[0].transition} != {UPGRADE} or lines[0].data is None:
        return None
    record = decode(UpgradeRecord, lines[0].data)
    return record if record.to == row.version else None


async def _each(engine: Engine, chart: str, change: Change, progress: Progress | None) -> Upgraded:
    report = Upgraded()
    seen = 0
    async for page in pages(engine.store, chart):
        early = await asyncio.gather(*(_is_too_early(row, change, report) for row in page))
        for row in compress(page, early):  # by name: a parent comes before its children
            await _change(row, change, report)
        seen += len(page)
        if progress is not None:
            progress(seen)
    return report


async def _is_too_early(row: InstanceRow, change: Change, report: Upgraded) -> bool:
    """Change an instance; True, and nothing has happened, if its parent has a version unknown here as yet."""
    try:
        await _count(row, change, report)
    except UnknownVersionError:
        return True
    except EngineError as error:
        report.fail(row, str(error))
    return False


async def _change(row: InstanceRow, change: Change, report: Upgraded) -> None:
    try:
        await _count(row, change, report)
    except EngineError as error:
        report.fail(row, str(error))


async def _count(row: InstanceRow, change: Change, report: Upgraded) -> None:
    try:
        changed = await change(row)
    except UnknownInstanceError:
        changed = False
    report.done += bool(changed)
    report.passed += not changed
