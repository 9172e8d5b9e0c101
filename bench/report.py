"""Show an outcome as a table, keep it as JSON, and copy it into the documentation."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.harness import Outcome, Ratio, Suite

_REACHED, _MISSED = "green", "red"
_VERDICTS = {None: "", True: "reached", False: "missed"}


def show(suite: Suite, outcome: Outcome, console: Console) -> None:
    """Print the rows, the ratios coloured by whether their target is reached, and the notes."""
    console.print(_rows_table(suite, outcome))
    if outcome.ratios:
        console.print(_ratios_table(suite, outcome))
    for system, reason in outcome.absent.items():
        console.print(f"[yellow]{system} was left out:[/] {reason}")
    for note in suite.notes:
        console.print(f"[dim]{note}[/]")


def document(outcome: Outcome) -> dict[str, Any]:
    """The outcome as the JSON document of bench/results: rates and ratios, nothing of the host."""
    return {
        "rows": [
            {
                "case": row.case,
                "system": row.system,
                "rate": round(row.rate, 1),
                "unit": row.unit,
                "spread": round(row.spread, 3),
            }
            for row in outcome.rows
        ],
        "ratios": {name: round(value, 3) for name, value in outcome.ratios.items()},
    }


def write_results(results: Mapping[str, Any], path: Path) -> None:
    """Write a results document, making its folder when it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def markdown(suite: Suite, results: Mapping[str, Any]) -> str:
    """The tables of a results document, as they stand in the documentation."""
    lines = ["| case | system | rate |", "|---|---|---:|"]
    lines += [
        f"| {row['case']} | {row['system']} | {row['rate']:,.0f} {row['unit']} |" for row in results["rows"]
    ]
    lines += ["", "| ratio | measured | target | verdict |", "|---|---:|---:|---|"]
    lines += [
        f"| `{ratio.name}` | {value:,.2f} | {_target(ratio)} | {_VERDICTS[reaches(ratio, value)]} |"
        for ratio in suite.ratios
        if (value := results["ratios"].get(ratio.name)) is not None
    ]
    return "\n".join(lines)


def write_docs(suite: Suite, results: Mapping[str, Any], page: Path) -> None:
    """Replace what stands between the suite's markers in a page.

    Raises ValueError when the page has no such markers.
    """
    begin, end = f"<!-- bench:{suite.name} -->", f"<!-- /bench:{suite.name} -->"
    between = re.compile(f"(?<={re.escape(begin)}\n).*?(?={re.escape(end)})", re.DOTALL)
    text, count = between.subn(lambda _: markdown(suite, results) + "\n", page.read_text(encoding="utf-8"))
    if count != 1:
        raise ValueError(f"{page} needs the markers {begin} and {end} once, each on its own line")
    page.write_text(text, encoding="utf-8")


def _rows_table(suite: Suite, outcome: Outcome) -> Table:
    table = Table(title=suite.title, title_justify="left")
    table.add_column("case")
    table.add_column("system")
    table.add_column("rate", justify="right")
    table.add_column("spread", justify="right", style="dim")
    table.add_column("headway is", justify="right")
    ours = {(row.case, row.unit): row.rate for row in outcome.rows if row.system == "headway"}
    styles = _verdicts(suite, outcome)
    case = None
    for row in outcome.rows:
        if case not in (None, row.case):
            table.add_section()
        case = row.case
        own = row.system == "headway"
        rate = ours.get((row.case, row.unit))
        ratio = f"{rate / row.rate:.2f} x" if rate is not None and not own else ""
        style = styles.get((row.case, row.system), "")
        table.add_row(
            row.case,
            f"[bold]{row.system}[/]" if own else row.system,
            f"{row.rate:,.0f} {row.unit}",
            f"±{row.spread / 2:.0%}",
            f"[{style}]{ratio}[/]" if style and ratio else ratio,
        )
    return table


def _ratios_table(suite: Suite, outcome: Outcome) -> Table:
    table = Table(title="Ratios", title_justify="left")
    table.add_column("ratio")
    table.add_column("measured", justify="right")
    table.add_column("target", justify="right")
    table.add_column("verdict")
    for ratio in suite.ratios:
        if ratio.name in outcome.ratios:
            value = outcome.ratios[ratio.name]
            style = _verdict(ratio, value)
            shown = f"{value:,.2f}"
            coloured = f"[{style}]{shown}[/]" if style else shown
            table.add_row(ratio.name, coloured, _target(ratio), _VERDICTS[reaches(ratio, value)])
    return table


def _verdicts(suite: Suite, outcome: Outcome) -> dict[tuple[str, str], str]:
    return {
        ratio.over: _verdict(ratio, outcome.ratios[ratio.name])
        for ratio in suite.ratios
        if ratio.name in outcome.ratios and ratio.over is not None and ratio.of[0] == ratio.over[0]
    }


def _verdict(ratio: Ratio, value: float) -> str:
    """The colour of a ratio that has a target."""
    reached = reaches(ratio, value)
    return "" if reached is None else _REACHED if reached else _MISSED


def reaches(ratio: Ratio, value: float) -> bool | None:
    """Whether a ratio is where it was wanted; None when nothing is wanted of it."""
    if ratio.target is None and ratio.most is None:
        return None
    return (ratio.target is None or value >= ratio.target) and (ratio.most is None or value <= ratio.most)


def _target(ratio: Ratio) -> str:
    least = "" if ratio.target is None else f"at least {ratio.target:,g}"
    return least or ("" if ratio.most is None else f"at most {ratio.most:g}")
