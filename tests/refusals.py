"""The refusals of a tenant's calls as values, for tests that look at them."""

from collections.abc import Awaitable
from typing import cast

from headway import Refusal
from headway.errors import RefusedError
from headway.node import Answer, Receipt


async def answer_to(call: Awaitable[Receipt]) -> Answer:
    """The receipt of a call, or its refusal."""
    try:
        return await call
    except RefusedError as error:
        return cast("Refusal", error.refusal)


async def refusal_of(call: Awaitable[Receipt]) -> Refusal:
    """The refusal of a call, which must be refused."""
    answer = await answer_to(call)
    assert isinstance(answer, Refusal), answer
    return answer
