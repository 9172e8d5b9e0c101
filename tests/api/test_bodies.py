"""Checks of the fields of a body, wherever its type has them."""

from typing import Annotated

import pytest

from headway.api.bodies import ActorId, Check, RequestBody, checked, needs_checks
from headway.api.problems import Problem

pytestmark = pytest.mark.mission("ENG-2")


def must_be_even(number: int) -> None:
    """Raises ValueError for an odd number."""
    if number % 2:
        raise ValueError("it must be even")


Even = Annotated[int, Check(must_be_even)]


class Inner(RequestBody):
    """A body with a check."""

    number: Even = 0


class Other(RequestBody):
    """A body without one."""

    number: int = 0


class Outer(RequestBody):
    """A body that has others in every way."""

    one: Inner | None = None
    many: list[Inner] | None = None
    named: dict[str, Inner] | None = None
    nested: dict[str, list[Inner]] | None = None
    either: list[Inner | Other] | None = None
    numbers: dict[str, Even] | None = None
    people: dict[ActorId, int] | None = None


BAD = Inner(1)
BODIES = [
    (Outer(one=BAD), ["body.one.number"]),
    (Outer(many=[Inner(2), BAD, BAD]), ["body.many.1.number", "body.many.2.number"]),
    (Outer(named={"a": BAD}), ["body.named.a.number"]),
    (Outer(nested={"a": [BAD]}), ["body.nested.a.0.number"]),
    (Outer(either=[Other(1), BAD]), ["body.either.1.number"]),
    (Outer(numbers={"a": 2, "b": 1}), ["body.numbers.b"]),
    (Outer(people={"ann": 1, " ": 1}), ["body.people"]),
]


@pytest.mark.parametrize(("body", "places"), BODIES)
def test_a_check_is_made_wherever_its_field_is(body: Outer, places: list[str]) -> None:
    """In a body within a body, in lists and in mappings, at every depth; each place is named."""
    with pytest.raises(Problem) as wrong:
        checked(body)
    assert [each["place"] for each in wrong.value.extra["errors"]] == places


def test_a_body_that_passes_is_given_back() -> None:
    """Also with everything in it."""
    body = Outer(
        Inner(2), [Inner(2)], {"a": Inner(4)}, either=[Other(1)], numbers={"a": 2}, people={"ann": 1}
    )
    assert checked(body) is body
    assert needs_checks(Outer)
    assert not needs_checks(Other)
