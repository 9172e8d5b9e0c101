"""`headway demo`: a newcomer's first minute, with the real command in a process of its own."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from headway.lifecycles.demo.chart import Purchase
from headway.statechart.check.check import check
from tests.cli.conftest import Headway
from tests.cli.running import ROOT, SECONDS, Running, calls

pytestmark = pytest.mark.mission("ENG-8", "ENG-10", "ENG-15")

SLOWEST_START = 2.0
MOST_MEMORY = 120.0
SLOW_MACHINE = 2.0
"""A processor that runs other tests, too, gets less done in a second."""


def printed_commands(printed: str) -> list[str]:
    """The lines to try."""
    return [line.strip() for line in printed.splitlines() if line.startswith("  ")]


def test_what_it_prints_works_as_printed(folder: Path) -> None:
    """Four commands, copied into a shell as they are, answer."""
    assert shutil.which("curl")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with Running("demo", "--port", "0", folder=folder) as demo:
        address = demo.ready()
        assert address
        commands = printed_commands(demo.printed)
        assert len(commands) == 4
        for command in commands:
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                cwd=folder,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            assert done.stdout
            assert "/problems/" not in done.stdout
        assert demo.end() == 0


def test_it_starts_soon_and_stays_small(folder: Path) -> None:
    """All up to the first answer fits into the promised time, and an idle service needs little memory."""
    with Running("demo", "--no-traffic", "--port", "0", folder=folder) as demo:
        address = demo.ready()
        assert httpx.get(f"{address}/ready", timeout=SECONDS).status_code == 200
        assert demo.processor_time() < SLOWEST_START * SLOW_MACHINE
        assert demo.memory() < MOST_MEMORY
        assert demo.end() == 0


def test_without_traffic_nothing_moves_by_itself(folder: Path, headway: Headway) -> None:
    """Nobody wishes for anything; what a visitor begins runs all the same."""
    with Running("demo", "--no-traffic", "--port", "0", folder=folder) as demo:
        with calls(demo.ready(), demo.key) as client:
            assert client.get("/v1/instances").json()["items"] == []
            wish = {"item": "lamp", "price": 900, "employee": "you"}
            begun = client.post("/v1/instances", json={"chart": "Purchase", "id": "lamp", "context": wish})
            assert begun.status_code == 201
        config = ("--config", "headway-demo/headway.toml")
        [ask] = json.loads(headway("inbox", "--role", "manager", "--json", *config).out)
        assert ask["shows"]["item"] == "lamp"
        assert headway("answer", ask["id"], "reject", "--role", "manager", *config).code == 0
        assert demo.end() == 0


def test_git_sees_nothing_of_its_folder(folder: Path) -> None:
    """In a checkout, the data of the demo are not offered for a commit."""
    git = shutil.which("git")
    assert git
    subprocess.run([git, "init", "-q"], cwd=folder, check=True)
    with Running("demo", "--no-traffic", "--port", "0", folder=folder) as demo:
        demo.ready()
        seen = subprocess.check_output([git, "status", "--porcelain"], cwd=folder, text=True)
        assert (seen, (folder / "headway-demo/headway.db").exists()) == ("", True)
        assert demo.end() == 0


def test_the_chart_is_sound() -> None:
    """The demo shows a chart that the checker has nothing to say about."""
    report = check(Purchase.chart, {"place_order"})
    assert report.ok
    assert not report.findings


def test_make_serve_runs_it() -> None:
    """The first of the two commands of the README starts the demo."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^serve:.*\n\t@scripts/setup serve\n\t\$\(BIN\)/headway demo$", makefile, re.MULTILINE)
