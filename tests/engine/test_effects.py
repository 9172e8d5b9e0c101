"""Every effect of the pure core is carried out by the engine, on every kind of store."""

from datetime import UTC, datetime
from typing import get_args

import pytest

from headway.codec import Plain
from headway.engine.commit import IN_BATCH, WRITERS, Commit, write_effects
from headway.errors import EngineError
from headway.statechart.effects import Effect
from headway.statechart.snapshot import Snapshot
from headway.store.unit import Changes

pytestmark = pytest.mark.mission("ENG-3")


def test_every_effect_has_exactly_one_writer() -> None:
    """The writers and what the batch handles are together all effects, without overlap."""
    assert WRITERS.keys() | IN_BATCH == {*get_args(Effect)}
    assert not WRITERS.keys() & IN_BATCH


class Unknown(Plain):
    """An effect that nobody has written a writer for."""

    id: str = "i:1:0"


def test_an_effect_without_a_writer_is_an_error() -> None:
    """It is not dropped in silence."""
    commit = Commit(Changes(), ("t", "i"), Snapshot("c", 1, "i"), now=datetime.now(UTC), trace=None)
    with pytest.raises(EngineError, match="no writer for the effect Unknown"):
        write_effects(commit, (Unknown(),))  # type: ignore[arg-type]  # on purpose
