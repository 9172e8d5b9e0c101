"""What tests wait for: that an engine has committed something."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from headway.engine.engine import Engine
from headway.store.unit import Changes


@contextmanager
def news_of(engine: Engine) -> Iterator[asyncio.Event]:
    """An event that is set with each commit; whoever waits for the next one clears it."""
    changed = asyncio.Event()

    def see(_changes: Changes) -> None:
        changed.set()

    engine.watch(see)
    try:
        yield changed
    finally:
        engine.unwatch(see)
