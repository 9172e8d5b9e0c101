"""The benchmarks run: every row of Headway is measured and lands in the results, whatever its speed."""

import json
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.engine.suite import SENDING, suite
from bench.harness import QUICK, Entrant, Plan, Ratio, Suite, Unavailable, WrongResult, measure
from bench.report import document, markdown, reaches
from bench.trust.suite import suite as trust_suite
from tests.store.postgres_server import binaries


class Counting:
    """A subject with a clock of its own."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.runs: list[int] = []

    def run(self, cycles: int) -> float:
        """Say that it took the seconds."""
        self.runs.append(cycles)
        return self.seconds

    def verify(self) -> None:
        """Always right."""


def missing() -> Counting:
    """A system that is not here."""
    raise Unavailable("not installed")


def test_every_row_of_headway_is_measured(tmp_path: Path) -> None:
    """A quick run of the engine suite ends well and leaves every ratio that needs no peer."""
    assert main(["engine", "--quick", "--output", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "engine.json").read_text())
    wanted = {ratio.name for ratio in suite(QUICK).ratios if not ratio.name.startswith("drain_")}
    if not (binaries() / "pgbench").exists():
        wanted -= {ratio.name for ratio in SENDING if "pgbench" in ratio.name}
    assert found["ratios"].keys() == wanted
    assert {row["system"] for row in found["rows"] if row["case"] == "drain"} == {
        "headway, sqlite",
        "headway, postgres",
    }


def test_every_row_of_the_trust_suite_is_measured(tmp_path: Path) -> None:
    """A quick run delivers, follows, rehearses and chains on both stores, and leaves every ratio."""
    assert main(["trust", "--quick", "--output", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "trust.json").read_text())
    assert found["ratios"].keys() == {ratio.name for ratio in trust_suite(QUICK).ratios}


def test_a_fixed_number_of_cycles_is_neither_warmed_up_nor_stretched() -> None:
    """Drains do what they are told in as many rounds, and their own clock counts."""
    subject, closed = Counting(0.5), []
    outcome = measure(
        Suite(
            name="sample",
            title="Sample",
            groups=[
                [
                    Entrant("drain", "headway", lambda: subject, cycles=10, rounds=2),
                    Entrant("drain", "peer", missing, cycles=10, rounds=2),
                ]
            ],
            ratios=[
                Ratio("drain_vs_peer", ("drain", "headway"), ("drain", "peer"), 3.0),
                Ratio("rate", ("drain", "headway"), None, 5.0),
            ],
            close=lambda: closed.append(True),
        ),
        Plan(rounds=5),
        lambda *_: None,
    )
    assert subject.runs == [10, 10]
    assert outcome.ratios == {"rate": 20.0}, "a ratio with a peer that is not there is not invented"
    assert outcome.absent == {"peer": "not installed"}
    assert closed


def test_a_subject_that_goes_wrong_stops_the_run_and_everything_is_closed() -> None:
    """The speed of a wrong result means nothing."""

    class Wrong(Counting):
        def verify(self) -> None:
            raise WrongResult("lost one")

    closed: list[bool] = []
    sample = Suite(
        "sample", "Sample", [[Entrant("c", "s", lambda: Wrong(1))]], [], close=lambda: closed.append(True)
    )
    with pytest.raises(WrongResult, match="s fails c: lost one"):
        measure(sample, QUICK, lambda *_: None)
    assert closed


@pytest.mark.parametrize(
    ("ratio", "value", "verdict"),
    [
        (Ratio("r", ("c", "s"), None), 1.0, None),
        (Ratio("r", ("c", "s"), None, 2.0), 2.0, True),
        (Ratio("r", ("c", "s"), None, 2.0), 1.9, False),
        (Ratio("r", ("c", "s"), None, most=1.2), 1.2, True),
        (Ratio("r", ("c", "s"), None, most=1.2), 1.3, False),
    ],
)
def test_a_target_is_the_least_or_the_most(ratio: Ratio, value: float, *, verdict: bool | None) -> None:
    """A cost must stay below its target, a speed above."""
    assert reaches(ratio, value) is verdict


def test_the_table_of_the_docs_says_target_and_verdict() -> None:
    """What is measured stands beside what was wanted."""
    sample = Suite(
        "sample",
        "Sample",
        [[Entrant("c", "headway", lambda: Counting(0.1), cycles=10)]],
        [Ratio("speed", ("c", "headway"), None, 50.0)],
    )
    results = document(measure(sample, QUICK, lambda *_: None))
    assert "| `speed` | 100.00 | at least 50 | reached |" in markdown(sample, results)
