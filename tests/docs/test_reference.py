"""The reference of the chart language is complete: every word there is, and no word that is gone."""

import inspect
import re
import typing
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import headway
from headway import Ask, History, Retry, Run, State, Statechart, Upgrade, View, actions, any_live
from headway.statechart import effects
from headway.statechart.authoring.states import RowOptions
from headway.statechart.check.invariants import Explored
from headway.statechart.expressions.parser import CALLABLE, CONSTANTS
from headway.statechart.expressions.values import BINARY, UNARY
from headway.statechart.refusal import Code
from headway.statechart.step.draft import SPECIAL
from headway.statechart.tree import RESERVED

pytestmark = pytest.mark.mission("ENG-1")

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/chart-language.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
SECTIONS: dict[str, str] = dict(re.findall(r"^##+ (.+?)\n(.*?)(?=^##|\Z)", PROSE, re.MULTILINE | re.DOTALL))


def code(text: str) -> set[str]:
    """What stands in backticks."""
    return {span.replace("\\|", "|") for span in re.findall(r"`([^`\n]+)`", text)}


def listed(section: str) -> set[str]:
    """The words that the rows of a section's tables are about; a kind of state is written with its call."""
    return set(re.findall(r"^\| `(\w+)` \|", SECTIONS[section], re.MULTILINE))


def keywords(function: Callable[..., object]) -> set[str]:
    """The parameters of a function, but for its object and for words that it does not know."""
    parameters = inspect.signature(function).parameters.values()
    return {each.name for each in parameters if each.kind is not each.VAR_KEYWORD} - {"self"}


def public(kind: type) -> set[str]:
    """The attributes and methods that a class shows to everybody."""
    return {name for name in dir(kind) if not name.startswith("_")}


TRIGGERS = {
    name
    for name in public(State) - {"state"}
    if callable(getattr(State, name)) or isinstance(getattr(State, name), property)
}
TABLES: dict[str, Iterable[str]] = {
    "The class": keywords(Statechart.__init_subclass__),
    "States": keywords(State.__init__),
    "Asks": keywords(Ask.__init__),
    "Work": keywords(Run.__init__),
    "Retries": keywords(Retry.__init__) | (public(Retry) - keywords(Retry.__init__)),
    "Triggers": TRIGGERS,
    "Rows": typing.get_type_hints(RowOptions),
    "Actions": actions.__all__,
    "The view": public(View),
    "Invariants": public(Explored),
    "Refusals": typing.get_args(Code),
    "Upgrades": keywords(Upgrade.__init__),
    "Effects": {kind.__name__ for kind in typing.get_args(effects.Effect)},
}


@pytest.mark.parametrize("section", TABLES)
def test_a_table_lists_every_word_of_its_part_and_no_other(section: str) -> None:
    """Whoever looks a word up finds it, and finds none that does nothing any more."""
    assert listed(section) == set(TABLES[section])


@pytest.mark.parametrize("name", headway.__all__)
def test_every_public_name_is_on_the_page(name: str) -> None:
    """Each name that `headway` offers is told of."""
    assert any(re.search(rf"\b{name}\b", span) for span in code(PROSE))


@pytest.mark.parametrize("name", sorted(keywords(History.__init__)))
def test_history_is_shown_with_its_keywords(name: str) -> None:
    """The row of history names each keyword of it."""
    assert any(span.startswith("History(") and f"{name}=" in span for span in code(SECTIONS["States"]))


@pytest.mark.parametrize("name", sorted(public(type(any_live)) & TRIGGERS))
def test_the_triggers_of_any_live_are_told(name: str) -> None:
    """A reader knows which triggers go with any live state."""
    sentence = next(each for each in SECTIONS["Triggers"].split("\n\n") if "On `any_live` there are" in each)
    assert name in code(sentence)


@pytest.mark.parametrize(
    "word", sorted({*BINARY, *UNARY, *CALLABLE, *CONSTANTS, *SPECIAL} - {"_ioprocessors"})
)
def test_every_word_of_expressions_is_on_the_page(word: str) -> None:
    """Operators, functions, constants and names of the expression language are all told of."""
    assert word in {each.removesuffix("('review')") for each in code(SECTIONS["Expressions"])}


@pytest.mark.parametrize("first", sorted(RESERVED - {"timer", "work"}))
def test_every_kind_of_event_the_engine_sends_is_on_the_page(first: str) -> None:
    """Each first word that only the engine uses stands in the table of events."""
    assert any(span.startswith(f"{first}.") for span in code(SECTIONS["Steps and events"]))


@pytest.mark.parametrize("kind", typing.get_args(effects.Effect), ids=lambda kind: kind.__name__)
def test_every_effect_tells_what_it_carries(kind: type) -> None:
    """The row of an effect names its fields; the limits of work are those of `Run`."""
    [row] = [line for line in SECTIONS["Effects"].splitlines() if line.startswith(f"| `{kind.__name__}` ")]
    fields = set(inspect.signature(kind).parameters) - {"id"}
    limits = keywords(Run.__init__) - {"handler"} if kind is effects.StartWork else set()
    assert fields - limits <= code(row)
