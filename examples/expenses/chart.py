"""The life of an expense claim."""

from headway import Ask, Final, Retry, Run, State, Statechart
from headway.actions import topic


class Expense(Statechart, version=1):
    """An expense claim: a manager decides, then its receipts are paid one after the other."""

    review = State(
        initial=True,
        ask=Ask("manager", deadline="10m", remind="3s", shows=("what", "receipts")),
        entry=topic("expense.submitted"),
    )
    paying = State(
        run=Run("pay", timeout="2m", heartbeat="1s", lease="3s", retry=Retry(5, base="1s", factor=1))
    )
    paid, rejected, failed = Final(), Final(), Final()

    approve = review.to(paying, by="manager", emit="expense.approved")
    reject = review.to(rejected, by="manager", emit="expense.rejected")
    expire = review.on_deadline.to(rejected, emit="expense.rejected")
    done = paying.on_done.to(paid, emit="expense.paid")
    broken = paying.on_error.to(failed, emit="expense.failed")
