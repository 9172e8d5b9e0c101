"""Write docs/reference/python.md: every public module, and every name in it with its first line."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/python.md"
PUBLIC = (
    "headway",
    "headway.actions",
    "headway.lifecycle",
    "headway.node",
    "headway.worker",
    "headway.outbox",
    "headway.http",
    "headway.client",
    "headway.testing",
    "headway.testing.simulate",
    "headway.errors",
    "headway.settings",
    "headway.statechart",
    "headway.drawing",
    "headway.store",
    "headway.telemetry",
    "headway.codec",
    "headway.clock",
    "headway.lifecycles.applications",
    "headway.lifecycles.crawls",
    "headway.lifecycles.interviews",
    "headway.lifecycles.supervision",
    "headway.lifecycles.task_runs",
)
ABOUT = """# Python modules

Import from these modules only. Their names are listed in `__all__` and follow the rules for deprecation;
everything else is internal and may change in any release. A test keeps this page, the documentation, the
examples and the lifecycles that come with Headway to these modules.

<!-- Generated: `python -m scripts.python_reference` writes this page. -->
"""


def reference() -> str:
    """The whole page."""
    return "\n".join([ABOUT, *map(_section, PUBLIC)])


def _section(name: str) -> str:
    module = import_module(name)
    rows = [f"| `{each}` | {_about(getattr(module, each))} |" for each in module.__all__]
    return "\n".join(
        [f"## `{name}`", "", _first_line(module), "", "| name | meaning |", "|---|---|", *rows, ""]
    )


def _about(value: object) -> str:
    """The first line of a docstring; a plain value and a type alias have none of their own."""
    is_documented = inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)
    return _first_line(value).replace("|", "\\|") if is_documented else ""


def _first_line(value: object) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0]


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
