"""Charts for the tests of the command line."""

from dataclasses import dataclass

from headway import Ask, Final, No, Retry, State, Statechart, View, any_live, invariant
from headway.actions import put, spawn

HANDLERS = {"pay": object()}
NAMES = ["pay"]
NO_HANDLERS: list[str] = []
NUMBER = 5


@dataclass
class Claim:
    """What an expense starts with."""

    amount: int = 10
    receipt: str | None = None


@dataclass
class Reason:
    """What a rejection says."""

    text: str


def has_receipt(view: View) -> bool | No:
    """Whether there is something to review."""
    return True if view.context.receipt else No("attach a receipt first")


def in_budget(view: View) -> bool:
    """The budget holds the amount."""
    return bool(view.facts["budget"] >= view.context.amount)


class Expense(
    Statechart,
    context=Claim,
    facts=("budget",),
    accepts={"wait-without-deadline:draft": "a draft may lie for ever"},
    cancel="withdraw",
):
    """An expense claim, from draft to payment.

    The second paragraph is not shown in lists.
    """

    draft = State(initial=True, meaning="being written", waits_for="the employee")
    review = State(ask=Ask("manager", deadline="2d"))
    paying = State(run="pay", retry=Retry(times=1, base="2s"), timeout="60s", progress=(10, 90))
    paid, rejected, withdrawn = Final(), Final(), Final()

    submit = draft.to(review, by="employee", when=(has_receipt, in_budget))
    attach = draft.stay(by="employee", do=put(receipt="scan.pdf"))
    approve = review.to(paying, by="manager", distinct_from="submit")
    reject = review.to(rejected, by="manager", takes=Reason)
    expire = review.on_deadline.to(rejected)
    done = paying.on_done.to(paid)
    broken = paying.on_error.to(rejected)
    withdraw = any_live.to(withdrawn, by="employee")

    @staticmethod
    @invariant("what is paid is no draft")
    def paid_is_final(view: View) -> bool:
        """It is proved."""
        return not (view.in_state("paid") and view.in_state("draft"))


class Flawed(Statechart):
    """Ends nowhere, and breaks its promise."""

    start = State(initial=True)
    trap = State()
    lost = State()
    end = Final()
    fall = start.to(trap)
    finish = lost.to(end)

    @staticmethod
    @invariant("nobody is trapped")
    def free(view: View) -> bool:
        """It is refuted."""
        return not view.in_state("trap")


class Parent(Statechart):
    """Has children, and counts them."""

    idle = State(initial=True)
    busy = State(waits_for="its children")
    over = Final()
    begin = idle.to(busy, do=spawn("Child", number=1))
    all_done = busy.on("child.changed").to(over, when="children.done >= 1")
