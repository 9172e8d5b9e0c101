"""Entries for the sender of an event: somebody must have sent it before."""

from __future__ import annotations

from collections.abc import Iterator

from headway.statechart.check.analysis import Analysis
from headway.statechart.check.findings import Finding, error, warning
from headway.statechart.model import ROOT
from headway.statechart.people import ids_of, part, sender_of


def senders(analysis: Analysis) -> Iterator[Finding]:
    """Events and asks for the sender of another event, where on some path or on none it was sent before."""
    for arc in analysis.chart.arcs:
        source = arc.source.id
        for entries in (arc.model.by, *((each,) for each in arc.model.countersign)):
            yield from _nobody(analysis, entries, arc.name, state=source, transition=arc.name)
    for node in analysis.reached:
        if node.model.ask is not None:
            yield from _nobody(analysis, node.model.ask.roles, "the ask", state=node.id)


def _nobody(
    analysis: Analysis, entries: tuple[str, ...], what: str, *, state: str, transition: str = ""
) -> Iterator[Finding]:
    live = analysis.explored.live()
    places = [each for each in live if state == ROOT or state in analysis.explored.active(each.index)]
    others = [other for other in entries if sender_of(other) is None]
    for entry in filter(sender_of, entries):
        empty = [each for each in places if not ids_of(entry, each.snapshot)]
        never = bool(empty) and len(empty) == len(places)
        if never and not analysis.exhaustive:
            continue
        if not never and (not empty or others or state == ROOT):
            continue  # a row of all states may well wait for the event
        when = "is never sent before it" if never else "was not sent on this path"
        tell = error if never else warning
        yield tell(
            "nobody-named",
            f"{what} is for {part(entry)}, but {sender_of(entry)} {when}: then it is for nobody",
            state="" if state == ROOT else state,
            transition=transition,
            path=analysis.explored.path(empty[0].index),
        )
