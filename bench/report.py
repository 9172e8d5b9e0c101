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
            {"case": row.case, "system": row.system, "rate": round(row.rate, 1), "unit": row.unit}
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
    lines += ["", "| ratio | measured | target |", "|---|---:|---:|"]
    targets = {ratio.name: _target(ratio) for ratio in suite.ratios}
    lines += [
        f"| `{name}` | {value:.2f} | {targets.get(name, '')} |" for name, value in results["ratios"].items()
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
    ours = {row.case: row.rate for row in outcome.rows if row.system == "headway"}
    styles = _verdicts(suite, outcome)
    case = None
    for row in outcome.rows:
        if case not in (None, row.case):
            table.add_section()
        case = row.case
        own = row.system == "headway"
        ratio = f"{ours[row.case] / row.rate:.2f} x" if row.case in ours and not own else ""
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
    for ratio in suite.ratios:
        if ratio.name in outcome.ratios:
            value = outcome.ratios[ratio.name]
            style = _verdict(ratio, value)
            shown = f"{value:.2f}"
            table.add_row(ratio.name, f"[{style}]{shown}[/]" if style else shown, _target(ratio))
    return table


def _verdicts(suite: Suite, outcome: Outcome) -> dict[tuple[str, str], str]:
    return {
        ratio.over: _verdict(ratio, outcome.ratios[ratio.name])
        for ratio in suite.ratios
        if ratio.name in outcome.ratios and ratio.of[0] == ratio.over[0]
    }


def _verdict(ratio: Ratio, value: float) -> str:
    if ratio.target is None:
        return ""
    return _REACHED if value >= ratio.target else _MISSED


def _target(ratio: Ratio) -> str:
    return "" if ratio.target is None else f"at least {ratio.target:g}"
