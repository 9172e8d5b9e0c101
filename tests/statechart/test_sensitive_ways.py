"""No way around a mark: other names of a field, keys, JSON in texts, errors, texts that are filled in."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    Discriminator,
    Field,
    Json,
    Tag,
    ValidationInfo,
    computed_field,
    field_validator,
)

from headway import Ask, Final, State, Statechart, Step, start, step
from headway.actions import count, topic
from headway.codec import encode
from headway.errors import InternalError
from headway.statechart.authoring.declarations import Upgrade
from headway.statechart.effects import OpenedAsk, PublishMessage
from headway.statechart.model import Send
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Event
from headway.statechart.types import Sensitive
from headway.statechart.upgrade.instance import UpgradeGap, upgrade_snapshot

pytestmark = pytest.mark.mission("ENG-5", "ENG-7")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "s3cret"  # noqa: S105 - it is what must not be told
HIDDEN = "[redacted]"


class Leaf(BaseModel):
    """Holds a secret."""

    kind: Literal["leaf"] = "leaf"
    pin: Sensitive[str] = ""


class Bare(BaseModel):
    """Holds none."""

    kind: Literal["bare"] = "bare"
    pin: str = ""


class Pair(NamedTuple):
    """A tuple whose parts have names."""

    word: str
    pin: Sensitive[str]


def tag_of(value: Any) -> str:
    """A tag that is a secret."""
    return str(value["pin"] if isinstance(value, dict) else value.pin)


Tagged = Annotated[Annotated[Leaf, Tag("leaf")] | Annotated[Bare, Tag("bare")], Discriminator(tag_of)]


class Ways(BaseModel):
    """A secret in places that its own name does not lead to."""

    chosen: Sensitive[str] = Field("", validation_alias=AliasChoices("chosen", "CHOSEN"))
    deep: Sensitive[str] = Field("", validation_alias=AliasPath("bank", "iban"))
    listed: Sensitive[str] = Field("", validation_alias=AliasPath("list", 1))
    text: Json[Leaf] | None = None
    keys: dict[Sensitive[str], int] = {}
    numbers: dict[Sensitive[int], Leaf] = {}
    pair: Pair | None = None
    tagged: Tagged | None = None
    checked: Sensitive[str] = ""
    amount: int = 0

    @field_validator("checked")
    @classmethod
    def repeats_it(cls, value: str) -> str:
        """Fails with words that repeat the value, with words that do not, or in a way nobody expects."""
        if value == "short":
            raise ValueError("it has too few letters")
        if value == "typed":
            raise TypeError(f"not for {value}")
        if value == "lost":
            raise KeyError(value)
        if value:
            raise ValueError(f"no account {value}")
        return value


class Frank(BaseModel):
    """Marks nothing."""

    word: str = ""

    @field_validator("word")
    @classmethod
    def never(cls, value: str, info: ValidationInfo) -> str:
        """Says what it got."""
        raise ValueError(f"{info.field_name} is not {value}")


class Kept(BaseModel):
    """A context that is kept under another name, and with a field that is made of a secret."""

    token: Sensitive[str] = Field(SECRET, alias="tok")

    @computed_field
    def same(self) -> Sensitive[str]:
        """The token again."""
        return self.token


def stumbles(view: Any) -> bool:
    """Looks for an account that is not there."""
    return bool({}[view.context.token])


def later(view: Any) -> Send:
    """Waits for a time that is none."""
    assert view.context.token
    return Send(event="tell", delay_expr="tok")


class Told(Statechart, context=Kept):
    """Has many ways to tell."""

    one = State(initial=True)
    two = State(ask=Ask("manager", shows=("tok", "same")))
    busy = State(run="pay", progress=(0, 1), says="paying {tok} {same}")
    done = Final()

    tell = one.stay(takes=Ways, emit="told")
    fields = one.to(two, emit=topic("told.{tok}", "tok", "same"))
    guarded = one.to(done, when=stumbles)
    acted = one.to(done, do=stumbles)
    work = one.to(busy)
    counted = one.stay(do=count("n", "tok"))
    late = one.stay(do=later)
    frank = one.stay(takes=Frank)
    over = two.to(done, by="manager")
    paid = busy.on_done.to(done)


def sent(event: Event) -> Step | Refusal:
    """What a life that has just begun makes of an event."""
    return step(Told, start(Told, "t", now=NOW).unwrap().snapshot, event, NOW)


def told(outcome: Step | Refusal) -> str:
    """All that it tells the outside."""
    return encode([outcome.history, outcome.effects] if isinstance(outcome, Step) else outcome).decode()


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"chosen": SECRET}, {"chosen": HIDDEN}),
        ({"CHOSEN": SECRET}, {"CHOSEN": HIDDEN}),
        ({"bank": {"iban": SECRET, "name": "b"}}, {"bank": {"iban": HIDDEN, "name": "b"}}),
        ({"list": ["a", SECRET]}, {"list": [HIDDEN, HIDDEN]}),
        ({"text": '{"pin": "s3cret"}'}, {"text": HIDDEN}),
        ({"keys": {SECRET: 1, "other": 2}}, {"keys": {f"{HIDDEN} 1": 1, f"{HIDDEN} 2": 2}}),
        ({"numbers": {"4711": {"pin": SECRET}}}, {"numbers": {f"{HIDDEN} 1": {"pin": HIDDEN}}}),
        ({"pair": ["w", SECRET]}, {"pair": [HIDDEN, HIDDEN]}),
        ({"pair": {"word": "w", "pin": SECRET}}, {"pair": {"word": HIDDEN, "pin": HIDDEN}}),
    ],
    ids=str,
)
def test_a_mark_holds_by_every_way_to_a_value(data: dict[str, Any], shown: dict[str, Any]) -> None:
    """Lines of history and messages hide it, whatever name or form it came by."""
    done = sent(Told.tell(data))
    assert isinstance(done, Step)
    assert done.history[0].data == shown
    assert [each.data["data"] for each in done.effects if isinstance(each, PublishMessage)] == [shown]
    assert SECRET not in told(done)
    assert "4711" not in told(done)


def test_a_context_hides_what_it_is_kept_as() -> None:
    """Fields under the names they are kept by and computed ones, in messages, in their names and in asks."""
    done = sent(Told.fields())
    assert isinstance(done, Step)
    assert done.snapshot.context == {"tok": SECRET, "same": SECRET}
    [message] = [each for each in done.effects if isinstance(each, PublishMessage)]
    [ask] = [each for each in done.effects if isinstance(each, OpenedAsk)]
    assert message.name == f"told.{HIDDEN}"
    assert message.data == ask.shows == {"tok": HIDDEN, "same": HIDDEN}


def test_a_context_that_is_marked_as_a_whole_tells_none_of_its_fields() -> None:
    """Its fields keep their names, so that what is told keeps its form."""

    class Whole(Statechart, context=Sensitive[Kept]):
        """Marks its context."""

        on = State(initial=True)
        off = Final()
        end = on.to(off, emit=topic("told.{tok}", "tok"))

    done = step(Whole, start(Whole, "w", now=NOW).unwrap().snapshot, Whole.end(), NOW).unwrap()
    [message] = [each for each in done.effects if isinstance(each, PublishMessage)]
    assert (message.name, message.data) == (f"told.{HIDDEN}", {"tok": HIDDEN})


def test_what_a_state_says_on_the_way_hides_it() -> None:
    """The text of a progress is filled with what may be told, even when the work names a field so."""
    busy = sent(Told.work()).unwrap().snapshot
    [work] = busy.work.values()
    event = Event("work.progress", {"fraction": 0.5, "same": SECRET}, ref=work.id, attempt=1)
    [message] = step(Told, busy, event, NOW).unwrap().effects
    assert isinstance(message, PublishMessage)
    assert message.data["message"] == f"paying {HIDDEN} {HIDDEN}"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"keys": {SECRET: "x"}}, "keys: input should be a valid integer"),
        ({"keys": {SECRET: 1}, "amount": "x"}, "amount: input should be a valid integer"),
        ({"tagged": {"pin": SECRET}}, "tagged: the tag is none of the expected ones: 'leaf', 'bare'"),
        ({"checked": SECRET}, "checked: value error"),
        ({"checked": "short"}, "checked: value error, it has too few letters"),
        ({"checked": "typed"}, "TypeError"),
    ],
    ids=str,
)
def test_a_refusal_names_places_and_rules_only(data: dict[str, Any], words: str) -> None:
    """Neither keys that are secret nor tags nor texts of validators come back with it."""
    refused = sent(Told.tell(data))
    assert isinstance(refused, Refusal)
    assert refused.message.endswith(words)
    assert SECRET not in told(refused)


def test_a_type_without_marks_is_refused_in_full() -> None:
    """Where nothing is secret, the words of a validator are told as they are."""
    refused = sent(Told.frank({"word": "w"}))
    assert isinstance(refused, Refusal)
    assert "word: value error, word is not w" in refused.message


@pytest.mark.parametrize(
    ("event", "words"),
    [(Told.counted, f"counts whole numbers, not {HIDDEN}"), (Told.late, "not a duration")],
    ids=["count", "delay"],
)
def test_an_expression_of_the_wrong_kind_is_not_quoted(event: Callable[[], Event], words: str) -> None:
    """What it came to may be the secret."""
    refused = sent(event())
    assert isinstance(refused, Refusal)
    assert words in refused.message
    assert SECRET not in told(refused)


@pytest.mark.parametrize("event", [Told.guarded, Told.acted], ids=["guard", "action"])
def test_a_function_that_fails_is_named_with_the_class_of_its_error(event: Callable[[], Event]) -> None:
    """The text of an error may be the secret itself, such as the key that was looked for."""
    refused = sent(event())
    assert isinstance(refused, Refusal)
    assert refused.code == "fault"
    assert "stumbles failed: KeyError" in refused.message
    assert SECRET not in told(refused)


def test_an_error_that_nobody_expects_is_named_by_its_class() -> None:
    """A validator that fails in a way of its own is a mistake of the chart, told without the value."""
    with pytest.raises(InternalError, match=r"^KeyError$"):
        sent(Told.tell({"checked": "lost"}))


def test_an_upgrade_that_fails_says_no_more() -> None:
    """Its functions see the old context, and their errors may repeat it."""

    def moved(snapshot: Any) -> dict[str, Any]:
        return {}[snapshot.context["tok"]]

    class Next(Statechart, name="Told", version=2, upgrades={1: Upgrade(context=moved)}):
        """Marks nothing any more."""

        one = State(initial=True)
        done = Final()
        end = one.to(done)

    gap = upgrade_snapshot(Told.chart, Next.chart, start(Told, "t", now=NOW).unwrap().snapshot, NOW)
    assert isinstance(gap, UpgradeGap)
    assert "moved failed: KeyError" in str(gap)
    assert SECRET not in str(gap)
