"""The reference of the engine is complete: every call with its arguments, every error, and no others."""

import inspect
import re
from pathlib import Path
from types import FunctionType

import pytest

from headway import errors
from headway.engine.asks import Asks
from headway.engine.engine import Engine
from headway.engine.orders import Receipt
from headway.engine.tenant import Tenant
from headway.node import Node
from headway.outbox.destination import Backoff, Subscriber
from headway.outbox.endpoint import Endpoint
from headway.outbox.letters import Letters
from headway.outbox.message import Message
from headway.testing import Harness
from headway.worker import Again, Done, Fail, Handlers, Retention, Work

pytestmark = pytest.mark.mission("ENG-1")

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/engine.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
SECTIONS: dict[str, str] = dict(re.findall(r"^##+ (.+?)\n(.*?)(?=^##|\Z)", PROSE, re.MULTILINE | re.DOTALL))


def arguments(kind: type) -> set[str]:
    """What a class is made with."""
    return set(inspect.signature(kind).parameters)


def shown(kind: type) -> set[str]:
    """The methods and properties that a class shows to everybody."""
    return {name for name in dir(kind) if not name.startswith("_")}


def held(made: object) -> set[str]:
    """The attributes that an object shows to everybody."""
    return {name for name in vars(made) if not name.startswith("_")}


NODE = Node("sqlite:///:memory:")
TABLES: dict[str, set[str]] = {
    "Node": arguments(Node) | shown(Node) | held(NODE),
    "Tenant": shown(Tenant) | held(NODE.tenant()),
    "Answers": shown(Receipt),
    "Asks": shown(Asks),
    "Letters": shown(Letters),
    "Engine": shown(Engine),
    "Handlers": shown(Handlers),
    "Work": shown(Work),
    "Retention": shown(Retention),
    "Endpoint": arguments(Endpoint),
    "Subscriber": arguments(Subscriber),
    "Message": shown(Message),
    "Harness": arguments(Harness) | shown(Harness) | held(Harness()),
    "Errors": {
        name for name, kind in vars(errors).items() if inspect.isclass(kind) and name.endswith("Error")
    },
}
CALLS = {"Node": Node, "Tenant": Tenant, "Asks": Asks, "Letters": Letters, "Engine": Engine, "Work": Work}


def rows(section: str) -> dict[str, str]:
    """The rows of a section's tables, by the word that each is about."""
    return dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", SECTIONS[section], re.MULTILINE))


@pytest.mark.parametrize("section", TABLES)
def test_a_table_lists_every_word_of_its_part_and_no_other(section: str) -> None:
    """Whoever looks a call up finds it, and finds none that does not exist."""
    assert set(rows(section)) == TABLES[section]


METHODS = [
    pytest.param(section, name, id=f"{section}.{name}")
    for section, kind in CALLS.items()
    for name, method in vars(kind).items()
    if isinstance(method, FunctionType) and not name.startswith("_")
]


@pytest.mark.parametrize(("section", "name"), METHODS)
def test_a_call_is_shown_with_its_arguments(section: str, name: str) -> None:
    """The row of a call has its signature: the arguments, all of them, in their order."""
    signature = inspect.signature(getattr(CALLS[section], name))
    expected = [each for each in signature.parameters if each != "self"]
    written = re.search(rf"`(?:await )?{name}\(([^`]*)\)`", rows(section)[name])
    assert written, f"no signature in: {rows(section)[name]}"
    told = [re.split(r"[=:]", part)[0].strip(" *") for part in split(written[1])]
    assert [each for each in told if each] == expected


def split(text: str) -> list[str]:
    """The arguments of a signature; commas in brackets do not count."""
    return re.split(r",(?![^()]*\))", text)


@pytest.mark.parametrize("kind", [Done, Fail, Again], ids=lambda kind: kind.__name__)
def test_an_outcome_is_shown_with_its_arguments(kind: type) -> None:
    """Whoever ends work sees what to say."""
    [written] = re.findall(rf"^\| `{kind.__name__}\((.*)\)` \|", SECTIONS["Outcomes"], re.MULTILINE)
    assert {re.split("=", part)[0].strip(" *") for part in split(written)} == arguments(kind)


@pytest.mark.parametrize("maker", [Backoff.after, Backoff.growing])
def test_both_ways_to_make_a_backoff_are_told(maker: object) -> None:
    """Each with its arguments."""
    name = getattr(maker, "__name__", "")
    [written] = re.findall(rf"`Backoff\.{name}\(([^`]*)\)`", SECTIONS["Backoff"])
    for argument in inspect.signature(getattr(Backoff, name)).parameters:
        assert argument in written or argument == "waits"
