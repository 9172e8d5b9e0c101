"""Runs commands inside the test's process, in an empty folder, and keeps what they printed."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from headway.cli.main import main


class Outcome(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Headway = Callable[..., Outcome]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to stand in; modules imported from it are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("COLUMNS", "140")
    yield tmp_path
    for name, module in [*sys.modules.items()]:
        if str(tmp_path) in str(getattr(module, "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def headway(folder: Path, capsys: pytest.CaptureFixture[str]) -> Headway:
    """Runs a command as a shell would."""
    assert folder.is_dir()

    def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        printed = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture
def registry(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package that registers charts of its own: a good one and a broken one."""
    package = folder / "installed" / "claims-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: claims\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "[headway.lifecycles]\n"
        "claims.expense = tests.cli.sample:Expense\n"
        "claims.broken = tests.cli.sample:Missing\n"
    )
    monkeypatch.syspath_prepend(package.parent)
    return package
