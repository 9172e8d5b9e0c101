"""A node of supervision in a process of its own, which a test can kill.

usage: python -m tests.lifecycles.supervision.node DATABASE [NAME]
"""

import asyncio
import sys

from tests.lifecycles.supervision.serving import serving


async def serve(database: str, name: str = "") -> None:
    """Serve until the process ends; the first line says where, and with which key."""
    async with serving(database, name=name) as service:
        print(service.url, service.client.headers["Authorization"], flush=True)  # noqa: T201 - the test reads it
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
