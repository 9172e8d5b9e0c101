"""The commands about charts: what they print, and with which code they end."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.cli.conftest import Headway

pytestmark = pytest.mark.mission("ENG-18")

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = "tests.cli.sample"
EXPENSE, FLAWED = f"{SAMPLE}:Expense", f"{SAMPLE}:Flawed"


def data_of(text: str) -> Any:
    """The JSON that is all of a text."""
    return json.loads(text)


def test_the_version_is_printed(headway: Headway) -> None:
    """`headway --version` says the program's name and a version."""
    outcome = headway("--version")
    assert outcome.code == 0
    assert outcome.out.startswith("headway ")


@pytest.mark.usefixtures("registry")
def test_registered_charts_are_listed(headway: Headway) -> None:
    """Every registered chart is listed with its size and the first line of its meaning."""
    outcome = headway("charts")
    [line] = [line for line in outcome.out.splitlines() if line.startswith("claims.expense")]
    assert line.rstrip().split(maxsplit=4)[1:] == ["1", "6", "8", "An expense claim, from draft to payment."]
    assert "second paragraph" not in outcome.out


@pytest.mark.usefixtures("registry")
def test_a_broken_registration_hides_no_other(headway: Headway) -> None:
    """A chart that cannot be loaded is listed with the reason, and the command fails."""
    outcome = headway("charts", "--json")
    listed = {each["name"]: each for each in data_of(outcome.out)}
    assert outcome.code == 2
    assert listed["claims.expense"]["states"] == 6
    assert "Missing" in listed["claims.broken"]["error"]


@pytest.mark.usefixtures("registry")
def test_a_registered_name_is_found(headway: Headway) -> None:
    """A registered name means the same as module:Class."""
    assert headway("chart", "draw", "claims.expense").out == headway("chart", "draw", EXPENSE).out != ""


def test_show_prints_states_and_transitions(headway: Headway) -> None:
    """The tree of states says what each waits for; the table says who may do what."""
    outcome = headway("chart", "show", EXPENSE)
    assert outcome.code == 0
    assert "waits for the employee" in outcome.out
    [approve] = [line for line in outcome.out.splitlines() if " approve " in line]
    assert approve.split()[:4] == ["review", "approve", "paying", "manager;"]


def test_show_as_data_names_every_state_and_trigger(headway: Headway) -> None:
    """`chart show --json` prints nothing but JSON."""
    shown = data_of(headway("chart", "show", EXPENSE, "--json").out)
    assert [state["id"] for state in shown["states"]][:3] == ["draft", "review", "paying"]
    triggers = {row["name"]: (row["trigger"], row["trigger_kind"]) for row in shown["transitions"]}
    assert triggers["expire"] == ("deadline 2d", "timer")


def test_a_good_chart_passes_its_check(headway: Headway) -> None:
    """No error: exit code 0, the proved invariant and the accepted finding are told."""
    outcome = headway("chart", "check", EXPENSE)
    assert outcome.code == 0
    assert "proved  invariant  what is paid is no draft" in outcome.out
    assert "accepted: a draft may lie for ever" in outcome.out


def test_a_bad_chart_fails_its_check_with_the_way_there(headway: Headway) -> None:
    """Exit code 1; the dead end and the broken promise come with the shortest path."""
    outcome = headway("chart", "check", EXPENSE, FLAWED)
    assert outcome.code == 1
    assert "refuted  invariant  nobody is trapped" in outcome.out
    assert "path: fall" in outcome.out
    assert "unreachable-state  lost" in outcome.out


def test_a_check_as_data_holds_findings_and_verdicts(headway: Headway) -> None:
    """`chart check --json` prints one report for each chart, and nothing else."""
    outcome = headway("chart", "check", EXPENSE, FLAWED, "--json")
    good, bad = data_of(outcome.out)
    assert (good["ok"], bad["ok"], outcome.code, outcome.err) == (True, False, 1, "")
    assert good["accepted"][0]["because"] == "a draft may lie for ever"
    assert [each["verdict"] for each in good["invariants"] + bad["invariants"]] == ["proved", "refuted"]
    assert ("unreachable-state", "lost") in {(each["id"], each.get("state")) for each in bad["findings"]}


WARNING = """
from headway import Final, State, Statechart
class Waiting(Statechart):
    waiting = State(initial=True)
    over = Final()
    go = waiting.to(over, by="someone")
"""


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--strict",), 1)])
def test_warnings_fail_only_when_asked(
    headway: Headway, folder: Path, options: tuple[str, ...], code: int
) -> None:
    """A warning is told; it fails a check that is strict."""
    (folder / "waiting.py").write_text(WARNING)
    outcome = headway("chart", "check", "waiting:Waiting", *options)
    assert "warning" in outcome.out
    assert outcome.code == code


@pytest.mark.parametrize(
    ("handlers", "code"), [("HANDLERS", 0), ("NAMES", 0), ("NO_HANDLERS", 1), ("NUMBER", 2)]
)
def test_handlers_are_compared_with_the_chart(headway: Headway, handlers: str, code: int) -> None:
    """A mapping or a list of names will do; work without a handler is an error of the chart."""
    assert headway("chart", "check", EXPENSE, "--handlers", f"{SAMPLE}:{handlers}").code == code


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("arguments", [(), (EXPENSE, "--all"), ("--all",)])
def test_check_wants_either_names_or_all(headway: Headway, arguments: tuple[str, ...]) -> None:
    """Nothing to check, twice said what to check, or a registered chart that is broken: exit code 2."""
    assert headway("chart", "check", *arguments).code == 2


def test_drawing_goes_to_the_terminal_as_mermaid(headway: Headway) -> None:
    """Without a file and a format a drawing is Mermaid."""
    assert headway("chart", "draw", EXPENSE).out.startswith(("stateDiagram-v2", "---"))


