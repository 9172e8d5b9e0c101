"""Ids of actors: one form, so that nobody passes for two people, and two never look the same."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway import Actor, agent, person
from headway.errors import InputError
from headway.statechart.identity import normal_id, require_id, same_id

pytestmark = pytest.mark.mission("ENG-1", "ENG-14")

LOOK_ALIKE = {
    "ann ": "white space",
    " ann": "white space",
    "ann\n": "white space",
    "ann\u00a0": "white space",
    "\u3000ann": "white space",
    "a\nnn": "U+000A",
    "an\x00n": "U+0000",
    "ann\u200b": "U+200B",
    "a\u200dnn": "U+200D",
    "a\u00adnn": "U+00AD",
    "\ufeffann": "U+FEFF",
    "ann\u202e": "U+202E",
    "a\u034fnn": "U+034F",
    "ann\ufe0f": "U+FE0F",
    "ann\u3164": "U+3164",
    "ann\udc80": "U+DC80",
    "\uff41nn": "NFKC",
    "a\u2099n": "NFKC",
}


@pytest.mark.parametrize(("text", "reason"), LOOK_ALIKE.items(), ids=map(ascii, LOOK_ALIKE))
def test_an_id_that_looks_like_another_is_refused_and_equal_to_it(text: str, reason: str) -> None:
    """Whoever types it reads what is wrong; where it was stored before, it is the id it looks like."""
    with pytest.raises(InputError, match=reason.replace("+", r"\+")):
        require_id("the id", text)
    for make in (person, agent):
        with pytest.raises(InputError):
            make(text, "manager")
    with pytest.raises(InputError, match="a role"):
        person("bob", text)
    if "\n" not in text.strip():
        assert same_id(text, "ann")


@pytest.mark.parametrize("text", ["", None, 7, "x" * 201])
def test_what_is_no_id_is_refused(text: object) -> None:
    """Nothing, what is no text, and what is too long."""
    with pytest.raises(InputError):
        require_id("the id", text)


@pytest.mark.parametrize(
    "text",
    [
        "ann",
        "Ann Lee",
        "ann@example.com",
        "auth0|5f7c",
        "host:12#ab",
        "J\u00fcrgen",
        "\u738b",
        "x" * 200,
        "#",
    ],
    ids=ascii,
)
def test_an_id_is_a_text_as_people_and_issuers_write_it(text: str) -> None:
    """Letters of all scripts, digits, signs and single spaces; upper and lower case are different."""
    require_id("the id", text)
    assert person(text).id == text
    assert not same_id(text, text.swapcase()) or text == text.swapcase()


def test_two_spaces_and_a_composed_letter_are_told_apart_from_nothing() -> None:
    """Runs of spaces count as one, and a letter with its accent beside it as the one letter."""
    assert same_id("Ann  Lee", "Ann Lee")
    assert same_id("Jo\u0301", "J\u00f3")
    with pytest.raises(InputError, match="two spaces"):
        require_id("the id", "Ann  Lee")
    with pytest.raises(InputError, match="NFKC"):
        require_id("the id", "Jo\u0301")


def test_nobody_is_the_same_as_nobody() -> None:
    """An ask that nobody holds is not held by an actor without an id."""
    assert not same_id(None, None)
    assert not same_id(None, "ann")


@given(st.text(max_size=20))
def test_the_form_of_a_form_is_itself(text: str) -> None:
    """An id in normal form stays as it is, and is accepted unless it is empty."""
    form = normal_id(text)
    assert normal_id(form) == form
    if form:
        require_id("the id", form)


@pytest.mark.parametrize("make", [person, agent])
def test_an_actor_is_made_with_its_roles(make: Callable[..., Actor]) -> None:
    """What is right is kept as it is."""
    actor = make("ann", "manager", "clerk")
    assert (actor.id, actor.roles) == ("ann", frozenset({"manager", "clerk"}))
