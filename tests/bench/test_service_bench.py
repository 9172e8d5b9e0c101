"""The benchmark of the service runs: every event it counts is in the database."""

import shutil

import pytest

from bench.engine.places import Places
from bench.harness import Row
from bench.service.posting import Posting
from bench.service.servers import FASTAPI, HEADWAY
from bench.service.starting import Starting

pytestmark = pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")


@pytest.mark.parametrize(
    ("system", "store"), [(HEADWAY, "sqlite"), (HEADWAY, "postgres"), (FASTAPI, "sqlite")]
)
def test_events_are_posted_and_counted(system: str, store: str) -> None:
    """The load meets no error, and what was answered is there."""
    places = Places()
    try:
        subject = Posting(places, system, store, seconds=1)
        seconds = subject.run(1)
        subject.verify()
        rows = [row.case.rpartition(", ")[2] for row in subject.report()]
    finally:
        places.close()
    assert 0 < seconds < 1
    assert rows == ["p99", "cost of a request"]


def test_a_start_is_timed() -> None:
    """The service starts, answers and ends, and its memory is known."""
    places = Places()
    try:
        subject = Starting(places)
        subject.run(1)
        rows: list[Row] = [*subject.report()]
    finally:
        places.close()
    assert [row.unit for row in rows] == ["s", "MB"]
