"""A command that runs until it is told to end, in a process of its own."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Queue
from typing import IO, Self

import httpx

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60.0
PASSED = 3


def calls(address: str, key: str) -> httpx.Client:
    """A client of a service."""
    return httpx.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=SECONDS)


class Running:
    """A `headway` command: what it prints is kept line by line."""

    def __init__(
        self,
        *arguments: str,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        listening: socket.socket | None = None,
    ) -> None:
        """`listening` is passed on as a service manager does it: as file 3, to this very process."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh", sys.executable, "-m", "headway", *arguments],
            cwd=folder,
            env={**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "140", **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=() if listening is None else (PASSED,),
            preexec_fn=None if listening is None else lambda: os.dup2(listening.fileno(), PASSED),  # noqa: PLW1509
        )
        self.printed = ""
        self.errors: list[str] = []
        self._lines: Queue[str] = Queue()
        self._error_lines: Queue[str] = Queue()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self._lines.put), daemon=True),
            threading.Thread(target=self._read, args=(self.process.stderr, self._keep_error), daemon=True),
        ]
        for reader in self.readers:
            reader.start()

    def _keep_error(self, line: str) -> None:
        self.errors.append(line)
        self._error_lines.put(line)

    @staticmethod
    def _read(stream: IO[str], keep: Callable[[str], None]) -> None:
        for line in stream:
            keep(line)
        keep("")

    def until(self, pattern: str) -> str:
        """What it has printed, when it fits a pattern."""
        while not re.search(pattern, self.printed):
            line = self._lines.get(timeout=SECONDS)
            assert line, f"it ended: {self.printed}{''.join(self.errors)}"
            self.printed += line
        return self.printed

    def until_error(self, pattern: str) -> str:
        """The first error line from here on that fits a pattern."""
        while not re.search(pattern, line := self._error_lines.get(timeout=SECONDS)):
            assert line, f"it ended: {self.printed}{''.join(self.errors)}"
        return line

    def ready(self) -> str:
        """Its address, or nothing, when it is ready."""
        found = re.search(r"http://[^\s/]+", self.until(r"Ctrl-C stops it"))
        return found[0] if found else ""

    @property
    def key(self) -> str:
        """The key that it has printed."""
        found = re.search(r"hw_\w+", self.printed)
        assert found, self.printed
        return found[0]

    def memory(self) -> float:
        """How many megabytes of memory it has."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found
        return int(found[1]) / 1_024

    def processor_time(self) -> float:
        """How many seconds of a processor it has used: who else runs on the machine does not count."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self, number: int = signal.SIGTERM) -> int:
        """Tell it to end, and wait; its exit code, when all that it has said was heard."""
        self.process.send_signal(number)
        code = self.process.wait(SECONDS)
        self.hear_out()
        return code

    def hear_out(self) -> None:
        """Wait until all that it printed was read: until no process can print any more."""
        for reader in self.readers:
            reader.join(SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.hear_out()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
