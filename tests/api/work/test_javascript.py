"""The worker in JavaScript that the documentation shows, against the real server."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from headway.engine.tenant import until
from tests.api.work.place import WORKER, Place

pytestmark = [
    pytest.mark.mission("ENG-6"),
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
]

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "examples" / "remote-worker" / "worker.mjs"


def test_it_is_short() -> None:
    """The protocol asks so little that a worker fits forty lines."""
    assert len(PROGRAM.read_text(encoding="utf-8").splitlines()) <= 40


async def test_a_worker_in_javascript_does_the_work(place: Place) -> None:
    """It waits for work, does it, tells how far it is, fails what it must, and ends when it is told to."""
    key = (await place.access.keyring.make("acme", WORKER, ("work",))).text
    process = await asyncio.create_subprocess_exec(
        "node", str(PROGRAM), env={**os.environ, "HEADWAY_URL": place.url, "HEADWAY_KEY": key}
    )
    try:
        await place.waiting(1)
        await asyncio.gather(place.pay("a b/c", 10), place.pay("much", 5_000))
        paid, failed = await asyncio.gather(
            *(until(place.node.engine, ("acme", name)) for name in ("a b/c", "much"))
        )
        await place.waiting(1)
        process.terminate()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (paid.state, paid.context["result"]) == ("paid", {"paid": 10})
    assert (failed.state, failed.context["result"]["code"]) == ("failed", "LIMIT")
    lines = await place.node.engine.history("acme", "a b/c")
    assert lines[-1].actor.startswith("payments/javascript-")
