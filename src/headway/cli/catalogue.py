"""Which charts there are, and how a name becomes one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, NamedTuple

from headway.cli.failure import CommandError, blame
from headway.errors import HeadwayError
from headway.lifecycle import Lifecycle
from headway.statechart.chart import Chart
from headway.statechart.export import from_document
from headway.statechart.scxml.document import from_scxml

GROUP = "headway.lifecycles"
LARGEST_FILE = 10_000_000
NAMES = "a registered name, module:Class, or a file .json or .scxml"


class Found(NamedTuple):
    """A chart under the name it was asked for."""

    name: str
    chart: Chart


class Broken(NamedTuple):
    """A registered name whose chart cannot be loaded, and why."""

    name: str
    why: str


def registered() -> dict[str, EntryPoint]:
    """The registered charts by name, in order of name."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def load_registered() -> list[Found | Broken]:
    """Every registered chart; one that cannot be loaded does not hide the others."""
    return [each for point in registered().values() for each in _or_broken(point)]


def find_all(names: Iterable[str]) -> list[Found]:
    """The charts of these names; raises CommandError at the first that is none."""
    return [find(name) for name in dict.fromkeys(names)]


def find(name: str) -> Found:
    """The chart of a name; raises CommandError, or what is wrong with the chart."""
    found = _registered_chart(name)
    if found is not None:
        return found
    if Path(name).suffix.lower() in READERS:
        return Found(name, _from_file(Path(name)))
    if ":" in name:
        return Found(name, _chart(named_object(name), name))
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
        # What a user's module prints while it is read must not mix with what the command answers.
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


def _registered_chart(name: str) -> Found | None:
    """The chart of a registered name: of an entry of its own, or of a lifecycle with several."""
    points = registered()
    point = points.get(name) or points.get(name.rpartition(".")[0])
    if point is None:
        return None
    charts = _charts(point)
    if point.name == name and len(charts) > 1:
        raise CommandError(f"{name} has several charts: name {' or '.join(each.name for each in charts)}")
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


def _charts(point: EntryPoint) -> list[Found]:
    value = loaded(point)
    if not isinstance(value, Lifecycle):
        return [Found(point.name, _chart(value, point.value))]
    charts = [_chart(each, point.value) for each in value.charts]
    if len(charts) == 1:
        return [Found(point.name, charts[0])]
    return [Found(_full_name(point.name, chart.name.lower()), chart) for chart in charts]


def _full_name(lifecycle: str, chart: str) -> str:
    """A chart that is called after its lifecycle is not called after it twice."""
    return chart if chart.startswith(f"{lifecycle}.") else f"{lifecycle}.{chart}"


def _or_broken(point: EntryPoint) -> Sequence[Found | Broken]:
    try:
        return _charts(point)
    except HeadwayError as error:
        return [Broken(point.name, str(error))]


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
