"""A service in a process of its own that is killed when a certain instance is pushed."""

import asyncio
import json
import os
import signal
import socket
import sys

from headway import State, Statechart, View
from headway.api.access import Access
from headway.api.app import application
from headway.api.server import serving
from headway.node import Node
from tests.api.serving import ROOT, UNHURRIED

DEADLY = "DEADLY"


def die(view: View) -> None:
    """End the process in the middle of a transaction, without a word."""
    if view.instance == os.environ.get(DEADLY):
        os.kill(os.getpid(), signal.SIGKILL)


class Fragile(Statechart):
    """Counts how often it was pushed."""

    standing = State(initial=True)
    push = standing.stay(counts="pushes", do=die)


async def main(database: str) -> None:
    """Serve until the input ends; the first line of output says where, and with which key."""
    async with Node(database, [Fragile]) as node, Access(node.engine.store, rate=UNHURRIED) as access:
        key = await access.keyring.make("default", ROOT, ["operate"])
        listening = socket.create_server(("127.0.0.1", 0))
        async with serving(application(node, access), listening, patience=2):
            told = {"url": f"http://127.0.0.1:{listening.getsockname()[1]}", "key": key.text}
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()
            await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
