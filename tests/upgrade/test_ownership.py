"""Ownership through an upgrade: the owner stays, and the new version's people are known from the history."""

import pytest

from headway import Ask, Final, State, Statechart, Upgrade, person
from headway.codec import replace
from headway.engine.asks import Asks
from headway.engine.upgrade.upgrade import upgrade
from headway.errors import UnknownInstanceError
from headway.statechart.refusal import Refusal
from tests.upgrade.world import Played, T, World, went

ANN, BOB = person("ann", "customer"), person("bob", "customer")
SUE, TOM = person("sue", "support"), person("tom", "support")


class Refund(Statechart, owner="{customer}"):
    """A refund that everybody with a role may act on."""

    requested = State(initial=True)
    checked = State(ask=Ask("support"))
    paid = Final()
    check = requested.to(checked, by="support")
    pay = checked.to(paid, by="support")


class OwnedRefund(
    Statechart,
    name="Refund",
    version=2,
    owner="{customer}",
    read_by="support",
    upgrades={1: Upgrade(renames={"check": "look"})},
):
    """A refund that its owner confirms, or whoever has looked at it pays."""

    requested = State(initial=True)
    checked = State(ask=Ask("{owner}", "{look.by}"))
    paid = Final()
    look = requested.to(checked, by="support")
    confirm = checked.to(paid, by="{owner}")
    pay = checked.to(paid, by="{look.by}")


@pytest.mark.mission("ENG-19", "ENG-20")
def test_an_upgrade_keeps_the_owner_and_knows_who_sent_what(played: Played) -> None:
    """An open ask goes to the people of the new version; strangers are refused, or find nothing."""

    async def scenario(world: World) -> None:
        async with world.engine(Refund) as engine:
            for name in ("a", "b"):
                await went(engine.create(T, name, "Refund", context={"customer": "ann"}, by=TOM))
                await went(engine.send(T, name, Refund.check(by=SUE)))
        async with world.engine(Refund, OwnedRefund) as engine:
            assert (await upgrade(engine, "Refund", 2)).done == 2
            asks = Asks(engine)
            listed = {
                each.id: [ask.answers for ask in await asks.inbox(T, each)] for each in (ANN, BOB, SUE, TOM)
            }
            assert listed == {"ann": [("confirm",)] * 2, "bob": [], "sue": [("pay",)] * 2, "tom": []}
            refusal = await engine.send(T, "a", OwnedRefund.pay(by=TOM))
            assert isinstance(refusal, Refusal)
            assert (refusal.code, "sue (the sender of look)" in refusal.message) == ("actor", True)
            for stranger in (BOB, replace(TOM, own=True, id="zoe")):
                with pytest.raises(UnknownInstanceError):
                    await engine.send(T, "a", OwnedRefund.confirm(by=stranger))
            await went(engine.send(T, "a", OwnedRefund.confirm(by=replace(ANN, own=True))))
            await went(engine.send(T, "b", OwnedRefund.pay(by=SUE)))

    played(scenario)
