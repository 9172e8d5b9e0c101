"""How soon `headway serve` answers, and how much memory it takes when nothing happens."""

import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter

import httpx

from bench.engine.places import Places
from bench.harness import Row, WrongResult

PATIENCE = 30.0
LIFECYCLES = ("crawls.crawl", "interviews.interview", "supervision", "task_runs")
RESIDENT = re.compile(r"^VmRSS:\s+(\d+) kB", re.MULTILINE)
FIRST, IDLE = "to the first answer", "idle memory"


class Starting:
    """Starts the service on a new file, waits for its first answer, and ends it."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._memory: list[float] = []
        self._seconds: list[float] = []

    def run(self, cycles: int) -> float:
        """So many starts; answers the seconds until the first answer of each."""
        self._seconds += [self._start() for _ in range(cycles)]
        return sum(self._seconds[-cycles:])

    def verify(self) -> None:
        """It answered, or `run` would have raised."""

    def report(self) -> Sequence[Row]:
        """How long a start took, and the memory of the server after it."""
        found = ((FIRST, sorted(self._seconds), "s"), (IDLE, sorted(self._memory), "MB"))
        return [
            Row("headway serve", what, each[len(each) // 2], unit, (each[-1] - each[0]) / each[0])
            for what, each, unit in found
        ]

    def _start(self) -> float:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        folder = self._places.new_folder()
        served = [part for name in LIFECYCLES for part in ("--lifecycle", name)]
        command = [sys.executable, "-m", "headway", "serve", "--port", str(port), *served]
        database = f"sqlite:///{folder / 'headway.db'}"
        begun = perf_counter()
        with subprocess.Popen(
            [*command, "--database", database],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as server:
            try:
                return self._first_answer(server, f"http://127.0.0.1:{port}/ready") - begun
            finally:
                server.terminate()
                server.wait(PATIENCE)

    def _first_answer(self, server: subprocess.Popen[bytes], url: str) -> float:
        until = perf_counter() + PATIENCE
        with httpx.Client() as client:
            while server.poll() is None and perf_counter() < until:
                with suppress(httpx.TransportError):
                    if client.get(url).status_code == httpx.codes.OK:
                        answered = perf_counter()
                        self._memory.append(_megabytes(server.pid))
                        return answered
        raise WrongResult("headway serve did not answer")


def _megabytes(process: int) -> float:
    found = RESIDENT.search(Path(f"/proc/{process}/status").read_text(encoding="utf-8"))
    return int(found[1]) / 1_024 if found else 0.0
