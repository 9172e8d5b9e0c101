"""The simulator checks ownership: end users try what is not theirs, and each broken rule is found."""

from collections.abc import Callable
from typing import Any

import pytest

from headway.codec import replace
from headway.engine.asks import Inbox
from headway.engine.visibility import Visibility
from headway.statechart.step import selection, step
from headway.testing.simulate import GuaranteeError, Scenario, World, simulate
from headway.testing.simulate.charts import OWNED

pytestmark = pytest.mark.mission("ENG-20", "ENG-8", "ENG-19")
WORLDS, ENOUGH = 60, 100
Patch = pytest.MonkeyPatch


def nothing(*_args: Any, **_named: Any) -> None:
    """Do nothing."""


def everybody_fires(patch: Patch) -> None:
    """A transition for one person is taken from anybody."""
    patch.setattr(selection, "may_fire", lambda *_: True)


def own_actors_reach_everything(patch: Patch) -> None:
    """Who reaches only their own moves others' instances by their roles."""
    patch.setattr(step, "concerns", lambda *_: True)


def own_actors_create_for_others(patch: Patch) -> None:
    """Who reaches only their own begins what is somebody else's."""
    patch.setattr(step, "_must_own", nothing)


def everybody_reads(patch: Patch) -> None:
    """An instance is shown to who may not read it."""

    async def shown(*_: Any) -> bool:
        return True

    patch.setattr(Visibility, "may_read", shown)


def inboxes_show_what_is_for_roles(patch: Patch) -> None:
    """The inbox of an end user has what everybody of their roles is asked."""
    named = Inbox._named

    async def careless(self: Any, tenant: str, actor: Any, *page: Any) -> Any:
        other = "bob" if actor.id == "ann" else "ann"
        return await named(self, tenant, replace(actor, id=other), *page)

    async def all_answers(_self: Any, rows: Any, _actor: Any) -> Any:
        return {row.id: row.answers for row in rows}

    patch.setattr(Inbox, "_named", careless)
    patch.setattr(Inbox, "answers", all_answers)


BUGS: list[Callable[[Patch], None]] = [
    everybody_fires,
    own_actors_reach_everything,
    own_actors_create_for_others,
    everybody_reads,
    inboxes_show_what_is_for_roles,
]


@pytest.mark.parametrize("share", range(3))
def test_nobody_moves_answers_claims_or_reads_what_is_not_theirs(share: int) -> None:
    """In many worlds, with crashes and upgrades, whoever acted or read was allowed to."""
    assert simulate(*OWNED, seeds=range(share, WORLDS, 3)) == WORLDS // 3


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_of_ownership_is_found(bug: Callable[[Patch], None], monkeypatch: Patch) -> None:
    """Each rule that is broken is noticed."""
    bug(monkeypatch)
    with pytest.raises(GuaranteeError):
        simulate(*OWNED, seeds=range(ENOUGH))


def test_end_users_try_a_lot() -> None:
    """They are refused as strangers, send what is theirs, and read what is theirs and what is not."""
    scenario = Scenario(OWNED)
    seen = ""
    for seed in range(25):
        world = World(seed, scenario)
        world.run()
        seen += "\n".join(world.trace.lines)
    for words in (
        " hidden at ",
        " shown at ",
        "UnknownInstanceError",
        "ask.delegate",
        "(agree)",
        "by ann",
        "mal reads",
    ):
        assert words in seen, words
