"""Messages that charts publish and no destination takes: they are stored, and nobody gets them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headway.outbox.destination import MessageFilter
from headway.statechart import model
from headway.statechart.chart import Chart, all_actions


def untaken(charts: Iterable[Chart], wanted: Sequence[MessageFilter]) -> list[str]:
    """The messages that no destination takes, each with its kind and charts; live events need none."""
    found: dict[tuple[str, str], list[str]] = {}
    for chart in charts:
        for action in all_actions(chart.model):
            if isinstance(action, model.Publish) and not _is_taken(action, wanted):
                found.setdefault((action.name, action.kind), []).append(f"{chart.name} v{chart.version}")
    return [
        f"{name} ({kind} of {', '.join(dict.fromkeys(places))})"
        for (name, kind), places in sorted(found.items())
    ]


def _is_taken(action: model.Publish, wanted: Sequence[MessageFilter]) -> bool:
    """Whether some destination takes it, for one tenant at least."""
    return action.kind == "live" or any(
        action.kind in each.kinds and each.takes_name(action.name) for each in wanted
    )
