"""`Statechart`: a class body becomes a chart, with every mistake found at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Never

from headway.errors import shown
from headway.statechart import model
from headway.statechart.authoring.declarations import Many, Upgrade
from headway.statechart.authoring.reader import ChartReader, listed
from headway.statechart.authoring.values import words_of
from headway.statechart.chart import Chart
from headway.statechart.export import from_document
from headway.statechart.scxml.document import from_scxml


class Statechart:
    """A lifecycle, declared once: states and transitions are attributes of a subclass.

    Raises DefinitionError, when the class is created, with all that is wrong and where.
    """

    chart: ClassVar[Chart]

    def __init_subclass__(
        cls,
        *,
        version: int = 1,
        name: str | None = None,
        context: object = None,
        facts: str | model.Fact | Sequence[str | model.Fact] = (),
        computed: str | None = None,
        accepts: Mapping[str, str] | None = None,
        staff: Mapping[str, int] | None = None,
        cancel: str | None = None,
        owner: str = "",
        read_by: Many = (),
        max_depth: int = 5,
        max_children: int | None = None,
        children: str = "each",
        upgrades: Mapping[int, Upgrade] | None = None,
        **unknown: Never,
    ) -> None:
        """Reads the class body."""
        reader = ChartReader(cls)
        words = words_of(Statechart.__init_subclass__)
        reader.unknown_words(cls.__name__, unknown, words, reader.first_line)
        accepted = _mapping(reader, "accepts", accepts)
        settings = {
            "name": name or cls.__name__,
            "version": version,
            "meaning": (cls.__doc__ or "").strip(),
            "context": reader.type_name(context, reader.first_line),
            "facts": tuple(_fact(fact) for fact in listed(facts)),
            "computed": None
            if computed is None
            else _one_of(reader, "computed", computed, usual="first", other="exclusive"),
            "accepts": tuple(_acceptance(key, why) for key, why in accepted.items()),
            "staff": _mapping(reader, "staff", staff),
            "cancel": cancel,
            "owner": owner,
            "read_by": reader.names(read_by, reader.first_line),
            "max_depth": max_depth,
            "max_children": max_children,
            "children": _one_of(reader, "children", children, usual="each", other="together"),
            "upgrades": reader.upgrades(_mapping(reader, "upgrades", upgrades)),
        }
        cls.chart = reader.chart(settings)

    @staticmethod
    def from_document(document: object, functions: Iterable[Any] = ()) -> Chart:
        """The chart of an exported document; functions and types are bound by their names."""
        return from_document(document, functions)

    @staticmethod
    def from_scxml(text: str | bytes, files: Mapping[str, str] | None = None) -> Chart:
        """The chart of an SCXML document."""
        return from_scxml(text, files)


def invariant(promise: str) -> Callable[[Any], Any]:
    """Declares that a condition holds in every state the chart can reach; the explorer proves it.

    It decorates a function of an `Explored`, which may be a static method. Raises TypeError when the
    promise is missing.
    """
    if callable(promise):
        raise TypeError('an invariant needs a description: @invariant("nothing is paid unapproved")')

    def mark(function: Any) -> Any:
        inner = getattr(function, "__func__", function)
        inner.__headway_invariant__ = promise
        inner.__doc__ = inner.__doc__ or promise
        return function

    return mark


def _fact(fact: str | model.Fact) -> model.Fact:
    return fact if isinstance(fact, model.Fact) else model.Fact(name=fact)


def _mapping(reader: ChartReader, word: str, given: object) -> dict[str, Any]:
    if given is None or isinstance(given, Mapping):
        return dict(given or {})
    reader.problem(f"{word}= must be a mapping, not {shown(given)}", reader.first_line)
    return {}


def _one_of(reader: ChartReader, word: str, given: object, *, usual: str, other: str) -> object:
    if given in (usual, other):
        return given
    reader.problem(f'{word}= must be "{usual}" or "{other}", not {shown(given)}', reader.first_line)
    return usual  # a rule like any other, so that one mistake is reported once


def _acceptance(key: object, because: str) -> model.Acceptance:
    finding, _, place = str(key).partition(":")
    return model.Acceptance(finding=finding.strip(), place=place.strip(), because=because)
