"""What is released: the content of the wheel, and the Python versions that are tested."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.check_package import NEEDED, problems_of

ROOT = Path(__file__).resolve().parents[2]
WHOLE = [*NEEDED, "headway-0.1.0.dist-info/licenses/LICENSE"]


def test_a_complete_wheel_has_no_problems() -> None:
    """The files that a wheel needs are enough."""
    assert problems_of(WHOLE) == []


@pytest.mark.parametrize("name", WHOLE)
def test_a_missing_file_is_a_problem(name: str) -> None:
    """Each file that programs load at run time is looked for."""
    assert len(problems_of([each for each in WHOLE if each != name])) == 1


@pytest.mark.parametrize("name", ["tests/test_clock.py", "headway/__pycache__/node.pyc"])
def test_a_foreign_file_is_a_problem(name: str) -> None:
    """Neither tests nor caches are shipped."""
    assert len(problems_of([*WHOLE, name])) == 1


@pytest.mark.parametrize("name", NEEDED)
def test_the_files_that_a_wheel_needs_exist(name: str) -> None:
    """A file that is renamed must be renamed in the check, too."""
    assert (ROOT / "src" / name).is_file()


def test_the_workflow_tests_each_python_version_that_the_package_names() -> None:
    """The classifiers promise what continuous integration runs."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    [matrix] = re.findall(r"python: \[(.+)\]", workflow)
    assert re.findall(r"3\.\d+", matrix) == re.findall(r"Python :: (3\.\d+)", project)


ABSENT = ("fcntl", "resource", "pwd", "grp", "termios")
"""Modules that Windows does not have."""


def test_the_core_needs_no_module_that_windows_lacks() -> None:
    """A program that uses the core alone runs there."""
    code = f"import sys; sys.modules |= dict.fromkeys({ABSENT}); import headway, headway.statechart"
    subprocess.run([sys.executable, "-c", code], check=True)
