"""Families whose members clean up when they end, in many worlds."""

from typing import Any

import pytest

from headway import Final, State, Statechart, any_live
from headway.actions import spawn
from headway.engine import batch
from headway.testing.simulate import GuaranteeError, simulate

pytestmark = pytest.mark.mission("ENG-3", "ENG-12")


class Sweep(Statechart):
    """Cleans up, and ends by itself."""

    sweeping, swept = State(initial=True), Final()
    finish = sweeping.after("2s").to(swept)


class Room(Statechart, cancel="stop"):
    """Is swept however it ends."""

    used = State(initial=True)
    left, stopped = Final(entry=spawn("Sweep")), Final(exit=spawn("Sweep"))
    leave = used.after("3s").to(left)
    stop = any_live.to(stopped)


class House(Statechart, cancel="stop"):
    """Has rooms, and ends with the first that ends."""

    open_ = State(initial=True, entry=(spawn("Room"), spawn("Room")))
    shut, stopped = Final(entry=spawn("Sweep")), Final(entry=spawn("Sweep"))
    enlarge = open_.stay(by="owner", do=spawn("Room"))
    shut_ = open_.on("child.changed").to(shut, when="children.left > 0")
    stop = any_live.to(stopped)


CHARTS = (House, Room, Sweep)


def test_those_who_clean_up_are_created_and_not_cancelled() -> None:
    """Whatever dies, each step that ends an instance leaves all the children it has spawned."""
    assert simulate(*CHARTS, seeds=range(40)) == 40


def test_a_child_that_is_dropped_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that creates no children of an ended parent is found out."""
    create = batch.Batch._spawn

    def drop(self: Any, parent: Any, child: Any) -> Any:
        if not self.living[parent].snapshot.ended:
            yield from create(self, parent, child)

    monkeypatch.setattr(batch.Batch, "_spawn", drop)
    with pytest.raises(GuaranteeError, match="counts 3 children, and 2 were created"):
        simulate(*CHARTS, seeds=range(40))
