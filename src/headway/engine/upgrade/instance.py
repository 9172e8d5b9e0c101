"""One instance becomes one of another version, or is brought back: what the chart says, or why not."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headway.engine.commit import Living
from headway.engine.orders import Upgrading
from headway.errors import UpgradeError
from headway.statechart.chart import Chart
from headway.statechart.step.step import Step
from headway.statechart.upgrade.assessment import outlook
from headway.statechart.upgrade.instance import restore_snapshot


def upgraded(
    living: Living, act: Upgrading, now: Chart, then: Chart, *, at: datetime, facts: Mapping[str, Any]
) -> Step:
    """The step from the version an instance has to the one it is to have; raises UpgradeError."""
    snapshot = living.snapshot
    if snapshot.ended:
        raise UpgradeError(snapshot.instance, ("it has ended",))
    if act.record is not None:
        return restore_snapshot(then, now, snapshot, at, record=act.record, by=act.by, reason=act.reason)
    if snapshot.version >= act.to:
        raise UpgradeError(snapshot.instance, (f"it already has version {snapshot.version}",))
    view = outlook(
        now,
        then,
        snapshot,
        at,
        born=living.created_at,
        facts=facts,
        acted=act.acted,
        by=act.by,
        reason=act.reason,
    )
    if not view.possible or view.step is None:
        raise UpgradeError(snapshot.instance, view.problems)
    return view.step
