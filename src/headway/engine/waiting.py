"""Wait until an instance has come somewhere: for programs that want to go on then."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from headway.engine.engine import Engine
from headway.errors import InputError
from headway.statechart.snapshot import Snapshot
from headway.store.port import Changes
from headway.store.rows import Key

LOOKS_EVERY = 1.0
"""What another process commits is seen after so many seconds at most; what this one commits, at once."""


async def until(engine: Engine, key: Key, states: tuple[str, ...] = ()) -> Snapshot:
    """Wait until an instance is in one of the states, or has ended; raises UnknownInstanceError.

    Raises InputError for a state that the instance's chart does not have.
    """
    moved = asyncio.Event()

    def look(changes: Changes) -> None:
        if any((row.tenant, row.id) == key for row in changes.updated):
            moved.set()

    engine.watch(look)
    try:
        while True:
            moved.clear()
            snapshot = await engine.get(*key)
            if snapshot.ended or _is_in(engine, snapshot, states):
                return snapshot
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOKS_EVERY):
                    await moved.wait()
    finally:
        engine.unwatch(look)


def _is_in(engine: Engine, snapshot: Snapshot, states: tuple[str, ...]) -> bool:
    chart = engine.charts.chart(snapshot.chart, snapshot.version)
    if unknown := [state for state in states if state not in chart.nodes]:
        raise InputError(f"chart {chart.name} has no state {', '.join(map(str, unknown))}")
    return any(node.id in states for node in chart.configuration(snapshot.states))
