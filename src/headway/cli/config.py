"""`headway config`: each setting, and where its value comes from."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from headway.cli.charts import write
from headway.cli.formats import as_json
from headway.cli.options import Config, Json, configured
from headway.cli.present import out, table_of
from headway.codec import to_data
from headway.settings import ABOUT, Sourced


def config(*, config: Config = None, json: Json = False) -> None:
    """Print each setting, its value, and where that comes from; secrets are masked."""
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


def _as_data(each: Sourced) -> dict[str, Any]:
    return {"value": to_data(each.masked), "source": each.source, "about": ABOUT[each.name]}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
