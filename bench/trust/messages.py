"""The messages of the trust suite: copies of one that a real transition has written."""

from collections.abc import Iterator
from datetime import datetime
from itertools import count

from bench.engine.charts import GO, TENANT
from bench.engine.places import Places
from bench.engine.sends import check, create, name_of
from headway.codec import replace
from headway.engine.engine import Engine
from headway.store.queries import MessageQuery
from headway.store.rows import MessageRow
from tests.outbox.world import Publication

INSTANCES = 1_000
AT_ONCE = 5_000
NUMBERS = count()


async def sample(engine: Engine) -> MessageRow:
    """The message of the first step of an instance."""
    await create(engine, "Ring", ["ring"])
    check([await engine.send(TENANT, "ring", GO)])
    [row] = (await engine.store.messages.page(MessageQuery())).messages
    return row


def copies(row: MessageRow, number: int, at: datetime) -> Iterator[list[MessageRow]]:
    """So many messages of many instances, in parts; no two are the same."""
    for first in range(0, number, AT_ONCE):
        yield [_copy(row, at) for _ in range(first, min(first + AT_ONCE, number))]


def _copy(row: MessageRow, at: datetime) -> MessageRow:
    number = next(NUMBERS)
    instance = name_of("ring", number % INSTANCES)
    text = (row.data or "").replace('"ring"', f'"{instance}"', 1)
    return replace(row, id=f"{instance}:{number}:0", instance=instance, data=text, at=at, position=number)


async def publish(engine: Engine, row: MessageRow, number: int) -> None:
    """Write so many messages to the outbox."""
    for some in copies(row, number, await engine.store.now()):
        await engine.store.run(Publication(some))


def of_a_transition(places: Places) -> MessageRow:
    """A message that a real transition has written."""
    return places.run(sample(places.open(places.sqlite())))
