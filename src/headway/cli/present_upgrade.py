"""Differences, rehearsals and upgrades as a terminal shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headway.codec import to_data
from headway.engine.upgrade.rehearsal import FITNESS, Rehearsal, Tallies, most_common
from headway.engine.upgrade.upgrade import Upgraded
from headway.statechart.upgrade.diff import Difference

MOST_LINES = 20
MEANINGS = {"safe": "green", "adapts": "yellow", "rule": "bold red"}
MEANT = {"safe": "safe", "adapts": "adapts", "rule": "needs a rule"}
CHANGES = {"added": "+", "removed": "-", "renamed": "→", "changed": "~"}
FITS = {"same": "green", "mapped": "cyan", "rule": "yellow", "stranded": "bold red"}
FIT = {
    "same": ("same", "nothing changes but the version"),
    "mapped": ("mapped", "carried over: by the declared mapping, and to the new times and roles"),
    "rule": ("needs a rule", "the new chart does not say what becomes of them"),
    "stranded": ("would be stranded", "nothing could move them any more"),
}


def differences_of(names: tuple[str, str], found: Sequence[Difference]) -> RenderableType:
    """The changes from one version to another, with what they mean for those that live."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for head in ("", "What", "Where", "Change", "For living instances"):
        table.add_column(head, overflow="fold")
    for each in found:
        style = MEANINGS[each.meaning]
        means = Text(MEANT[each.meaning], style)
        if each.because:
            means.append(f": {each.because}", "dim")
        table.add_row(
            Text(CHANGES[each.change], style), each.subject, Text(each.name, "bold"), each.said, means
        )
    counts = {word: sum(each.meaning == word for each in found) for word in MEANINGS}
    said = ", ".join(f"{count} {MEANT[word]}" for word, count in counts.items() if count) or "nothing changed"
    mark = ("✗ ", "bold red") if counts["rule"] else ("✓ ", "bold green")
    title = Text.assemble(mark, (f"{names[0]} → {names[1]}", "bold"), f"  {said}")
    return Group(title, *([Padding(table, (0, 0, 0, 2))] if found else []))


def proof_of(proof: Rehearsal) -> RenderableType:
    """What a rehearsal has shown."""
    mark = ("✓ ", "bold green") if proof.ok else ("✗ ", "bold red")
    title = Text.assemble(
        mark, (f"{proof.chart} to version {proof.to}", "bold"), f"  {proof.instances:,} living instances"
    )
    if proof.already:
        title.append(f", {proof.already:,} more have it already", "dim")
    parts: list[RenderableType] = [title, _fitness(proof)]
    parts += _section("In the way", proof.problems, "red")
    parts += _section("What changes", proof.changes, "cyan")
    told = f"Of {proof.lines:,} steps they took, by the new chart" if proof.history else ""
    parts += _section(told, proof.history, "yellow")
    if proof.lines and not proof.history:
        parts.append(Text(f"All {proof.lines:,} steps they took are possible in the new chart.", "green"))
    if proof.due_at_once:
        parts.append(Text(f"{proof.due_at_once:,} timers would be due at once.", "yellow"))
    if proof.next_due is not None:
        parts.append(Text(f"The next timer would be due at {proof.next_due.isoformat()}.", "dim"))
    if not proof.ok:
        parts.append(
            Text("Nothing was changed: say what becomes of them in upgrades= of the new chart.", "bold")
        )
    return Group(*parts)


def _fitness(proof: Rehearsal) -> Table:
    table = _table("Instances", "Are", "", "For example")
    for fit in FITNESS:
        tally = proof.fitness.get(fit)
        if tally is not None:
            word, meaning = FIT[fit]
            table.add_row(
                f"{tally.count:,}", Text(word, FITS[fit]), Text(meaning, "dim"), ", ".join(tally.examples)
            )
    return table


def _section(title: str, tallies: Tallies, style: str) -> list[RenderableType]:
    found = most_common(tallies)
    if not found:
        return []
    table = _table("Instances", title, "For example")
    for kind, tally in found[:MOST_LINES]:
        table.add_row(f"{tally.count:,}", Text(kind, style), ", ".join(tally.examples))
    if len(found) > MOST_LINES:
        table.add_row("", Text(f"and {len(found) - MOST_LINES} more kinds", "dim"), "")
    return [Text(), table]


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for head in heads:
        table.add_column(head, justify="right" if head == "Instances" else "left", overflow="fold")
    return table


def outcome_of(done: Upgraded, verb: str) -> RenderableType:
    """What an upgrade has done."""
    mark = ("✓ ", "bold green") if done.ok else ("✗ ", "bold red")
    title = Text.assemble(mark, f"{done.done:,} {verb}, {done.passed:,} passed over")
    if done.failed:
        title.append(f", {done.failed:,} left as they are", "bold red")
    return Group(title, *(Text(f"  {name}  {why}", "red") for name, why in done.told))


def rehearsal_data(proof: Rehearsal) -> dict[str, Any]:
    """The same as JSON."""
    return {"ok": proof.ok, "instances": proof.instances, **to_data(proof)}
