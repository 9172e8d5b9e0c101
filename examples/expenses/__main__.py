"""The program: `run` is the office, the rest are short calls by people.

usage: python -m examples.expenses run
       python -m examples.expenses submit "train to Bonn" 4
       python -m examples.expenses inbox | status
       python -m examples.expenses approve | reject | history | why claim-1
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable

from examples.expenses import bank
from examples.expenses.chart import Expense
from examples.expenses.handlers import handlers
from headway import person
from headway.errors import HeadwayError
from headway.node import Node, Tenant
from headway.outbox import Message, Subscriber

DATABASE = "sqlite:///expenses.db"
ANN, BOB = person("ann", "employee"), person("bob", "manager")
NEWS = {
    "expense.submitted": "waits for a manager",
    "ask.reminded": "still waits for a manager",
    "expense.approved": "is approved",
    "expense.rejected": "is rejected",
    "expense.paid": "is paid",
    "expense.failed": "could not be paid",
}


def say(*words: object) -> None:
    """Print at once, also into a pipe."""
    print(*words, flush=True)


async def tell(message: Message) -> None:
    """Say what the chart published."""
    say(message.instance, NEWS[message.name])


async def run() -> None:
    """Work until the process is told to end."""
    news = Subscriber(
        "news", tell, events=["expense.*", "ask.reminded"], kinds=["topic", "live"], begins="first"
    )
    node = Node(DATABASE, [Expense], handlers=handlers, destinations=[news], name="office")
    say("The office opens, process", os.getpid())
    await node.run()


async def submit(office: Tenant, what: str, receipts: str) -> None:
    """Begin a claim."""
    name = f"claim-{len(await office.list()) + 1}"
    say(await office.create(Expense, name, {"what": what, "receipts": int(receipts)}, by=ANN))


async def inbox(office: Tenant) -> None:
    """Show what the manager is asked."""
    for ask in await office.inbox(BOB):
        shown = json.loads(ask.shows)
        say(f"{ask.instance}: {shown['what']}, {shown['receipts']} receipts ({' or '.join(ask.answers)}?)")


async def approve(office: Tenant, claim: str) -> None:
    """Say yes."""
    say(await office.send(claim, Expense.approve(by=BOB)))


async def reject(office: Tenant, claim: str) -> None:
    """Say no."""
    say(await office.send(claim, Expense.reject(by=BOB)))


async def status(office: Tenant) -> None:
    """Show all claims, and what the bank has in its book."""
    for row in await office.list():
        say(f"{row.id} is {row.status}")
    transfers, asked = bank.sums()
    say(f"The bank was asked {asked} times and made {transfers} transfers.")


async def history(office: Tenant, claim: str) -> None:
    """Show how a claim came where it is."""
    for line in await office.history(claim):
        attempt = f"attempt {line.attempt}" if line.attempt else ""
        say(f"{line.event:20}{line.after:10}{attempt}".rstrip())


async def why(office: Tenant, claim: str) -> None:
    """Show what a claim waits for."""
    say(await office.why(claim))


CALLS: dict[str, Callable[..., Awaitable[None]]] = {
    call.__name__: call for call in (submit, inbox, approve, reject, status, history, why)
}


async def call(name: str, *arguments: str) -> None:
    """Open the database, do one thing, and close it: timers and work are left to the office."""
    async with Node(DATABASE, [Expense]).opened() as tenant:
        await CALLS[name](tenant, *arguments)


def main(name: str = "", *arguments: str) -> None:
    """Run the office, or one call."""
    try:
        asyncio.run(run() if name == "run" else call(name, *arguments))
    except HeadwayError as error:
        sys.exit(str(error))
    except (KeyError, TypeError, ValueError):
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
