"""Definitions that fail, and what they say."""

import inspect
from collections.abc import Callable

import pytest

from headway import Statechart
from headway.errors import DefinitionError


def definition_problems(define: Callable[[], object]) -> list[tuple[int, str]]:
    """The problems of a definition, with lines counted from its `def`."""
    first = inspect.getsourcelines(define)[1]
    with pytest.raises(DefinitionError) as caught:
        define()
    return [(problem.line - first, problem.message) for problem in caught.value.problems]


def body(**attributes: object) -> Callable[[], object]:
    """A definition made of the given attributes."""

    def define() -> object:
        return type("Made", (Statechart,), dict(attributes))

    return define
