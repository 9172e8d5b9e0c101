"""Calls of commands to a database: opened for one call, without running timers and work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import typer

from headway.cli.lifecycles import HOW_TO_LOAD, apps_of
from headway.cli.output import CommandError, as_json, listed, out, write
from headway.codec import decode, to_data
from headway.engine.orders import Answer, Receipt
from headway.engine.tenant import Tenant
from headway.errors import (
    HeadwayError,
    InputError,
    RefusedError,
    UnknownAskError,
    UnknownChartError,
    UnknownInstanceError,
)
from headway.lifecycle import Lifecycle
from headway.node import Node
from headway.settings import Settings
from headway.statechart.explain import Why
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Actor, person
from headway.store.address import sqlite_path
from headway.store.sqlite.connection import MEMORY

T = TypeVar("T")


def with_node(
    settings: Settings,
    call: Callable[[Node], Awaitable[T]],
    *,
    charts: bool = False,
    chart: str | None = None,
) -> T:
    """The result of a call on the node of the settings, with or without its charts; raises CommandError.

    A `chart` must be one of them, which is checked before the database is opened.
    """
    lifecycle = apps_of(settings).lifecycle if charts or chart is not None else Lifecycle()

    async def run() -> T:
        node = Node(settings.database, lifecycle.charts, facts=lifecycle.facts, secrets=settings.link_secrets)
        if chart is not None:
            node.engine.charts.newest(chart)
        require_database(settings)
        async with node.opened():
            return await call(node)

    try:
        return asyncio.run(run())
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    except UnknownChartError as error:
        raise CommandError(f"{error}\n{HOW_TO_LOAD}") from error
    except HeadwayError as error:
        raise CommandError(str(error)) from error


def with_tenant(
    settings: Settings,
    call: Callable[[Tenant], Awaitable[T]],
    *,
    charts: bool = False,
    chart: str | None = None,
) -> T:
    """The same for one tenant."""
    return with_node(settings, lambda node: call(node.tenant(settings.tenant)), charts=charts, chart=chart)


def require_database(settings: Settings) -> None:
    """Raises CommandError for a missing SQLite file: a command that only reads must not create one."""
    path = sqlite_path(settings.database)
    if path not in {None, MEMORY} and not Path(str(path)).exists():
        raise CommandError(
            f"there is no database {path}: create it with headway serve or headway db up,"
            " or name another one with --database or in headway.toml"
        )


def actor(by: str, roles: list[str] | None) -> Actor:
    """The person who acts on the command line; raises CommandError for an invalid id."""
    try:
        return person(by, *(roles or ()))
    except InputError as error:
        raise CommandError(str(error)) from error


def data_of(text: str | None, what: str) -> Any:
    """The JSON of an option; raises CommandError."""
    if text is None:
        return None
    try:
        return decode(object, text)
    except HeadwayError as error:
        raise CommandError(f"{what} is not JSON: {str(error).partition(': ')[2]}") from error


def _who_can_act(why: Why) -> str:
    """Which roles and people can do what, as in "support can approve or decline; ann can withdraw"."""
    events: dict[str, dict[str, None]] = {}
    for way in why.ways:
        who = way.only_for or " or ".join((*way.people, *way.by))
        if who:
            events.setdefault(who, {}).update(dict.fromkeys(way.events))
    return "; ".join(f"{who} can {listed(names)}" for who, names in events.items())


def tell_answer(
    settings: Settings,
    call: Callable[[Tenant], Awaitable[Receipt]],
    *,
    by: Actor,
    instance: str | None = None,
    ask: str | None = None,
    chart: str | None = None,
    json: bool,
) -> None:
    """Make a call to the lifecycles of the settings and print its answer; exit code 1 when it was refused.

    `instance` or `ask` is what an existing row is moved by: if the chart hides it from the actor, the error
    says so, because this command's user can read it anyway.
    """

    async def answered(here: Tenant) -> Answer:
        try:
            return await call(here)
        except RefusedError as error:
            return cast("Refusal", error.refusal)
        except (UnknownInstanceError, UnknownAskError) as error:
            hidden = (await here.ask(ask)).instance if ask is not None else instance
            if hidden is None:
                raise
            found = await here.why(hidden)
            who = _who_can_act(found.why)
            raise CommandError(
                f"{by.id} has no part in {hidden}: use --by and --role{f' ({who})' if who else ''}"
            ) from error

    answer = with_tenant(settings, answered, charts=True, chart=chart)
    taken = isinstance(answer, Receipt)
    if json:
        write(as_json({"ok": taken, **to_data(answer)}))
    else:
        mark = "[bold green]✓[/] " if taken else "[bold red]✗[/] "
        out().print(mark, end="")
        out().print(str(answer), markup=False)
    if not taken:
        raise typer.Exit(1)
