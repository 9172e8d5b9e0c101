"""The example of supervision does what it says, and shows it."""

import re
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT


@pytest.mark.mission("SUP-RUN", "SUP-R")
def test_one_of_three_workers_is_killed_and_all_ten_jobs_are_done() -> None:
    """The program kills a real process: ten jobs completed, one worker failed, one in its place."""
    played = subprocess.run(
        [sys.executable, "-m", "examples.supervision"],
        cwd=ROOT,
        env={"COLUMNS": "160", "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert played.returncode == 0, played.stderr
    _, all_done, workers = re.split(r"All done|The workers", played.stdout)
    assert re.search(r"kill -9 (\d+)", played.stdout)
    assert len(re.findall(r"j_\w+ .*COMPLETED", all_done)) == 10
    assert len(re.findall(r"COMPLETED\s+│\s+1 ", all_done)) == 1
    assert len(re.findall(r"w_\S+ .*FAILED", workers)) == 1
    assert len(re.findall(r"w_\S+ .*RUNNING", workers)) == 3
    assert "ended with -9" in workers
