"""Which lifecycles a process runs: those that packages register, and one that its settings name."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any, NamedTuple

from headway.cli.catalogue import Broken, loaded, named_object, registered
from headway.cli.failure import CommandError, blame
from headway.engine.registry import Registry
from headway.errors import HeadwayError
from headway.lifecycle import Lifecycle, is_charted, together
from headway.settings import Settings
from headway.statechart.chart import Chart, chart_of

HOW_TO_LOAD = "name its lifecycle with --app, or as app in headway.toml"
"""What helps when a chart is not loaded here."""


class Apps(NamedTuple):
    """What is run, as one lifecycle, and what was registered but cannot be."""

    lifecycle: Lifecycle
    left_out: Sequence[Broken] = ()


def apps_of(settings: Settings) -> Apps:
    """The lifecycles that the settings ask for; raises CommandError for one that was named and cannot run."""
    named = [_registered(name, settings) for name in settings.lifecycles]
    if settings.app:
        named.append(_as_lifecycle(named_object(settings.app), settings.app, settings))
    if named:
        return Apps(together(named))
    able: list[Lifecycle] = []
    left_out: list[Broken] = []
    for name in registered():
        try:
            lifecycle = _registered(name, settings)
            Registry(lifecycle.charts, lifecycle.facts)
        except HeadwayError as error:
            left_out.append(Broken(name, str(error)))
        else:
            able.append(lifecycle)
    return Apps(together(able), left_out)


def _registered(name: str, settings: Settings) -> Lifecycle:
    point = registered().get(name)
    if point is None:
        known = ", ".join(registered()) or "none"
        raise CommandError(f"no lifecycle is registered as {name}; registered: {known}")
    return _as_lifecycle(loaded(point), name, settings)


def _as_lifecycle(value: Any, name: str, settings: Settings) -> Lifecycle:
    if isinstance(value, Lifecycle):
        return value
    if is_charted(value):
        return Lifecycle([value])
    if isinstance(value, (list, tuple)) and all(map(is_charted, value)):
        return Lifecycle(value)
    if inspect.isfunction(value):
        return _as_lifecycle(_called(value, name, settings), name, settings)
    raise CommandError(
        f"{name} is of type {type(value).__name__}: name a Lifecycle, a chart, a list of charts,"
        " or a function that returns one of them"
    )


def _called(function: Any, name: str, settings: Settings) -> Any:
    """What a function makes of the settings, or of nothing when it does not want them."""
    arguments = [settings] if inspect.signature(function).parameters else []
    try:
        with redirect_stdout(sys.stderr):
            return function(*arguments)
    except HeadwayError:
        raise
    except (Exception, SystemExit) as error:
        raise blame(f"{name} has failed", error) from error


def without_handlers(lifecycle: Lifecycle) -> Iterator[str]:
    """What nobody does in this process, one line for each chart that waits for it."""
    for charted in lifecycle.charts:
        missing = Lifecycle([charted], lifecycle.handlers).missing_handlers()
        if missing:
            yield f"{chart_of(charted).name} needs {', '.join(missing)}"


class Beside(NamedTuple):
    """Further charts, and the facts that their lifecycles know."""

    charts: Sequence[Chart] = ()
    facts: Mapping[str, Any] = {}


def charts_beside(name: str, settings: Settings) -> Beside:
    """The charts that stand where a chart of this name does, and those of the settings; raises CommandError.

    One name and number may be there more than once: whoever registers them chooses.
    """
    lifecycle = apps_of(settings).lifecycle
    return Beside([*_of_module(name), *map(chart_of, lifecycle.charts)], lifecycle.facts)


def _of_module(name: str) -> Iterator[Chart]:
    """The charts of the module that `module:Class` names, which is loaded already."""
    module, colon, _ = name.partition(":")
    found = vars(sys.modules[module]).values() if colon and module in sys.modules else ()
    return (chart_of(each) for each in found if is_charted(each))
