"""A Redis of a test's own: Debian's server on a socket in a folder, which can be killed and started again."""

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

from redis.asyncio import Redis
from redis.exceptions import RedisError


class RedisProcess:
    """A server that keeps its data in its folder, for the length of a block."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        assert program, "there is no redis-server: scripts/setup tests"
        self._folder = folder
        # A socket's path must be short, so it is relative to the folder.
        self._command = [
            program,
            "--port",
            "0",
            "--unixsocket",
            "redis.sock",
            "--appendonly",
            "yes",
            "--save",
            "",
        ]
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End."""
        self.kill()

    async def start(self) -> None:
        """Start on what is in the folder, and wait until it answers."""
        self._spawn()
        async with asyncio.timeout(60):
            while not await self._answers():
                assert self._process.poll() is None, "redis-server has ended"

    def _spawn(self) -> None:
        silent = subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, cwd=self._folder, stdout=silent, stderr=silent)

    def kill(self) -> None:
        """Kill it with no time to say goodbye."""
        self._process.kill()
        self._process.wait()
        self.socket.unlink(missing_ok=True)

    async def ask(self, *command: Any) -> Any:
        """The answer to a command."""
        async with Redis.from_url(self.url, decode_responses=True) as client:
            return await client.execute_command(*command)  # type: ignore[no-untyped-call]  # theirs

    async def _answers(self) -> bool:
        try:
            return bool(await self.ask("PING"))
        except (RedisError, OSError):
            return False
