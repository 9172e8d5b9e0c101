"""The commands about API keys: list, create, rotate, revoke, log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar

import typer
from rich.table import Table
from rich.text import Text

from headway.api.keyring import OVERLAP, SCOPES, Keyring, NewKey
from headway.cli.calls import with_node
from headway.cli.options import Target, with_options
from headway.cli.output import CommandError, as_json, out, show_table, table_of, when, write
from headway.cli.settings import Roles
from headway.codec import to_data
from headway.errors import InputError
from headway.settings import Settings
from headway.statechart.snapshot import Actor, Kind
from headway.store.rows import KeyNoteRow, KeyRow

T = TypeVar("T")
BY = "command line"

keys = typer.Typer(help="Manage API keys: list, create, rotate, revoke, log.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="KEY", help="The key's id, as the list shows it.")]


@keys.command("list")
@with_options
def list_(*, target: Target) -> None:
    """List the keys of a tenant, the oldest first. Secrets are not stored and not shown."""
    found = _with_keys(target.settings, lambda ring, name: ring.list(name, limit=1_000))
    if target.json:
        write(as_json([_as_data(key) for key in found]))
    else:
        show_table(_table(found))


@keys.command()
@with_options
def create(
    who: Annotated[str, typer.Argument(metavar="ACTOR", help="The id of the actor that uses the key.")],
    *,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help=f"What it may do: {', '.join(SCOPES)}; read if not given."),
    ] = None,
    role: Roles = None,
    kind: Annotated[Kind, typer.Option("--kind", help="The kind of actor.")] = "service",
    name: Annotated[str, typer.Option("--name", help="A description for people.")] = "",
    lasts: Annotated[
        str | None,
        typer.Option(
            "--lasts", metavar="DURATION", help="How long the key is valid, such as 90d. Default: for ever."
        ),
    ] = None,
    rate: Annotated[
        int | None, typer.Option("--rate", min=1, help="How many calls per second the key may make.")
    ] = None,
    target: Target,
) -> None:
    """Create a key and print it. It is shown only this once."""
    actor = Actor(who, kind, frozenset(role or ()))
    made = _with_keys(
        target.settings,
        lambda ring, own: ring.make(own, actor, scope or ["read"], name=name, lasts=lasts, rate=rate, by=BY),
    )
    _tell(made, json=target.json)


@keys.command()
@with_options
def rotate(
    key: Id,
    *,
    overlap: Annotated[
        str, typer.Option("--overlap", metavar="DURATION", help="How long the old secret stays valid.")
    ] = OVERLAP,
    target: Target,
) -> None:
    """Give a key a new secret and print it; the old one stays valid for a while."""
    made = _with_keys(target.settings, lambda ring, own: ring.rotate(own, key, overlap=overlap, by=BY))
    _tell(made, json=target.json)


@keys.command()
@with_options
def revoke(key: Id, *, target: Target) -> None:
    """Revoke a key: it is not accepted any more."""
    row = _with_keys(target.settings, lambda ring, own: ring.revoke(own, key, by=BY))
    if target.json:
        write(as_json(_as_data(row)))
    else:
        out().print(f"[bold green]✓[/] {row.id} is revoked")


@keys.command()
@with_options
def log(key: Id, *, target: Target) -> None:
    """Show the log of a key, the newest entry first."""
    notes = _with_keys(target.settings, lambda ring, own: ring.notes(own, key, limit=1_000))
    if target.json:
        write(as_json(to_data(notes)))
    else:
        show_table(_notes(notes))


def _with_keys(settings: Settings, call: Callable[[Keyring, str], Awaitable[T]]) -> T:
    try:
        return with_node(settings, lambda node: call(Keyring(node.engine.store), settings.tenant))
    except InputError as error:
        raise CommandError(str(error)) from error


def _tell(made: NewKey, *, json: bool) -> None:
    if json:
        write(as_json({**_as_data(made.key), "key": made.text}))
    else:
        out().print(Text.assemble((made.text, "bold green")), soft_wrap=True)


def _as_data(key: KeyRow) -> dict[str, Any]:
    """All but the hashes."""
    data: dict[str, Any] = to_data(key)
    return {name: value for name, value in data.items() if "secret" not in name}


def _day(at: datetime) -> str:
    """The list has no room for more; --json has the time."""
    return f"{at:%Y-%m-%d}"


def _state(key: KeyRow) -> Text:
    if key.revoked_at is not None:
        return Text(f"revoked {_day(key.revoked_at)}", "red")
    return Text("for ever" if key.expires_at is None else f"until {_day(key.expires_at)}", "green")


def _table(found: Sequence[KeyRow]) -> Table:
    table = table_of(
        "Key", "Actor", "Scopes", "Roles", "Valid", "Made", "Name", whole=("Key", "Valid", "Made")
    )
    for key in found:
        scopes = " ".join(scope for scope in SCOPES if scope in key.scopes)
        who = f"{key.actor} ({key.kind})"
        table.add_row(key.id, who, scopes, " ".join(key.roles), _state(key), _day(key.made_at), key.name)
    return table


def _notes(notes: Sequence[KeyNoteRow]) -> Table:
    table = table_of("When", "What", "Times", "By", whole=("When",))
    for note in notes:
        table.add_row(when(note.last_at), note.what, str(note.count), note.by)
    return table