@pytest.mark.parametrize(
    ("command", "suffix", "begins"),
    [
        ("draw", "svg", b"<?xml"),
        ("draw", "png", b"\x89PNG"),
        ("draw", "dot", b"digraph"),
        ("export", "json", b"{"),
        ("export", "md", b"| State"),
    ],
)
def test_the_suffix_of_the_file_chooses_the_form(
    headway: Headway, folder: Path, command: str, suffix: str, *, begins: bytes
) -> None:
    """`-o chart.svg` needs no format."""
    outcome = headway("chart", command, EXPENSE, "-o", f"chart.{suffix}")
    assert (outcome.code, outcome.out) == (0, "")
    assert (folder / f"chart.{suffix}").read_bytes().startswith(begins)


SCXML = """<scxml xmlns="http://www.w3.org/2005/07/scxml" name="Lamp" version="1.0" initial="off">
<state id="off"><transition event="press" target="on"/></state><final id="on"/></scxml>"""


def test_files_are_charts_too(headway: Headway, folder: Path) -> None:
    """A document that was exported, and SCXML from anywhere, can be named wherever a chart can."""
    headway("chart", "export", EXPENSE, "-o", "chart.json")
    (folder / "lamp.scxml").write_text(SCXML)
    exported, lamp = (
        data_of(headway("chart", "show", name, "--json").out) for name in ("chart.json", "lamp.scxml")
    )
    assert [state["id"] for state in exported["states"]][:3] == ["draft", "review", "paying"]
    assert [state["id"] for state in lamp["states"]] == ["off", "on"]


def test_a_document_fits_the_printed_schema(headway: Headway) -> None:
    """`chart schema` describes what `chart export` writes."""
    schema = data_of(headway("chart", "schema").out)
    Draft202012Validator(schema).validate(data_of(headway("chart", "export", EXPENSE).out))


def test_without_graphviz_the_message_says_what_to_install(
    headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SVG without Graphviz: exit code 2, and the name of the package."""
    monkeypatch.setenv("PATH", "")
    outcome = headway("chart", "draw", EXPENSE, "--format", "svg")
    assert (outcome.code, outcome.out) == (2, "")
    assert "apt-get install graphviz" in outcome.err


MODULES = {
    "raising": "x = 1\ny = x / 0  # the line at fault\n",
    "leaving": "import sys\nsys.exit('no display')\n",
    "unparsable": "class :\n",
    "wanting": "import not_installed_anywhere\n",
    "wrong": "from headway import State, Statechart\nclass Wrong(Statechart):\n    a = State()\n",
}
FILES = {"broken.json": "{", "other.json": '{"a": 1}', "broken.scxml": "<a>", "large.json": " " * 10_000_001}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("claims.expnse", "did you mean claims.expense?"),
        ("Expense", "did you mean claims.expense?"),
        ("nonsense", "a name is a registered name, module:Class"),
        ("no_such_module:Chart", "there is no module 'no_such_module'"),
        (f"{SAMPLE}:Expanse", "did you mean Expense?"),
        (f"{SAMPLE}:NUMBER", "is not a chart but of type int"),
        (":", "is not module:name"),
        ("raising:Chart", "ZeroDivisionError: division by zero\n"),
        ("raising:Chart", "raising.py:2: y = x / 0  # the line at fault"),
        ("leaving:Chart", "SystemExit: no display"),
        ("unparsable:Chart", "unparsable.py:1: class :"),
        ("wanting:Chart", "No module named 'not_installed_anywhere'"),
        ("wrong:Wrong", "chart Wrong has"),
        ("nowhere.json", "nowhere.json cannot be read: No such file"),
        ("broken.json", "broken.json: "),
        ("other.json", "other.json: "),
        ("broken.scxml", "broken.scxml: "),
        ("large.json", "larger than 10 MB"),
    ],
)
@pytest.mark.usefixtures("registry")
def test_a_wrong_name_is_told_in_one_message(headway: Headway, folder: Path, name: str, said: str) -> None:
    """Exit code 2, nothing on stdout, no traceback, and what would help."""
    for module, text in MODULES.items():
        (folder / f"{module}.py").write_text(text)
    for file, text in FILES.items():
        (folder / file).write_text(text)
    outcome = headway("chart", "show", name)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ")
    assert said in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("output", ["no/such/folder/chart.json", "chart.pdf"])
def test_a_file_that_cannot_be_written_is_told(headway: Headway, output: str) -> None:
    """A folder that is not there, a suffix that means nothing: exit code 2 and one message."""
    outcome = headway("chart", "export", EXPENSE, "-o", output)
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")


@pytest.mark.parametrize(
    ("setting", "coloured"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_colour_is_for_terminals(
    headway: Headway, monkeypatch: pytest.MonkeyPatch, setting: dict[str, str], *, coloured: bool
) -> None:
    """A pipe gets plain text; who wants no colour gets none."""
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[94m" in headway("chart", "show", EXPENSE).out) == coloured


def test_commands_about_charts_start_without_a_web_server() -> None:
    """The web server is imported by `serve` alone."""
    code = "import sys, headway.cli.main; print([m for m in ('starlette', 'uvicorn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "arguments", [("schema",), ("draw", EXPENSE), ("show", EXPENSE, "--json"), ("show", EXPENSE)]
)
def test_a_reader_who_leaves_early_gets_no_traceback(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """`headway … | head` ends quietly."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "headway", "chart", *arguments]
    with (tmp_path / "err").open("w+") as err:
        subprocess.run(command, cwd=ROOT, stdout=write, stderr=err, check=False)
        err.seek(0)
        assert err.read() == ""
    os.close(write)
