"""A chart that asks people, and one that is told what must not be told on."""

from pydantic import BaseModel, Field

from headway import Ask, Final, State, Statechart, agent, person
from headway.statechart.types import Sensitive

ANN, BOB, CARL = person("ann", "manager"), person("bob", "manager"), person("carl", "clerk")
ROBOT = agent("robot", "manager")


class Verdict(BaseModel):
    """What a manager says."""

    amount: int = Field(ge=0)
    note: str = ""


class Request(BaseModel):
    """What is asked for."""

    purpose: str = "travel"
    amount: int = 100


class Leave(Statechart, context=Request):
    """A request that a manager decides, by a form."""

    review = State(
        initial=True, ask=Ask("manager", form=Verdict, shows=("purpose", "amount"), deadline="30d")
    )
    granted, refused, expired = Final(), Final(), Final()

    grant = review.to(granted, by="manager")
    refuse = review.to(refused, by="manager")
    expire = review.on_deadline.to(expired)


class Account(BaseModel):
    """Where money goes."""

    holder: str
    iban: Sensitive[str]


class Payment(BaseModel):
    """What a payment carries."""

    account: Account
    pin: Sensitive[str]
    note: str = ""


class Purse(BaseModel):
    """What a payment keeps."""

    token: Sensitive[str] = ""
    holder: str = ""


class Transfer(Statechart, context=Purse):
    """A payment that keeps secrets."""

    draft = State(initial=True)
    paying = State(ask=Ask("manager", shows=("token", "holder")))
    done = Final()

    pay = draft.to(paying, takes=Payment, emit="paid", webhook="paid", live="paid")
    settle = paying.to(done, by="manager")


CHARTS = (Leave, Transfer)
