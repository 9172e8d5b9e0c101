"""What a type marks as sensitive is hidden in all that a step tells, wherever in the data it stands."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr
from typing_extensions import TypedDict

from headway import Ask, Final, State, Statechart, Step, person, start, step
from headway.actions import assign, topic
from headway.codec import encode
from headway.statechart.effects import OpenedAsk, PublishMessage
from headway.statechart.snapshot import Event, Snapshot
from headway.statechart.types import DataType, Sensitive

pytestmark = pytest.mark.mission("ENG-5", "ENG-7")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANN = person("ann", "manager")
SECRET = "s3cret"  # noqa: S105 - it is what must not be told
HIDDEN = "[redacted]"


class Leaf(BaseModel, populate_by_name=True):
    """Holds one secret, perhaps another leaf, and an open word."""

    secret: Sensitive[str] = Field(alias="theSecret")
    more: "Leaf | None" = None
    word: str = ""


@dataclass
class Point:
    """A dataclass."""

    secret: Sensitive[str]
    word: str = ""


class Typed(TypedDict):
    """A typed dict."""

    secret: Sensitive[str]
    word: str


class Everything(BaseModel):
    """A secret in every place where one can stand."""

    plain: Sensitive[str] = ""
    number: Sensitive[int] = 0
    whole: Sensitive[Leaf] | None = None
    maybe: Sensitive[str] | None = None
    leaves: list[Leaf] = []
    named: dict[str, Leaf] = {}
    texts: list[Sensitive[str]] = []
    secrets: dict[str, Sensitive[str]] = {}
    either: Leaf | Point | None = None
    typed: Typed | None = None
    masked: SecretStr = SecretStr("")
    marked: str = Field("", json_schema_extra={"sensitive": True})
    word: str = ""


class Open(BaseModel):
    """Marks nothing."""

    secret: str = ""


class Kept(BaseModel):
    """A context with a secret."""

    token: Sensitive[str] = SECRET
    word: str = "open"
    copied: str = ""


class Told(Statechart, context=Kept):
    """Tells what it gets in every way there is."""

    one = State(initial=True)
    two = State(ask=Ask("manager", shows=("token", "word"), form=Leaf, late="record"))
    done = Final()

    tell = one.to(two, takes=Everything, emit="told", webhook="told", live="told")
    fields = one.stay(emit=topic("told", "token", "word"))
    copy = one.stay(takes=Leaf, do=assign(copied="_event.data.theSecret"))
    whole = one.stay(takes=Sensitive[str])
    free = one.stay(emit="told")
    decide = two.on_answer.to(done, by="manager")


def begun() -> Snapshot:
    """A life that has begun."""
    return start(Told, "t", now=NOW).unwrap().snapshot


def went(event: Event, snapshot: Snapshot | None = None) -> Step:
    """A step that went through."""
    return step(Told, snapshot or begun(), event, NOW).unwrap()


def told(done: Step) -> str:
    """All that a step tells the outside, as text."""
    return encode([done.history, done.effects]).decode()


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"plain": SECRET}, {"plain": HIDDEN}),
        ({"number": 7}, {"number": HIDDEN}),
        ({"whole": {"theSecret": SECRET, "word": "w"}}, {"whole": HIDDEN}),
        ({"maybe": SECRET}, {"maybe": HIDDEN}),
        ({"maybe": None}, {"maybe": None}),
        ({"leaves": [{"theSecret": SECRET}]}, {"leaves": [{"theSecret": HIDDEN}]}),
        ({"leaves": [{"secret": SECRET}]}, {"leaves": [{"secret": HIDDEN}]}),
        (
            {"leaves": [{"theSecret": SECRET, "more": {"theSecret": SECRET, "word": "w"}}]},
            {"leaves": [{"theSecret": HIDDEN, "more": {"theSecret": HIDDEN, "word": "w"}}]},
        ),
        (
            {"named": {"a": {"theSecret": SECRET, "word": "w"}}},
            {"named": {"a": {"theSecret": HIDDEN, "word": "w"}}},
        ),
        ({"texts": [SECRET, SECRET]}, {"texts": [HIDDEN, HIDDEN]}),
        ({"secrets": {"a": SECRET}}, {"secrets": {"a": HIDDEN}}),
        ({"either": {"secret": SECRET, "word": "w"}}, {"either": {"secret": HIDDEN, "word": "w"}}),
        ({"typed": {"secret": SECRET, "word": "w"}}, {"typed": {"secret": HIDDEN, "word": "w"}}),
        ({"masked": SECRET}, {"masked": HIDDEN}),
        ({"marked": SECRET}, {"marked": HIDDEN}),
        ({"word": "open"}, {"word": "open"}),
    ],
    ids=str,
)
def test_a_secret_is_hidden_wherever_it_stands(data: dict[str, Any], shown: dict[str, Any]) -> None:
    """In the line of history and in each message, and nothing else is; the event itself is left as it was."""
    event = Told.tell(data, by=ANN)
    done = went(event)
    assert done.history[0].data == shown
    messages = [effect.data["data"] for effect in done.effects if isinstance(effect, PublishMessage)]
    assert messages == [shown] * 3
    assert event.data == data
    assert SECRET not in told(done)


def test_a_context_tells_its_secrets_neither_to_topics_nor_to_people() -> None:
    """Fields of a message and what an ask shows are hidden; the context keeps them."""
    [message] = [effect for effect in went(Told.fields()).effects if isinstance(effect, PublishMessage)]
    assert message.data == {"token": HIDDEN, "word": "open"}
    done = went(Told.tell({}, by=ANN))
    [ask] = [effect for effect in done.effects if isinstance(effect, OpenedAsk)]
    assert ask.shows == {"token": HIDDEN, "word": "open"}
    assert done.snapshot.context["token"] == SECRET


def test_actions_see_what_is_hidden() -> None:
    """What is told and what is done are two things."""
    done = went(Told.copy({"theSecret": SECRET}))
    assert done.snapshot.context["copied"] == SECRET
    assert SECRET not in told(done)


def test_a_payload_that_is_a_secret_is_hidden_whole() -> None:
    """A type that is marked itself leaves nothing to tell."""
    assert went(Told.whole(SECRET)).history[0].data == HIDDEN


def test_an_answer_is_hidden_by_its_form() -> None:
    """The form of the ask says what is secret in it."""
    open_ = went(Told.tell({}, by=ANN)).snapshot
    [ask] = open_.asks.values()
    answer = Event("answer", {"theSecret": SECRET, "word": "w"}, by=ANN, ref=ask.id)
    done = went(answer, open_)
    assert done.history[0].data == {"theSecret": HIDDEN, "word": "w"}
    assert SECRET not in told(done)


def test_what_has_no_marked_type_is_told() -> None:
    """Nothing is hidden by a guess; and a chart without marks does no work for them."""
    assert went(Told.free({"plain": "told"})).history[0].data == {"plain": "told"}

    class Frank(Statechart, context=Open):
        """Marks nothing."""

        on = State(initial=True)
        off = Final()
        end = on.to(off, takes=Open)

    assert Frank.chart.secrets is None


def test_a_refusal_repeats_no_value() -> None:
    """A payload that does not fit is told by its places."""
    refused = step(Told, begun(), Told.tell({"plain": [SECRET], "typed": {"secret": SECRET}}, by=ANN), NOW)
    assert not refused
    assert SECRET not in encode(refused).decode()


def test_a_mark_stands_in_the_schema() -> None:
    """Whoever reads the JSON Schema of a form knows what is sensitive; the type stays unmarked elsewhere."""
    assert DataType(Point).schema()["properties"]["secret"]["sensitive"] is True
    assert DataType(Everything).schema()["properties"]["whole"]["anyOf"][0]["sensitive"] is True
    assert "sensitive" not in DataType(Leaf).schema()
    assert (
        DataType(Sensitive[str]).name == DataType(Sensitive[str]).name == "typing.Annotated[str, Sensitive]"
    )
