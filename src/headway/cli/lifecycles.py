"""Charts and lifecycles by name: registered ones, `module:name`, files, and those that the settings name."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, NamedTuple

from headway.cli.output import CommandError, blame
from headway.engine.registry import Registry
from headway.errors import HeadwayError
from headway.lifecycle import Lifecycle, is_charted, together
from headway.settings import Settings
from headway.statechart.chart import Chart, chart_of
from headway.statechart.export import from_document
from headway.statechart.scxml.document import from_scxml

GROUP = "headway.lifecycles"
LARGEST_FILE = 10_000_000
NAMES = "a registered name, module:Class, or a file .json or .scxml"


class NamedChart(NamedTuple):
    """A chart under the name it was asked for."""

    name: str
    chart: Chart


class BrokenEntry(NamedTuple):
    """A registered name whose chart cannot be loaded, and why."""

    name: str
    why: str


def registered() -> dict[str, EntryPoint]:
    """The registered charts by name, in order of name."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def load_registered() -> list[NamedChart | BrokenEntry]:
    """Every registered chart; one that cannot be loaded does not hide the others."""
    return [each for point in registered().values() for each in _or_broken(point)]


def find_all(names: Iterable[str]) -> list[NamedChart]:
    """The charts of these names; raises CommandError at the first unknown name."""
    return [find(name) for name in dict.fromkeys(names)]


def find(name: str) -> NamedChart:
    """The chart of a name; raises CommandError, or what is wrong with the chart."""
    found = _registered_chart(name)
    if found is not None:
        return found
    if Path(name).suffix.lower() in READERS:
        return NamedChart(name, _from_file(Path(name)))
    if ":" in name:
        return NamedChart(name, _chart(named_object(name), name))
    raise CommandError(_unknown(name))


def named_object(name: str) -> Any:
    """What `module:attribute` names, the current folder included; raises CommandError."""
    module_name, _, path = name.partition(":")
    if not module_name or not path or module_name.startswith("."):
        raise CommandError(f"{name!r} is not module:name")
    value = _module(module_name, name)
    for attribute in path.split("."):
        if not hasattr(value, attribute):
            near = get_close_matches(
                attribute, [each for each in dir(value) if not each.startswith("_")], 3, 0.7
            )
            raise CommandError(f"{module_name} has no {attribute!r}{_or(near)}")
        value = getattr(value, attribute)
    return value


