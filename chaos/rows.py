"""Everything that is in a database, page by page."""

from collections.abc import AsyncIterator

from headway.store.port import Store
from headway.store.queries import MessageQuery
from headway.store.rows import Cursor, InstanceRow, Key, MessageRow

PAGE = 1_000


async def instances(store: Store) -> AsyncIterator[InstanceRow]:
    """All instances of all tenants."""
    after: Key = ("", "")
    while page := await store.instances.names(after, PAGE):
        for key in page:
            row = await store.instances.get(key)
            if row is not None:
                yield row
        after = page[-1]


async def topics(store: Store) -> AsyncIterator[MessageRow]:
    """All messages to topics, in their order."""
    cursor, last = Cursor(), None
    while cursor != last:
        last = cursor
        page = await store.messages.page(MessageQuery(after=cursor, kinds=("topic",), limit=PAGE))
        for message in page.messages:
            yield message
        cursor = page.cursor
