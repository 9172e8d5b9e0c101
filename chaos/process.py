"""`python -m chaos.process SETTING`: one process of a run, in the role that its setting names."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from json import loads
from typing import Any

from chaos import client, sender, worker
from chaos.berth import Berth, Setting

ROLES: dict[str, Callable[[Berth], Coroutine[Any, Any, None]]] = {
    "sender": sender.run,
    "client": client.run,
    "keeper": worker.keep,
    "worker": worker.work,
}


def main(setting: str) -> None:
    """Play a role to its end."""
    berth = Berth(Setting(**loads(setting)))
    asyncio.run(_play(berth))


async def _play(berth: Berth) -> None:
    # Nothing ever comes in but the end, when the conductor is no more: then there is nobody to work for.
    asyncio.get_running_loop().add_reader(sys.stdin, os._exit, 1)
    await ROLES[berth.setting.role](berth)


if __name__ == "__main__":
    main(sys.argv[-1])
