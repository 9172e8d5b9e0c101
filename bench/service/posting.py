"""Durable events over HTTP, by wrk on 64 connections."""

import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx

from bench.engine.places import Places
from bench.harness import Row, Unavailable, WrongResult
from bench.service.servers import HEADWAY, INSTANCES

CONNECTIONS = 64
LOAD = Path(__file__).with_name("load.lua")
ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30.0
MILLISECONDS, PROCESSOR = "ms", "us of processor time"


class Posting:
    """A server in a process of its own, and wrk, which sends it events for a while each round."""

    def __init__(self, places: Places, system: str, store: str, *, seconds: int = 3) -> None:
        """Raises Unavailable when there is no wrk."""
        if shutil.which("wrk") is None:
            raise Unavailable("wrk is not installed; on Debian: apt-get install wrk")
        self._case, self._system, self._seconds = f"POST event, {store}", system, seconds
        address = places.place(store).address if system == HEADWAY else ""
        database = address if "://" in address else f"sqlite:///{address}"
        self._server = subprocess.Popen(
            [sys.executable, "-m", "bench.service.servers", system, database],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        places.at_end(self.close)
        assert self._server.stdout is not None  # noqa: S101 - it was opened so
        where = json.loads(self._server.stdout.readline())
        self._url, self._key = f"http://127.0.0.1:{where['port']}", where["key"]
        self._answered = 0
        self._p99: list[float] = []
        self._cost: list[float] = []

    def run(self, cycles: int) -> float:
        """So many runs of wrk; answers the seconds for one request, on the average of all connections."""
        requests, seconds = 0, 0.0
        for _ in range(cycles):
            found = self._wrk()
            requests += found["requests"]
            seconds += found["microseconds"] / 1e6
        return seconds * cycles / requests

    def verify(self) -> None:
        """Every event that was answered is in the database."""
        if self._system != HEADWAY:
            return
        steps, cursor = 0, None
        with httpx.Client(base_url=self._url, headers={"Authorization": f"Bearer {self._key}"}) as client:
            while True:
                query = {"limit": 500, **({"cursor": cursor} if cursor else {})}
                page = client.get("/v1/instances", params=query).json()
                steps += sum(item["seq"] - 1 for item in page["items"])
                if (cursor := page["next"]) is None:
                    break
        if steps < self._answered:
            raise WrongResult(f"{self._answered} events were answered, {steps} are in the database")

    def report(self) -> Sequence[Row]:
        """How long the slowest of a hundred took, and what a request cost the server."""
        found = (
            ("p99", sorted(self._p99), MILLISECONDS),
            ("cost of a request", sorted(self._cost), PROCESSOR),
        )
        return [
            Row(
                f"{self._case}, {what}",
                self._system,
                all_[len(all_) // 2],
                unit,
                (all_[-1] - all_[0]) / all_[0],
            )
            for what, all_, unit in found
        ]

    def close(self) -> None:
        """End the server."""
        self._server.communicate(timeout=PATIENCE)

    def _wrk(self) -> dict[str, int]:
        load = ["-t1", f"-c{CONNECTIONS}", f"-d{self._seconds}s", "-s", str(LOAD), self._url, "--"]
        before = self._processor()
        told = subprocess.run(
            ["wrk", *load, self._key, str(INSTANCES), secrets.token_hex(4)],  # noqa: S607 - wherever it is installed
            capture_output=True,
            check=True,
            text=True,
        )
        cost = self._processor() - before
        found: dict[str, int] = json.loads(told.stdout.rpartition("\n{")[2].join(("{", "")))
        if found["failed"] or not found["requests"]:
            raise WrongResult(f"{found['failed']} of {found['requests']} requests failed")
        self._answered += found["requests"]
        self._p99.append(found["p99"] / 1_000)
        self._cost.append(cost / found["requests"])
        return found

    def _processor(self) -> float:
        """Microseconds of processor time that the server has used."""
        fields = Path(f"/proc/{self._server.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 10_000.0
