"""Charts that the service of tests runs."""

from pydantic import BaseModel

from headway import Ask, Final, No, State, Statechart, View, any_live


class Claim(BaseModel):
    """What an expense is about."""

    amount: int
    purpose: str = ""


class Decision(BaseModel):
    """What a manager says."""

    note: str = ""


def has_purpose(view: View) -> bool | No:
    """A purpose was named."""
    return bool(view.context.purpose) or No("say what it is for")


class Expense(Statechart, context=Claim, cancel="withdraw"):
    """An expense that a manager decides."""

    draft = State(initial=True)
    review = State(ask=Ask("manager"))
    approved, rejected, withdrawn = Final(), Final(), Final()

    submit = draft.to(review, when=has_purpose)
    approve = review.to(approved, by="manager", takes=Decision)
    reject = review.to(rejected, by="manager", takes=Decision)
    withdraw = any_live.to(withdrawn)


class Counter(Statechart):
    """Turns as long as one likes."""

    on = State(initial=True)
    off = State()
    flip = on.to(off) | off.to(on)


CHARTS = (Expense, Counter)