def _module(module_name: str, wanted: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        # The output of a user's module while it is imported must not mix with that of the command.
        with redirect_stdout(sys.stderr):
            return import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise CommandError(
                f"there is no module {error.name!r} (looked for {wanted}, from {here})"
            ) from error
        raise blame(f"{module_name} cannot be imported", error) from error
    except (Exception, SystemExit) as error:
        raise blame(f"{module_name} cannot be imported", error) from error


def _registered_chart(name: str) -> NamedChart | None:
    """The chart of a registered name: of an entry of its own, or of a lifecycle with several."""
    points = registered()
    point = points.get(name) or points.get(name.rpartition(".")[0])
    if point is None:
        return None
    charts = _charts(point)
    if point.name == name and len(charts) > 1:
        raise CommandError(
            f"{name} has several charts; name one of them: {' or '.join(each.name for each in charts)}"
        )
    return next((each for each in charts if each.name == name), None)


def loaded(point: EntryPoint) -> Any:
    """What an entry names: a chart or a lifecycle; raises CommandError."""
    try:
        with redirect_stdout(sys.stderr):
            return point.load()
    except HeadwayError:
        raise
    except (Exception, SystemExit) as error:
        raise blame(f"{point.name} ({point.value}) cannot be loaded", error) from error


def _charts(point: EntryPoint) -> list[NamedChart]:
    value = loaded(point)
    if not isinstance(value, Lifecycle):
        return [NamedChart(point.name, _chart(value, point.value))]
    charts = [_chart(each, point.value) for each in value.charts]
    if len(charts) == 1:
        return [NamedChart(point.name, charts[0])]
    return [NamedChart(_full_name(point.name, chart.name.lower()), chart) for chart in charts]


def _full_name(lifecycle: str, chart: str) -> str:
    """A chart that is called after its lifecycle is not called after it twice."""
    return chart if chart.startswith(f"{lifecycle}.") else f"{lifecycle}.{chart}"


def _or_broken(point: EntryPoint) -> Sequence[NamedChart | BrokenEntry]:
    try:
        return _charts(point)
    except HeadwayError as error:
        return [BrokenEntry(point.name, str(error))]


def _chart(value: object, name: str) -> Chart:
    declared = getattr(value, "chart", value)
    if isinstance(declared, Chart):
        return declared
    raise CommandError(
        f"{name} is not a chart but of type {type(value).__name__}: name a subclass of Statechart"
    )


def _from_file(path: Path) -> Chart:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > LARGEST_FILE:
        raise CommandError(f"{path} is larger than {LARGEST_FILE // 1_000_000} MB")
    try:
        return READERS[path.suffix.lower()](content)
    except HeadwayError as error:
        raise CommandError(f"{path}: {error}") from error


READERS: dict[str, Callable[[bytes], Chart]] = {
    ".json": from_document,
    ".scxml": from_scxml,
    ".xml": from_scxml,
}


def _unknown(name: str) -> str:
    known = list(registered())
    ends = {each.rpartition(".")[2]: each for each in known}
    near = get_close_matches(name.lower(), known, 3, 0.7)
    near += [ends[end] for end in get_close_matches(name.lower(), ends, 3, 0.6)]
    hint = _or(dict.fromkeys(near)) or (f"; registered: {', '.join(known)}" if known else "")
    return f"there is no chart {name!r}{hint}\na name is {NAMES}"


def _or(near: Iterable[str]) -> str:
    names = " or ".join(near)
    return f"; did you mean {names}?" if names else ""


HOW_TO_LOAD = "name its lifecycle with --app, or as app in headway.toml"
"""Hint for a chart that is not loaded here."""


class Apps(NamedTuple):
    """The lifecycles to run, as one, and the registered ones that cannot run."""

    lifecycle: Lifecycle
    left_out: Sequence[BrokenEntry] = ()


def apps_of(settings: Settings) -> Apps:
    """The lifecycles of the settings; raises CommandError if a named one cannot run."""
    named = [_registered(name, settings) for name in settings.lifecycles]
    if settings.app:
        named.append(_as_lifecycle(named_object(settings.app), settings.app, settings))
    if named:
        return Apps(together(named))
    able: list[Lifecycle] = []
    left_out: list[BrokenEntry] = []
    for name in registered():
        try:
            lifecycle = _registered(name, settings)
            Registry(lifecycle.charts, lifecycle.facts)
        except HeadwayError as error:
            left_out.append(BrokenEntry(name, str(error)))
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
    """The result of a function; it is given the settings if it takes a parameter."""
    arguments = [settings] if inspect.signature(function).parameters else []
    try:
        with redirect_stdout(sys.stderr):
            return function(*arguments)
    except HeadwayError:
        raise
    except (Exception, SystemExit) as error:
        raise blame(f"{name} has failed", error) from error


def without_handlers(lifecycle: Lifecycle) -> Iterator[str]:
    """The missing handlers of this process, one line for each chart."""
    for charted in lifecycle.charts:
        missing = Lifecycle([charted], lifecycle.handlers).missing_handlers()
        if missing:
            yield f"{chart_of(charted).name} needs {', '.join(missing)}"


class Beside(NamedTuple):
    """Further charts, and the facts that their lifecycles know."""

    charts: Sequence[Chart] = ()
    facts: Mapping[str, Any] = {}


def charts_beside(name: str, settings: Settings) -> Beside:
    """The charts of the module of a named chart, and those of the settings; raises CommandError.

    A name and version may occur more than once: the caller chooses.
    """
    lifecycle = apps_of(settings).lifecycle
    return Beside([*_of_module(name), *map(chart_of, lifecycle.charts)], lifecycle.facts)


def _of_module(name: str) -> Iterator[Chart]:
    """The charts of the module that `module:Class` names, which is loaded already."""
    module, colon, _ = name.partition(":")
    found = vars(sys.modules[module]).values() if colon and module in sys.modules else ()
    return (chart_of(each) for each in found if is_charted(each))
