"""`headway upgrade`: change living instances to a new version of their chart, after a rehearsal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, repeat
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from headway.cli.calls import actor
from headway.cli.db import DEFAULT, Url
from headway.cli.lifecycles import charts_beside, find, named_object
from headway.cli.output import CommandError, as_json, errors_to, out, progress, when, write
from headway.cli.settings import App, Json, settings_of
from headway.codec import to_data
from headway.engine.engine import Engine
from headway.engine.nodes import nodes_without
from headway.engine.upgrade.rehearsal import FITNESS, OccurrencesByKind, Rehearsal, most_common, rehearse
from headway.engine.upgrade.upgrade import Upgraded, undo, upgrade
from headway.errors import EngineError, StoreFullError, StoreUnavailableError, UnboundError
from headway.statechart.chart import Chart
from headway.statechart.export import chart_hash
from headway.statechart.snapshot import Actor
from headway.store.address import store_at

GO_ON = "each instance is either unchanged or upgraded; run the same command again to upgrade the rest"
INTERRUPTED = 130
PAUSES = (1.0, 2.0, 5.0)
"""Seconds to wait before each retry when the database is unavailable; the last one repeats."""
MOST_LINES = 20
FITS = {"same": "green", "mapped": "cyan", "rule": "yellow", "stranded": "bold red"}
FIT = {
    "same": ("same", "nothing changes but the version"),
    "mapped": ("mapped", "carried over by the declared mapping, with the new times and roles"),
    "rule": ("needs a rule", "the new chart does not say how to upgrade them"),
    "stranded": ("would be stranded", "no event could move them any more"),
}


def command(
    chart: Annotated[
        str, typer.Argument(metavar="NAME", help="The new version: a registered name, or module:Class.")
    ],
    *,
    to: Annotated[
        int, typer.Option("--to", min=2, help="The version to upgrade to; the chart must have it.")
    ],
    rehearsal: Annotated[
        bool,
        typer.Option(
            "--rehearse", help="Try the upgrade on every living instance without changing anything."
        ),
    ] = False,
    back: Annotated[
        bool, typer.Option("--undo", help="Undo the upgrade of instances that have not moved since.")
    ] = False,
    database: Url = DEFAULT,
    app: App = None,
    by: Annotated[str, typer.Option("--by", help="Who acts, for the history.")] = "operator",
    reason: Annotated[str | None, typer.Option("--reason", help="The reason, for the history.")] = None,
    replay: Annotated[
        bool, typer.Option("--replay/--no-replay", help="Replay the histories in the new chart too.")
    ] = True,
    facts: Annotated[
        str | None,
        typer.Option(metavar="MODULE:NAME", help="A mapping of facts that no row holds to functions."),
    ] = None,
    json: Json = False,
) -> None:
    """Upgrade living instances to a new version of their chart. Exit code 1: one cannot be upgraded."""
    if rehearsal and back:
        raise CommandError("--rehearse and --undo exclude each other")
    new = find(chart).chart
    if new.version != to:
        raise CommandError(f"{chart} is version {new.version}, not {to}: name the chart that has it")
    beside = charts_beside(chart, settings_of(app=app, database=database))
    given = {**beside.facts, **_facts(facts)}
    task = UpgradeRun(
        new, beside.charts, database, facts=given, by=actor(by, None), reason=reason, quiet=json
    )
    if back:
        _tell(_done(task, task.undo), "brought back", json=json)
        return
    proof = asyncio.run(task.rehearse(replay=replay))
    asyncio.run(task.warn_of_nodes())
    if rehearsal or not proof.ok:
        if json:
            write(as_json(rehearsal_data(proof)))
        else:
            out().print(proof_of(proof))
        if not proof.ok:
            raise typer.Exit(1)
        return
    total = proof.instances + proof.already
    _tell(_done(task, lambda: task.upgrade(total)), "upgraded", json=json)


class UpgradeRun:
    """One run of the command, on a database."""

    def __init__(
        self,
        chart: Chart,
        beside: Sequence[Chart],
        database: str,
        *,
        facts: Mapping[str, Any],
        by: Actor,
        reason: str | None,
        quiet: bool,
    ) -> None:
        self._chart, self._beside, self._database, self._facts = chart, beside, database, facts
        self._by, self._reason, self._quiet = by, reason, quiet

    async def _engine(self) -> Engine:
        """An engine with the charts around it that equal the stored ones: it must not store any."""
        engine = Engine(store_at(self._database), facts=self._facts)
        engine.charts.add(self._chart, without_facts=True)
        stored = await self._stored()
        for each in self._beside:
            if stored.get((each.name, each.version)) == chart_hash(each.model):
                with suppress(EngineError, UnboundError):  # who needs it is told so by the rehearsal
                    engine.charts.add(each)
        return engine

    async def _stored(self) -> dict[tuple[str, int], str]:
        """The versions in the database, with the hash of each."""
        store = store_at(self._database)
        await store.open()
        try:
            return {(row.chart, row.version): row.hash for row in await store.charts.all()}
        finally:
            await store.close()

    async def reach(self) -> None:
        """Raises an error if the database cannot be opened."""
        await self._stored()

    async def rehearse(self, *, replay: bool) -> Rehearsal:
        """Rehearse the upgrade; the version is not stored."""
        engine = await self._engine()
        await engine.store.open()
        try:
            with progress("Rehearsing", None, quiet=self._quiet) as seen:
                return await rehearse(
                    engine, self._chart.name, self._chart.version, replay=replay, progress=seen
                )
        finally:
            await engine.store.close()

    async def warn_of_nodes(self) -> None:
        """Warn of running nodes that do not know the new version."""
        store = store_at(self._database)
        await store.open()
        try:
            alive = await store.nodes.alive()
            without = await nodes_without(store, (self._chart.name, self._chart.version))
        finally:
            await store.close()
        version = f"{self._chart.name} v{self._chart.version}"
        if without and len(without) == len(alive):
            said = f"no living node knows {version}: upgraded instances stand still until one does"
        elif without:
            said = f"{', '.join(without)} do not know {version} and leave upgraded instances to other nodes"
        else:
            return
        errors_to().print(f"[yellow]warning:[/] {escape(said)}", soft_wrap=True)

    async def upgrade(self, total: int) -> Upgraded:
        """Upgrade all instances."""
        async with await self._engine() as engine:
            with progress("Upgrading", total, quiet=self._quiet) as seen:
                return await upgrade(
                    engine,
                    self._chart.name,
                    self._chart.version,
                    by=self._by,
                    reason=self._reason,
                    progress=seen,
                )

    async def undo(self) -> Upgraded:
        """Undo the upgrade."""
        async with await self._engine() as engine:
            with progress("Bringing back", None, quiet=self._quiet) as seen:
                return await undo(
                    engine,
                    self._chart.name,
                    self._chart.version,
                    by=self._by,
                    reason=self._reason,
                    progress=seen,
                )


def _facts(name: str | None) -> Mapping[str, Any]:
    if name is None:
        return {}
    found = named_object(name)
    if isinstance(found, Mapping) and all(map(callable, found.values())):
        return found
    raise CommandError(f"{name} is not a mapping from facts to functions of tenant and snapshot")


def _done(task: UpgradeRun, doing: Callable[[], Awaitable[Upgraded]]) -> Upgraded:
    """The result; an interrupted run prints how to continue."""
    try:
        return asyncio.run(_persist(task, doing))
    except KeyboardInterrupt:
        errors_to().print(f"interrupted: {GO_ON}")
        raise typer.Exit(INTERRUPTED) from None


async def _persist(task: UpgradeRun, doing: Callable[[], Awaitable[Upgraded]]) -> Upgraded:
    """Continue when the database is back; one that is missing at the start is an error."""
    await task.reach()
    pauses = chain(PAUSES, repeat(PAUSES[-1]))
    while True:
        try:
            return await doing()
        except (StoreUnavailableError, StoreFullError) as error:
            pause = next(pauses)
            errors_to().print(f"{error}; going on in {pause:g} s")
            await asyncio.sleep(pause)


def _tell(done: Upgraded, verb: str, *, json: bool) -> None:
    if json:
        write(as_json(to_data(done)))
    else:
        out().print(outcome_of(done, verb))
    if not done.ok:
        raise typer.Exit(1)


MEANINGS = {"safe": "green", "adapts": "yellow", "rule": "bold red"}
MEANT = {"safe": "safe", "adapts": "adapts", "rule": "needs a rule"}
CHANGES = {"added": "+", "removed": "-", "renamed": "→", "changed": "~"}


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
        parts.append(Text(f"The next timer would be due at {when(proof.next_due)}.", "dim"))
    if not proof.ok:
        parts.append(
            Text("Nothing was changed. Declare how to upgrade them in upgrades= of the new chart.", "bold")
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


def _section(title: str, tallies: OccurrencesByKind, style: str) -> list[RenderableType]:
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
    return Group(title, *(Text(f"  {name}  {why}", "red") for name, why in done.failures))


def rehearsal_data(proof: Rehearsal) -> dict[str, Any]:
    """The same as JSON."""
    return {"ok": proof.ok, "instances": proof.instances, **to_data(proof)}
