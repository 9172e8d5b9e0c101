"""The mutation run finds what tests notice and what they do not, and leaves the project as it is."""

from pathlib import Path

import pytest

from scripts.mutants.__main__ import main
from scripts.mutants.code import mutants_of

LEDGER = '''"""Ages."""


def is_old(age: int) -> bool:
    """Whether it is old."""
    return age >= 10
'''
SEEN = "from tiny.part.ledger import is_old\n\ndef test_it():\n    assert is_old(10) and not is_old(9)\n"
HALF = "from tiny.part.ledger import is_old\n\ndef test_it():\n    assert is_old(20) and not is_old(5)\n"
UNSTEADY = """
from pathlib import Path
from tiny.part.ledger import is_old

def test_it():
    count = Path("count.txt")
    count.write_text((count.read_text() if count.exists() else "") + "x")
    is_old(20)
    assert len(count.read_text()) % 2 == 1
"""


def changed(source: str) -> list[str]:
    """The line that each mutant changes, as it is then."""
    before = source.splitlines()
    return [
        line.strip()
        for mutant in mutants_of("a.py", source)
        for line in [each for each in mutant.applied(source).splitlines() if each not in before][:1]
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(a):\n    return a < 2 and g(a)", ["a <= 2 and", "< 3 and", "a < 2 or g(a)", "return None"]),
        ("def f(a):\n    if not a:\n        self.b = 1", ["if (a):", "if (not (not a)):", "pass"]),
        ("def f(a):\n    a.run()\n    a.n += 1", ["pass", "a.n += 2", "pass"]),
        ("def f(a):\n    a.chmod(0o600)", [f"chmod({0o622})"]),
        ("def f(a):\n    return a + 1 if a else True", ["a - 1", "else False", "(not (a))"]),
        (
            "Q = 'SELECT a FROM b WHERE tenant = ? AND due <= ?'",
            ["due < ?", "((tenant = ?) IS NULL OR true)"],
        ),
        ("KEPT_FOR = 24 * 3600\nclass A:\n    at_once: int = 0", ["2 * (24 * 3600)", "at_once: int = 1"]),
        ("Q = f'SELECT min(a) FROM b WHERE a IS NULL AND b > {NOW}'", ["max(a)", "IS NOT NULL", ">= {NOW}"]),
    ],
)
def test_code_is_changed_in_meaning(source: str, expected: list[str]) -> None:
    """Boundaries, signs, conditions, constants, statements, results and SQL."""
    lines = changed(source)
    assert [text for text in expected if not any(text in line for line in lines)] == []


@pytest.mark.parametrize(
    "source",
    [
        '"""Docstring with SELECT a WHERE b = c."""',
        "PAGE = 500\nLARGEST_BODY = 64 * 1024\nFIRST_PAUSE: float = 0.1",
        "def f(a: Literal[1] = ...) -> int:\n    '''Text.'''",
        "def f():\n    LOG.warning('%s', a)",
        "def f(a):\n    if a > 1:\n        LOG.warning('%s', a)",
        "def f(a):\n    assert a",
        "NAME = Path(max_length=500)",
        "class A:\n    def __init__(self):\n        self.name = 'a'",
        "class A:\n    def __repr__(self):\n        return 'a' * 2",
    ],
)
def test_what_no_test_can_notice_is_not_changed(source: str) -> None:
    """Docstrings, numbers for tuning, annotations, log lines, assertions, `__repr__`, first values."""
    assert changed(source) == []


@pytest.mark.parametrize(
    ("tests", "survived"),
    [(SEEN, 0), (HALF, 2), (UNSTEADY, 3)],
    ids=["at the boundary", "far from it", "fails every other time"],
)
def test_a_run_tells_killed_from_survived(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    tests: str,
    survived: int,
) -> None:
    """A boundary that no test looks at survives, with its difference; the run leaves the code as it was.

    A failure that does not repeat is no sign of the change.
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    code = tmp_path / "src/tiny/part/ledger.py"
    code.parent.mkdir(parents=True)
    (code.parent.parent / "__init__.py").touch()
    code.write_text(LEDGER)
    (tmp_path / "tests/unit").mkdir(parents=True)
    (tmp_path / "tests/unit/test_ledger.py").write_text(tests)
    (tmp_path / "pytest.ini").touch()
    options = [
        "--project",
        str(tmp_path),
        "--package",
        "tiny",
        "--parts",
        "part",
        "--tests",
        "unit",
        "--jobs",
        "1",
    ]
    assert main([*options, "--most", "0"]) == bool(survived)
    shown = capsys.readouterr().out
    assert f"{3 - survived} killed, 0 timeout, 0 refused, {survived} survived" in shown
    assert ("+    return age > 10" in shown) == bool(survived)
    assert code.read_text() == LEDGER
