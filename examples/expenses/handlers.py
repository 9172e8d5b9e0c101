"""The work of the office: paying a claim."""

import asyncio

from examples.expenses.bank import transfer
from headway.worker import Fail, Handlers, Work

handlers = Handlers()
BUSY = {1: 2, 2: 3}
"""The bank is busy twice: at receipt 2 in the first attempt, and at receipt 3 in the second."""


@handlers
async def pay(work: Work) -> Fail | None:
    """Pay the receipts that no earlier attempt has paid."""
    receipts = (await work.context())["receipts"]
    for number in range((work.checkpointed or 0) + 1, receipts + 1):
        where = f"{work.instance}, attempt {work.attempt}: receipt {number} of {receipts}"
        if BUSY.get(work.attempt) == number:
            print(where, "- the bank is busy", flush=True)
            return Fail("bank_busy", f"at receipt {number}")
        is_new = await asyncio.to_thread(transfer, f"{work.tenant}/{work.id}/{number}")
        print(where, "is paid" if is_new else "was paid already", flush=True)
        await asyncio.sleep(2)  # the worst moment to die: the money is gone, and nobody has noted it
        await work.checkpoint(number)
    return None
