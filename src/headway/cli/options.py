"""Groups of options that commands share: a command takes the group, its user sees the single options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer

from headway.cli.calls import actor
from headway.cli.settings import (
    App,
    By,
    Config,
    Database,
    Json,
    Roles,
    Tenant,
    settings_of,
)
from headway.settings import Settings
from headway.statechart.snapshot import Actor
from headway.store.queries import InstanceQuery

Instance = Annotated[str, typer.Argument(metavar="INSTANCE", help="The instance's id.")]
Chart = Annotated[str, typer.Argument(metavar="CHART", help="The chart's name, such as Expense.")]
EventName = Annotated[str, typer.Argument(metavar="EVENT", help="The event's name, such as approve.")]
Status = Annotated[str | None, typer.Option("--status", help="Only instances in this state.")]
Owner = Annotated[str | None, typer.Option("--owner", help="Only instances of this owner.")]
Parent = Annotated[str | None, typer.Option("--parent", help="Only children of this instance.")]
After = Annotated[str | None, typer.Option("--after", help="Continue after this instance.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="The largest number of items.")]


@dataclass(frozen=True)
class Target:
    """The database and the tenant that a command works on, and how it prints."""

    tenant: Tenant = None
    database: Database = None
    config: Config = None
    json: Json = False

    @property
    def settings(self) -> Settings:
        """The settings with these options; raises CommandError."""
        return settings_of(self.config, tenant=self.tenant, database=self.database)


@dataclass(frozen=True)
class AppTarget(Target):
    """The same for a command that needs the charts of an app."""

    app: App = None

    @property
    def settings(self) -> Settings:
        """The settings with these options; raises CommandError."""
        return settings_of(self.config, tenant=self.tenant, database=self.database, app=self.app)


@dataclass(frozen=True)
class Author:
    """Who makes a change."""

    by: By = "operator"
    role: Roles = None

    @property
    def actor(self) -> Actor:
        """The same as an actor; raises CommandError for an invalid id."""
        return actor(self.by, self.role)


@dataclass(frozen=True)
class LivingInstances:
    """The living instances of a chart that a command changes."""

    status: Status = None
    owner: Owner = None
    parent: Parent = None
    after: After = None

    def query(self, tenant: str, chart: str) -> InstanceQuery:
        """The query that finds them."""
        return InstanceQuery(
            tenant, chart, self.status, self.parent, owner=self.owner, ended=False, after=self.after
        )


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes the single options of its groups, as typer expects them."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[Parameter] = []
    for each in signature(command).parameters.values():
        own = [each.replace(annotation=hints[each.name])]
        parameters += _options(groups[each.name]) if each.name in groups else own

    @wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: group(**{each.name: given.pop(each.name) for each in _options(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined] # what typer reads
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _options(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(group)
    ]
