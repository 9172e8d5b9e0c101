"""A lifecycle for tests of commands: an order that is approved and then paid."""

from headway import Ask, Final, Retry, State, Statechart, any_live
from headway.lifecycle import Lifecycle
from headway.settings import Settings
from headway.worker import Fail, Handlers, Work


class Order(Statechart, version=1, owner="{customer}", cancel="withdraw"):
    """An order."""

    draft = State(initial=True)
    review = State(ask=Ask("manager", shows=("customer",), deadline="2d"))
    paying = State(run="pay", timeout="10s", retry=Retry(3, base="10ms"))
    paid, rejected, failed = Final(), Final(), Final()

    submit = draft.to(review)
    approve = review.to(paying, by="manager", emit="order.approved")
    reject = review.to(rejected, by="manager")
    expire = review.on_deadline.to(rejected)
    done = paying.on_done.to(paid, webhook="order.paid")
    broken = paying.on_error.to(failed)
    withdraw = any_live.to(rejected)


handlers = Handlers()


@handlers
async def pay(work: Work) -> str | Fail:
    """Pay, except what is named to fail once."""
    if work.instance.startswith("flaky") and work.attempt == 1:
        return Fail("BANK_BUSY")
    return "paid"


lifecycle = Lifecycle([Order], handlers)


def made(settings: Settings) -> Lifecycle:
    """A lifecycle that looks at the settings."""
    assert settings.database
    return lifecycle


nothing = 17
