"""`headway upgrade`: living instances come to a new version of their chart, after a rehearsal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, repeat
from typing import Annotated, Any

import typer
from rich.markup import escape

from headway.cli.apps import charts_beside
from headway.cli.catalogue import find, named_object
from headway.cli.charts import Json, write
from headway.cli.db import DEFAULT, Url
from headway.cli.direct import actor
from headway.cli.failure import CommandError
from headway.cli.formats import as_json
from headway.cli.options import App, settings_of
from headway.cli.present import errors_to, out, progress
from headway.cli.present_upgrade import outcome_of, proof_of, rehearsal_data
from headway.codec import to_data
from headway.engine.engine import Engine
from headway.engine.nodes import nodes_without
from headway.engine.upgrade.rehearsal import Rehearsal, rehearse
from headway.engine.upgrade.upgrade import Upgraded, undo, upgrade
from headway.errors import EngineError, StoreFullError, StoreUnavailableError, UnboundError
from headway.statechart.chart import Chart
from headway.statechart.export import chart_hash
from headway.statechart.snapshot import Actor
from headway.store.address import store_at

GO_ON = "each instance is as it was or wholly changed; run the same command again to go on with the rest"
INTERRUPTED = 130
PAUSES = (1.0, 2.0, 5.0)
"""Seconds before it goes on when the database was away; the last one again and again."""


def command(
    chart: Annotated[
        str, typer.Argument(metavar="NAME", help="The new version: a registered name, or module:Class.")
    ],
    *,
    to: Annotated[
        int, typer.Option("--to", min=2, help="The version to upgrade to; the chart must have it.")
    ],
    rehearsal: Annotated[
        bool, typer.Option("--rehearse", help="Try it on every living instance and change nothing.")
    ] = False,
    back: Annotated[
        bool, typer.Option("--undo", help="Bring back what was upgraded to it and has not moved since.")
    ] = False,
    database: Url = DEFAULT,
    app: App = None,
    by: Annotated[str, typer.Option("--by", help="Who does it, for the history.")] = "operator",
    reason: Annotated[str | None, typer.Option("--reason", help="Why, for the history.")] = None,
    replay: Annotated[
        bool, typer.Option("--replay/--no-replay", help="Play the histories through the new chart as well.")
    ] = True,
    facts: Annotated[
        str | None,
        typer.Option(metavar="MODULE:NAME", help="Functions for the facts that stand in no row, by name."),
    ] = None,
    json: Json = False,
) -> None:
    """Bring living instances to a new version of their chart. Exit code 1: one cannot be brought there."""
    if rehearsal and back:
        raise CommandError("--rehearse and --undo do not go together")
    new = find(chart).chart
    if new.version != to:
        raise CommandError(f"{chart} is version {new.version}, not {to}: name the chart that has it")
    beside = charts_beside(chart, settings_of(app=app, database=database))
    given = {**beside.facts, **_facts(facts)}
    task = Task(new, beside.charts, database, facts=given, by=actor(by, None), reason=reason, quiet=json)
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


class Task:
    """What was asked for, on a database."""

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
        """An engine that knows those around as well, if they are as stored: it must not store them."""
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
        """Raises what stands in the way of the database."""
        await self._stored()

    async def rehearse(self, *, replay: bool) -> Rehearsal:
        """Try it; the version is not even stored."""
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
        """Name the living nodes that would leave upgraded instances alone."""
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
        """Do it."""
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
        """Take it back."""
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


def _done(task: Task, doing: Callable[[], Awaitable[Upgraded]]) -> Upgraded:
    """What came of it; whoever is interrupted is told where that leaves everybody."""
    try:
        return asyncio.run(_persist(task, doing))
    except KeyboardInterrupt:
        errors_to().print(f"interrupted: {GO_ON}")
        raise typer.Exit(INTERRUPTED) from None


async def _persist(task: Task, doing: Callable[[], Awaitable[Upgraded]]) -> Upgraded:
    """Go on whenever the database is back; one that is not there to begin with is an error."""
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
