"""Options that many commands share, and how they become settings."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headway.cli.failure import CommandError
from headway.errors import InputError
from headway.settings import ABOUT, Configuration, Settings, load

Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Config = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="The file of settings, in place of headway.toml."),
]
Database = Annotated[str | None, typer.Option("--database", metavar="URL", help=ABOUT["database"])]
App = Annotated[str | None, typer.Option("--app", metavar="MODULE:NAME", help=ABOUT["app"])]
Tenant = Annotated[str | None, typer.Option("--tenant", help=ABOUT["tenant"])]
By = Annotated[str, typer.Option("--by", metavar="ID", help="Who does it, for charts and for the history.")]
Roles = Annotated[
    list[str] | None, typer.Option("--role", help="A role of theirs; may be given several times.")
]
Reason = Annotated[str | None, typer.Option("--reason", help="Why, for the history.")]
Data = Annotated[str | None, typer.Option("--data", metavar="JSON", help="What it carries.")]
RequestId = Annotated[
    str | None, typer.Option("--request-id", help="The call's own id: a repeat gets the first answer again.")
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
