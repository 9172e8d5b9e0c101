"""The life of a purchase."""

from __future__ import annotations

from dataclasses import dataclass

from headway import Ask, Final, Retry, State, Statechart, View, any_live


@dataclass
class Request:
    """What somebody wants to buy."""

    item: str
    price: int
    employee: str


def is_small(view: View) -> bool:
    """Nobody has to approve what costs less than a hundred."""
    return bool(view.context.price < 100)  # noqa: PLR2004 - the docstring says what it is


class Purchase(
    Statechart,
    version=1,
    context=Request,
    owner="{employee}",
    cancel="withdraw",
    staff={"manager": 2, "employee": 5},
):
    """A purchase, from the wish to the parcel."""

    wished = State(initial=True, meaning="Somebody wants it.")
    review = State(
        ask=Ask("manager", shows=("item", "price", "employee"), deadline="10m", remind="2m"),
        meaning="A manager has to say yes.",
    )
    ordering = State(
        run="place_order",
        timeout="20s",
        retry=Retry(5, base="1s", factor=2, jitter=0.3),
        meaning="The shop is asked.",
    )
    shipping = State(meaning="The parcel is on its way.", waits_for="the parcel")
    received, rejected, failed, withdrawn = Final(), Final(), Final(), Final()

    small = wished.always.to(ordering, when=is_small)
    ask = wished.always.to(review)
    approve = review.to(ordering, by="manager", emit="purchase.approved")
    reject = review.to(rejected, by="manager", emit="purchase.rejected")
    expire = review.on_deadline.to(rejected)
    ordered = ordering.on_done.to(shipping, webhook="purchase.ordered")
    broken = ordering.on_error.to(failed)
    arrive = shipping.after("5s").to(received, emit="purchase.received")
    withdraw = any_live.to(withdrawn, by=("{owner}", "manager"))
