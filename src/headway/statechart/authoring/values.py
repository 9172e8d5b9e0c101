"""Single values of a class body, read one by one: what is wrong becomes a problem with its line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import TypeVar

from headway.clock import LONGEST, milliseconds
from headway.codec import Value, from_data, is_json, to_data
from headway.errors import DefinitionProblem, InputError, shown
from headway.statechart import model
from headway.statechart.authoring.declarations import (
    Declaration,
    Duration,
    Function,
    Making,
    SourceLine,
    several,
)
from headway.statechart.types import DataType
from headway.statechart.validation.contents import ACTIONS
from headway.statechart.validation.validate import suggestion

Part = TypeVar("Part", bound=Value)
AN_ACTION = "write a function of the view, or put(...), spawn(...) and the like from headway.actions"
A_GUARD = 'write a function of the view, or an expression as text, such as "amount > 100"'
NAMES = 'write "name" or ("one", "another")'


class Values:
    """Reads values, keeping the functions and types they name, and the problems found."""

    def __init__(self) -> None:
        self.problems: list[DefinitionProblem] = []
        self.functions: dict[str, Function] = {}
        self.types: dict[str, DataType] = {}
        self.mistyped = False

    def problem(self, message: str, line: SourceLine) -> None:
        """One thing that is wrong."""
        self.problems.append(DefinitionProblem(message, *line))

    def unknown_words(self, name: str, given: Iterable[str], known: Iterable[str], line: SourceLine) -> None:
        """Keywords that mean nothing where they are written."""
        words = tuple(known)
        for word in given:
            self.problem(f"{name} has no option {word}={suggestion(word, words)}", line)

    def term(self, term: Declaration, line: SourceLine) -> None:
        """What was written with a term of the language and is none of its words."""
        kind = type(term)
        self.unknown_words(f"{kind.__name__}(...)", term.unknown, words_of(kind.__init__), line)

    def typed(self, part: Part, name: str, line: SourceLine) -> Part:
        """A part of the model as its document would bring it back; annotations do not stop anyone."""
        try:
            return from_data(type(part), to_data(part))
        except InputError as error:
            self.problem(f"{name}: {_type_mistake(error)}", line)
            self.mistyped = True
            return part

    def actions(self, doing: object, line: SourceLine) -> tuple[model.Action, ...]:
        """The actions of `do=`: functions by name, declared actions as they are."""
        if isinstance(doing, Making):
            doing = doing.action(self.function(doing.function, line) if doing.function else None)
        if isinstance(doing, (list, tuple)):
            return tuple(action for item in doing for action in self.actions(item, line))
        if isinstance(doing, (model.Put, model.Spawn)) and not is_json(doing.values):
            word = type(doing).__name__.lower()
            self.problem(f"{word}() takes JSON values, not {shown(doing.values)}", line)
            return ()
        if type(doing) in ACTIONS:
            return (doing,)  # type: ignore[return-value]  # the table holds the members of the union
        if callable(doing):
            return (model.Call(name=self.function(doing, line)),)
        self.problem(f"not an action: {shown(doing)}; {AN_ACTION}", line)
        return ()

    def conditions(self, when: object, line: SourceLine) -> tuple[model.Condition, ...]:
        """The guards of `when=`: functions by name, strings as expressions."""
        if isinstance(when, str):
            return (model.Formula(text=when),)
        if isinstance(when, (list, tuple)):
            return tuple(condition for item in when for condition in self.conditions(item, line))
        if callable(when):
            return (model.Named(name=self.function(when, line)),)
        self.problem(f"not a guard: {shown(when)}; {A_GUARD}", line)
        return ()

    def function(self, function: Function, line: SourceLine) -> str:
        """The name a function is registered under."""
        name = getattr(function, "__name__", "")
        if not name or name == "<lambda>":
            self.problem("a guard or action needs a name: write a function, not a lambda", line)
            return "lambda"
        if not takes_one(function):
            self.problem(f"{name} must take one argument, the view", line)
        if answers_later(function):
            self.problem(f"{name} must be a plain function: neither async nor a generator", line)
        # Not `is`: a bound method is another object each time it is looked up.
        if self.functions.setdefault(name, function) != function:
            self.problem(f"two different functions are called {name}", line)
        return name

    def type_name(self, kind: object, line: SourceLine) -> str | None:
        """The name a payload or context type is registered under."""
        if kind is None:
            return None
        try:
            data_type = DataType(kind)
        except TypeError as error:
            self.problem(str(error), line)
            return None
        known = self.types.setdefault(data_type.name, data_type)
        # Not `is`: `list[int]` is another object each time it is written.
        if known.kind != kind:
            self.problem(f"two different types are called {data_type.name}", line)
        return data_type.name

    def duration(self, duration: Duration | None, line: SourceLine) -> int | None:
        """Milliseconds, or a problem."""
        if duration is None:
            return None
        try:
            return milliseconds(duration)
        except ValueError as error:
            self.problem(str(error), line)
            return LONGEST  # a time like any other, so that one mistake is reported once

    def names(self, names: object, line: SourceLine) -> tuple[str, ...]:
        """One name or several."""
        many = (names,) if isinstance(names, str) else names
        if isinstance(many, (list, tuple, set, frozenset)) and all(isinstance(name, str) for name in many):
            return several(many)
        self.problem(f"neither a name nor a list of names: {shown(names)}; {NAMES}", line)
        return ()


def _type_mistake(error: InputError) -> str:
    """What an option must be, by the message of the codec, which names its place as `$.run.timeout`."""
    said = str(error.__cause__ or error)
    found = re.fullmatch(
        r"(?:Expected (?P<kind>`.*`), got (?P<got>`.*`)|(?P<other>.*)) - at `\$\.(?P<at>.*)`", said
    )
    if found is None:
        return said
    if found["kind"] is None:
        return f"{found['at']}: {found['other']}"
    return f"{found['at']} must be of type {found['kind']}, not {found['got']}"


def words_of(function: Function) -> list[str]:
    """The keywords that a function is called with."""
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]


def takes_one(function: Function) -> bool:
    """Whether a function can be called with the view alone."""
    try:
        inspect.signature(function).bind(None)
    except (TypeError, ValueError):
        return False
    return True


def answers_later(function: Function) -> bool:
    """Whether a call gives a coroutine or a generator, which counts as true whatever it would say."""
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    return any(is_kind(function) for is_kind in kinds)
