"""`headway init`: the project that it makes is checked, tested and served as it is."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Headway
from tests.cli.running import Running, calls

pytestmark = pytest.mark.mission("ENG-1", "ENG-18", "ENG-20")

FILES = {
    ".gitignore",
    "README.md",
    "headway.toml",
    "pyproject.toml",
    "refunds/__init__.py",
    "refunds/chart.py",
    "refunds/handlers.py",
    "tests/test_refunds.py",
}
BIN = Path(sys.executable).parent
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith(("HEADWAY_", "PYTEST_"))
}
REQUEST = {"chart": "Refund", "context": {"order": "4711", "amount": 30}}


@pytest.fixture
def project(folder: Path, headway: Headway, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new project, as the current folder."""
    outcome = headway("init", "shop")
    assert outcome.code == 0, outcome.err
    assert "cd shop" in outcome.out
    monkeypatch.chdir(folder / "shop")
    yield folder / "shop"
    for name in [name for name in sys.modules if name.partition(".")[0] == "refunds"]:
        del sys.modules[name]


def run(*arguments: str | Path, folder: Path) -> str:
    """What a command prints that must go well."""
    done = subprocess.run(
        arguments, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def contents(folder: Path) -> dict[str, str]:
    """All files of a folder."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_its_files_are_those_of_a_lifecycle(project: Path) -> None:
    """Chart, handlers, tests, settings, and what git ignores; the chart is short."""
    made = contents(project)
    assert made.keys() == FILES
    assert len(made["refunds/chart.py"].splitlines()) <= 45
    for part in ("{owner}", "Ask(", "run="):
        assert part in made["refunds/chart.py"]
    for name in FILES - {".gitignore", "README.md"}:
        assert name in made["README.md"] or name in {"refunds/__init__.py", "pyproject.toml"}


def test_its_chart_is_sound(project: Path) -> None:
    """The checker has nothing to say about it."""
    checked = run(BIN / "headway", "chart", "check", "refunds:Refund", "--strict", folder=project)
    assert "refunds:Refund" in checked


def test_its_tests_pass(project: Path) -> None:
    """In the project's folder, with pytest alone."""
    printed = run(BIN / "pytest", "-p", "no:cacheprovider", folder=project)
    assert "4 passed" in printed


def test_its_code_is_typed_and_formatted(project: Path) -> None:
    """Strict types, and the default style of ruff."""
    run(BIN / "mypy", "--strict", "--cache-dir", os.devnull, ".", folder=project)
    run(BIN / "ruff", "format", "--isolated", "--check", "--no-cache", ".", folder=project)
    run(BIN / "ruff", "check", "--isolated", "--select", "E,F,I,B", "--no-cache", ".", folder=project)


@pytest.mark.parametrize("dev", [(), ("--dev",)], ids=["serve", "dev"])
def test_it_is_served_with_keys(project: Path, headway: Headway, dev: tuple[str, ...]) -> None:
    """With the keys of its README: a customer's refund that no other sees is approved and paid."""
    readme = (project / "README.md").read_text()
    with Running("serve", *dev, "--port", "0", folder=project) as service:
        address = service.ready()
        commands = re.findall(r"^\$ [A-Z]+=\$\(headway (keys create .+)\)$", readme, re.MULTILINE)
        commands.append("keys create bob --kind person --scope own")
        ann, sue, bob = (headway(*line.split()).out.strip() for line in commands)
        with calls(address, ann) as client:
            requested = client.post("/v1/instances", json=REQUEST)
            assert requested.status_code == 201, requested.text
            place = f"/v1/instances/{requested.json()['id']}"
        with calls(address, bob) as client:
            assert client.get(place).status_code == 404
        with calls(address, sue) as client:
            approved = client.post(f"{place}/events", json={"event": "approve"})
            assert approved.status_code == 200, approved.text
        seen = headway("tail", "--since", "0-0", "--count", "3", "--json").out
        assert '"to":"paid"' in seen.splitlines()[-1]
        assert service.end() == 0
    assert "no destination takes" not in "".join(service.errors)


def test_a_command_names_who_may_act(project: Path, headway: Headway) -> None:
    """The operator has no part in a refund: the hint says who has, and not that there is no such refund."""
    assert project.is_dir()
    assert headway("db", "up").code == 0
    assert (
        headway("create", "Refund", "r1", "--context", json.dumps(REQUEST["context"]), "--by", "ann").code
        == 0
    )
    [ask] = json.loads(headway("inbox", "--role", "support", "--json").out)
    for command in (("send", "r1", "approve"), ("answer", ask["id"], "approve"), ("cancel", "r1")):
        outcome = headway(*command)
        assert outcome.code == 2
        assert "operator has no part in r1: use --by and --role" in outcome.err
        assert "support can approve, decline or question; ann can withdraw" in outcome.err
    assert "there is no instance r2" in headway("send", "r2", "approve").err
    assert "there is no ask r1:7:0" in headway("answer", "r1:7:0", "approve").err
    empty = headway("inbox", "--by", "ann")
    assert "The inbox is empty." in empty.out
    assert "--role support" in empty.out
    assert headway("send", "r1", "question", "--by", "sue", "--role", "support").code == 0
    assert "--by ann" in headway("inbox", "--role", "support").out
    assert headway("send", "r1", "withdraw", "--by", "ann").code == 0
    assert headway("inbox", "--by", "ann").out == "The inbox is empty.\n"


def test_git_ignores_what_it_leaves_behind(project: Path) -> None:
    """The database and caches are not offered for a commit."""
    git = shutil.which("git")
    assert git
    run(git, "init", "-q", folder=project)
    run(git, "add", ".", folder=project)
    with Running("serve", "--port", "0", folder=project) as service:
        service.ready()
        assert (project / "headway.db").exists()
        untracked = run(git, "ls-files", "--others", "--exclude-standard", folder=project)
        assert service.end() == 0
    assert untracked == ""


def test_an_empty_folder_may_be_the_current_one(folder: Path, headway: Headway) -> None:
    """Without an argument the project is made here."""
    assert headway("init").code == 0
    assert contents(folder).keys() == FILES


@pytest.mark.parametrize("name", ["x[/b]y", "a shop"])
def test_a_folder_with_an_odd_name_is_named_as_a_shell_reads_it(
    folder: Path, headway: Headway, name: str
) -> None:
    """Brackets are no markup, and what a shell would split is quoted."""
    outcome = headway("init", name)
    assert (outcome.code, outcome.err) == (0, "")
    assert f"cd '{name}'" in outcome.out
    assert contents(folder / name).keys() == FILES


def test_a_new_repository_is_an_empty_folder(folder: Path, headway: Headway) -> None:
    """`git init` first, `headway init` then."""
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main")
    assert headway("init").code == 0
    assert contents(folder).keys() == {*FILES, ".git/HEAD"}


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (".", "the current folder is not empty, so nothing was changed"),
        ("there", "there is not empty, so nothing was changed"),
        ("file", "file is not a folder"),
    ],
)
def test_a_folder_that_is_not_empty_is_left_alone(
    folder: Path, headway: Headway, target: str, said: str
) -> None:
    """Whatever is in it, hidden files too; a file is no folder."""
    (folder / "there").mkdir()
    (folder / "there" / ".keep").write_text("mine")
    (folder / "file").write_text("mine, too")
    before = contents(folder)
    outcome = headway("init", target)
    assert outcome.code == 2
    assert said in outcome.err
    assert contents(folder) == before
