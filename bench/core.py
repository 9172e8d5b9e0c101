"""The core suite: events per second of one chart in each system, and the cost of a large chart."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from bench.core_course import NESTED, PARALLEL, Course, Lap, Machine, ring
from bench.core_dict import DictRing
from bench.harness import Entrant, Plan, Ratio, Suite, Unavailable

# Each module has one function per case, that builds the machine. They are imported when built:
# a system that is not installed is left out with a message, and the others are measured.
_SYSTEMS = {
    "headway": "bench.core_headway",
    "transitions": "bench.core_transitions",
    "python-statemachine": "bench.core_python_statemachine",
    "sismic": "bench.core_sismic",
}
_CASES = {"flat": ring(6), "nested": NESTED, "parallel": PARALLEL}
_SIZES = (10, 100, 1000)

# What is asked of (case, system); for the other pairs the ratio is reported without a target.
_TARGETS = {
    ("flat", "transitions"): 2.0,
    ("nested", "transitions"): 5.0,
    ("flat", "python-statemachine"): 20.0,
}
# A ring of 1000 may lose a little to the caches of the processor, and to noise; not more.
_GROWTH_TARGET = 0.8

_NOTES = (
    "transitions has no history states: in `parallel` its callbacks remember and restore the state.",
    "bare dict is the raw limit: one look-up per event, with no guard, action, snapshot or effect.",
    "headway returns a new snapshot, its effects and its history rows from every step.",
)


def suite(_plan: Plan | None = None) -> Suite:
    """The cases, the systems entered for each, and the ratios wanted."""
    groups = [[_entrant(case, course, system) for system in _SYSTEMS] for case, course in _CASES.items()]
    groups[0].append(_dict_entrant("flat", 6))
    growth = [_growth_entrant(size) for size in _SIZES] + [
        _dict_entrant(f"flat_{size}", size) for size in _SIZES
    ]
    return Suite(
        name="core",
        title="Statechart core: events per second",
        groups=[*groups, sorted(growth, key=lambda entrant: entrant.per_cycle)],
        ratios=[*_peer_ratios(), *_growth_ratios()],
        notes=_NOTES,
    )


def _entrant(case: str, course: Course, system: str) -> Entrant:
    def build() -> Lap:
        return Lap(_builder(system, case)(), course)

    return Entrant(case, system, build, per_cycle=len(course.events))


def _growth_entrant(size: int) -> Entrant:
    def build() -> Lap:
        return Lap(_builder("headway", "flat_ring")(size), ring(size))

    return Entrant(f"flat_{size}", "headway", build, per_cycle=size)


def _dict_entrant(case: str, size: int) -> Entrant:
    def build() -> Lap:
        return Lap(DictRing(size), replace(ring(size), gain=0))

    return Entrant(case, "bare dict", build, per_cycle=size)


def _builder(system: str, function: str) -> Callable[..., Machine]:
    try:
        module = import_module(_SYSTEMS[system])
    except ImportError as error:
        raise Unavailable(f"it cannot be imported ({error})") from error
    build: Callable[..., Machine] = getattr(module, function)
    return build


def _peer_ratios() -> list[Ratio]:
    return [
        Ratio(
            name=f"{case}_vs_{system.replace('-', '_')}",
            of=(case, "headway"),
            over=(case, system),
            target=_TARGETS.get((case, system)),
        )
        for case in _CASES
        for system in _SYSTEMS
        if system != "headway"
    ]


def _growth_ratios() -> list[Ratio]:
    return [
        Ratio(
            name=f"flat_1000_vs_10{suffix}",
            of=("flat_1000", system),
            over=("flat_10", system),
            target=target,
        )
        for system, suffix, target in (("headway", "", _GROWTH_TARGET), ("bare dict", "_bare_dict", None))
    ]
