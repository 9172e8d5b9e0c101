"""Options that many commands share, the settings they become, and `headway config`, which prints them."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from headway.cli.output import CommandError, as_json, out, table_of, write
from headway.codec import to_data
from headway.errors import InputError
from headway.settings import ABOUT, Configuration, Settings, SettingValue, load

Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Config = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="The settings file, instead of headway.toml."),
]
Database = Annotated[str | None, typer.Option("--database", metavar="URL", help=ABOUT["database"])]
App = Annotated[str | None, typer.Option("--app", metavar="MODULE:NAME", help=ABOUT["app"])]
Tenant = Annotated[str | None, typer.Option("--tenant", help=ABOUT["tenant"])]
By = Annotated[
    str,
    typer.Option("--by", metavar="ID", help="Who acts: checked by the chart, and written to the history."),
]
Roles = Annotated[
    list[str] | None, typer.Option("--role", help="A role of the actor; may be given several times.")
]
Reason = Annotated[str | None, typer.Option("--reason", help="The reason, for the history.")]
Data = Annotated[str | None, typer.Option("--data", metavar="JSON", help="Data to send along, as JSON.")]
RequestId = Annotated[
    str | None,
    typer.Option(
        "--request-id", help="Idempotency key: repeating a call with the same id returns the first answer."
    ),
]


def configured(config: str | None = None, **options: Any) -> Configuration:
    """The settings of a command and where they come from; raises CommandError."""
    try:
        return load(options, file=config)
    except InputError as error:
        raise CommandError(str(error)) from error


def settings_of(config: str | None = None, **options: Any) -> Settings:
    """The settings of a command; raises CommandError."""
    return configured(config, **options).settings


def config(*, config: Config = None, json: Json = False) -> None:
    """Print each setting, its value and its source. Secrets are masked."""
    values = list(configured(config).values())
    if json:
        write(as_json({each.name: _as_data(each) for each in values}))
        return
    table = table_of("Setting", "Value", "From", "Meaning")
    for each in values:
        chosen = each.source != "default"
        table.add_row(
            Text(each.name, "bold" if chosen else ""),
            Text(_text(each.masked), "cyan" if chosen else "dim"),
            Text(each.source, "green" if chosen else "dim"),
            Text(ABOUT[each.name], "dim"),
        )
    out().print(table)


def _as_data(each: SettingValue) -> dict[str, Any]:
    return {"value": to_data(each.masked), "source": each.source, "about": ABOUT[each.name]}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
