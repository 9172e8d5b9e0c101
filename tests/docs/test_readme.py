"""The program of the README can be killed after any of its steps, and run again."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import BIN, ROOT, blocks

STEPS = 5
KILLED = """
import builtins, os, runpy, signal, sys

left, show = int(sys.argv[1]), print

def shown(*texts):
    global left
    show(*texts, flush=True)
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

builtins.print = shown
sys.path.insert(0, "")
runpy.run_path("run_expense.py", run_name="__main__")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The folder with the two files of the README."""
    for block in blocks((ROOT / "README.md").read_text(encoding="utf-8")):
        if block.note.startswith("file: "):
            (tmp_path / block.note.removeprefix("file: ")).write_text(block.body, encoding="utf-8")
    return tmp_path


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [BIN / "python", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.mission("ENG-3", "ENG-6")
@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_the_program_goes_on_where_it_was_killed(program: Path, step: int) -> None:
    """The same command again brings the claim to its end, whatever had been done before."""
    killed = run("-c", KILLED, str(step), folder=program)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(killed.stdout.splitlines()) >= step
    again = run("run_expense.py", folder=program)
    assert again.returncode == 0, again.stderr
    assert "exp-7 is in paid, a final state." in again.stdout
