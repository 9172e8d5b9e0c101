"""The contract is complete, and the tests keep to it."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.coverage_of_mission import CONTRACT, ROOT, contract_rows, marked_rows

NUMBERED = {"ENG-": 24, "APP-T": 9, "APP-P": 17, "TSK-F": 5}
NAMED = """
    APP-REC APP-TIER APP-GATE APP-ENGINE APP-HUMAN APP-PAGES APP-ERR APP-CHK APP-EV APP-WS APP-RUN APP-API
    APP-EXT APP-DUR INT-S INT-T INT-ACT INT-FX INT-A2A INT-SKILL INT-AGENT INT-LIVE INT-CAL SUP-W SUP-WX
    SUP-J SUP-JX SUP-R SUP-API SUP-RUN SUP-M TSK-S TSK-UP TSK-HOOK TSK-LOCK TSK-ERR TSK-EDGE TSK-M TSK-WF
    TSK-API APP-ONCE APP-COPY APP-SITES INT-HUMAN INT-DESK INT-REC CON-TELL CON-CHART CON-INBOX CON-LIFE
    CON-OPS CON-UPG CON-PANEL CON-SAFE CON-FIRST CRW-API CRW-FENCE CRW-POLITE CRW-SAFE CRW-ASK
    CRW-S CRW-RETRY CRW-CODE CRW-BEAT CRW-COUNT CRW-IDEM CRW-RUN CRW-ING CRW-STORE CRW-OBS
"""


def test_the_contract_lists_every_row_exactly_once() -> None:
    """No row is missing, doubled or invented."""
    numbered = [f"{prefix}{number + 1}" for prefix, count in NUMBERED.items() for number in range(count)]
    assert sorted(row for row, _ in contract_rows()) == sorted(numbered + NAMED.split())


def test_markers_name_rows_of_the_contract(request: pytest.FixtureRequest) -> None:
    """No collected test claims to prove a row that does not exist."""
    assert set(marked_rows(request.session.items)) <= {row for row, _ in contract_rows()}


def coverage_of(root: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """Run the report on a small project with two rows and the given tests."""
    (root / CONTRACT).parent.mkdir(parents=True)
    (root / CONTRACT).write_text("| id | promise |\n|---|---|\n| ENG-1 | one |\n| ENG-2 | two |\n")
    (root / "tests").mkdir()
    (root / "tests/test_sample.py").write_text(f"import pytest\n{tests}\n")
    (root / "pytest.ini").write_text("[pytest]\nmarkers = mission\n")
    command = [sys.executable, str(ROOT / "scripts/coverage_of_mission.py"), str(root)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def test_the_report_shows_rows_with_and_without_tests(tmp_path: Path) -> None:
    """Markers of modules and parametrised tests count, and uncovered rows are listed last."""
    report = coverage_of(
        tmp_path,
        'pytestmark = pytest.mark.mission("ENG-2")\n'
        '@pytest.mark.parametrize("n", [1, 2])\n'
        "def test_two(n): ...",
    )
    assert report.returncode == 0, report.stderr
    assert "test_sample.py: test_two (2 cases)" in report.stdout
    assert report.stdout.endswith(
        "Rows without a test:\n  ENG-1  one\n\n1 of 2 rows are proved by a test.\n",
    )


def test_the_report_refuses_an_unknown_row(tmp_path: Path) -> None:
    """A marker with a mistyped row is an error, not a silent gap."""
    report = coverage_of(tmp_path, '@pytest.mark.mission("ENG-99")\ndef test_it(): ...')
    assert report.returncode == 1
    assert "Unknown row 'ENG-99'" in report.stdout


def test_the_report_refuses_tests_that_cannot_be_collected(tmp_path: Path) -> None:
    """A broken test module is shown, because its markers are unknown."""
    report = coverage_of(tmp_path, "import no_such_module")
    assert report.returncode == 1
    assert "no_such_module" in report.stderr
