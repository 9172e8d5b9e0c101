"""Settings, contexts and duties of a definition that would be ignored, or would break later."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from headway import Ask, Final, State, Statechart
from headway.statechart.step.draft import SPECIAL
from headway.statechart.validation.contents import TAKEN
from tests.statechart.definitions import body, definition_problems

pytestmark = pytest.mark.mission("ENG-1")

SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"staff": ["manager"]}, "staff= must be a mapping, not ['manager']"),
    ({"staff": {"manager": -1}}, "manager cannot be -1"),
    ({"accepts": "x"}, "accepts= must be a mapping, not 'x'"),
    ({"facts": (7,)}, "facts[0].name must be of type"),
    ({"max_depth": "x"}, "max_depth must be of type"),
    ({"max_children": "x"}, "max_children must be of type"),
    ({"max_children": -1}, "max_children= must be at least 0, not -1"),
    ({"version": "1"}, "version must be of type"),
    ({"version": True}, "version must be of type"),
    ({"version": 0}, "the version must be a whole number of at least 1, not 0"),
    ({"cancel": 7}, "cancel must be of type"),
    ({"name": 7}, "name must be of type"),
    ({"owner": 7}, "owner must be of type"),
    ({"computed": []}, 'computed= must be "first" or "exclusive", not []'),
    ({"children": "all"}, 'children= must be "each" or "together", not \'all\''),
    ({"context": list[int]}, "the context list[int] holds no fields: it is of the type array"),
    ({"context": dict[str, int] | None}, "it is of the type null"),
]


@pytest.mark.parametrize(("settings", "message"), SETTINGS, ids=[message for _, message in SETTINGS])
def test_each_wrong_setting_has_its_message(settings: dict[str, Any], message: str) -> None:
    """A wrong setting of the class is a problem with a line, never a traceback."""

    def define() -> object:
        class Wrong(Statechart, **settings):
            a = State(initial=True)

        return Wrong

    assert [line for line, text in definition_problems(define) if message in text] == [2]


class Family(BaseModel):
    """A context one of whose fields has a name of the engine's."""

    children: int = 0
    parent: "Family | None" = None


@dataclass
class Place:
    """Another one."""

    instance: str = ""


@pytest.mark.parametrize(("kind", "field"), [(Family, "children"), (Place, "instance")])
def test_a_context_hides_no_name_of_the_engine(kind: type, field: str) -> None:
    """A field that hides a name of the engine's, or is hidden by it, is a mistake."""

    def define() -> object:
        class Wrong(Statechart, context=kind):
            a = State(initial=True)

        return Wrong

    expected = f"the name of the context field {field} is reserved for the engine: choose another"
    assert [message for _, message in definition_problems(define)] == [expected]


def test_every_name_of_the_engine_is_known_to_the_check() -> None:
    """No special name of expressions is missing from those a context may not use."""
    assert SPECIAL.keys() <= TAKEN


HEEDLESS = {
    "by": "m",
    "takes": dict,
    "quorum": 2,
    "distinct_from": "stop",
    "countersign": "m",
    "no_agent": True,
}


@pytest.mark.parametrize("trigger", ["after", "always", "on_done", "on_error", "on_deadline", "child"])
@pytest.mark.parametrize("word", HEEDLESS)
def test_duties_of_people_need_people(trigger: str, word: str) -> None:
    """A row that only the engine fires has no duties of people: they would be ignored."""
    a = State(initial=True, run="x", ask=Ask("m", deadline="1d"))
    b = Final()
    triggers = {"after": a.after("1m"), "child": a.on("child.changed")}
    duty: Any = {word: HEEDLESS[word]}
    source = triggers.get(trigger) or getattr(a, trigger)
    define = body(a=a, b=b, stop=a.to(b), go=source.to(b, **duty))
    problems = [message for _, message in definition_problems(define)]
    assert problems == [f"go has {word}=, which has no effect: only the engine fires it"]


def test_duties_are_heeded_where_people_can_be_meant() -> None:
    """Duties stand on rows that an answer or an event from outside fires, whatever else does."""

    class Mixed(Statechart):
        a, b = State(initial=True, run="x", ask=Ask("m")), Final()
        done = a.on("complete", "done.work.a").to(b, by="worker")
        answered = a.on_answer.to(b, by="m", no_agent=True)

    assert [row.by for row in Mixed.chart.model.transitions] == [("worker",), ("m",)]
