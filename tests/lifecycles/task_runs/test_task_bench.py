"""The suite of task runs measures what it says."""

import json
from pathlib import Path

from bench.__main__ import main
from bench.harness import QUICK
from bench.task_runs.suite import suite


def test_every_row_of_headway_is_measured(tmp_path: Path) -> None:
    """A quick run ends well on both stores, and leaves every ratio that needs no peer."""
    assert main(["task_runs", "--quick", "--output", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "task_runs.json").read_text())
    wanted = {ratio.name for ratio in suite(QUICK).ratios if not ratio.name.startswith("fanout_")}
    assert found["ratios"].keys() == wanted
