"""Commands on the database: begin, move, look at and explain instances, on each kind of store."""

import asyncio
import json
import re
import sqlite3
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headway.node import Node
from tests.cli.conftest import Headway
from tests.cli.shop import Order

pytestmark = pytest.mark.mission("ENG-2", "ENG-6", "ENG-7", "ENG-8", "ENG-14")

APP = "tests.cli.shop:lifecycle"
SIGNED_BY = "a secret for links"


@pytest.fixture
def shop(headway: Headway, database: str, monkeypatch: pytest.MonkeyPatch) -> Headway:
    """Commands about the shop, on a database of its own."""
    monkeypatch.setenv("HEADWAY_DATABASE", database)
    monkeypatch.setenv("HEADWAY_APP", APP)
    assert headway("db", "up").code == 0
    return headway


def test_a_life_from_the_command_line(shop: Headway) -> None:
    """Create, send, look into the inbox, answer, and see the history: text for people, JSON for programs."""
    begun = json.loads(shop("create", "Order", "o-1", "--context", '{"customer": "ann"}', "--json").out)
    assert (begun["ok"], begun["instance"], begun["states"]) == (True, "o-1", ["draft"])
    assert "✓ o-1 is in review" in shop("send", "o-1", "submit", "--by", "ann").out
    [ask] = json.loads(shop("inbox", "--by", "bob", "--role", "manager", "--json").out)
    assert (ask["instance"], ask["shows"]) == ("o-1", {"customer": "ann"})
    assert ask["id"] in shop("inbox", "--role", "manager").out
    assert json.loads(shop("inbox", "--by", "bob", "--json").out) == []
    assert "manager" in shop("why", "o-1").out
    taken = json.loads(shop("answer", ask["id"], "approve", "--by", "bob", "--role", "manager", "--json").out)
    assert taken["states"] == ["paying"]
    rows = json.loads(shop("instances", "history", "o-1", "--json").out)
    assert [(row["event"], row["after"]) for row in rows] == [
        ("start", "draft"),
        ("submit", "review"),
        ("approve", "paying"),
    ]
    assert "approve" in shop("instances", "history", "o-1").out
    assert json.loads(shop("why", "o-1", "--json").out)["work"][0]["handler"] == "pay"


def test_no_command_acts_as_somebody_who_looks_like_another(shop: Headway) -> None:
    """An id or a tenant with a space behind it, or with what shows nothing, is refused with the reason."""
    shop("create", "Order", "o-1")
    for command in (
        ("send", "o-1", "submit", "--by", "ann "),
        ("inbox", "--by", "ann\u200b"),
        ("inbox", "--role", "manager "),
        ("inbox", "--tenant", "acme "),
        ("answer", "o-1:2:0", "approve", "--by", "\uff41nn"),
        ("keys", "create", "ann "),
    ):
        outcome = shop(*command)
        assert outcome.code != 0, command
        assert "must" in outcome.err


@pytest.mark.mission("ENG-8")
def test_a_link_is_made_on_the_command_line(
    shop: Headway, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its token opens for the person and answers; without a secret, and for a closed ask, it says why not."""
    shop("create", "Order", "o-1")
    shop("send", "o-1", "submit")
    made_for = ("link", "o-1:2:0", "--for", "eve", "--role", "manager")
    without = shop(*made_for)
    assert (without.code, "link_secrets" in without.err) == (2, True)
    monkeypatch.setenv("HEADWAY_LINK_SECRETS", SIGNED_BY)
    token = shop(*made_for, "--lasts", "2d").out.strip()
    told = json.loads(shop(*made_for, "--json").out)
    assert (told["ask"], told["person"], told["roles"]) == ("o-1:2:0", "eve", ["manager"])

    async def by_link() -> tuple[str, timedelta, Any]:
        node = Node(database, [Order], secrets=[SIGNED_BY])
        async with node.opened():
            link, _ = await node.asks.open_link(token)
            lasts = link.expires_at - await node.engine.store.now()
            return link.by.id, lasts, await node.asks.answer_link(token, "approve")

    person, lasts, answer = asyncio.run(by_link())
    assert (person, answer.states) == ("eve", ("paying",))
    assert timedelta(days=1) < lasts <= timedelta(days=2)
    closed = shop(*made_for)
    assert (closed.code, "the ask o-1:2:0 is closed" in closed.err) == (2, True)


def test_what_is_refused_says_why_and_ends_with_one(shop: Headway) -> None:
    """A refusal names what would be possible; nothing is changed."""
    shop("create", "Order", "o-1")
    refused = shop("send", "o-1", "approve", "--role", "manager")
    assert (refused.code, refused.out[0]) == (1, "✗")
    told = json.loads(shop("send", "o-1", "approve", "--json").out)
    assert (told["ok"], told["code"]) == (False, "illegal")
    assert json.loads(shop("instances", "show", "o-1", "--json").out)["states"] == ["draft"]


def test_a_repeated_request_gets_the_first_answer(shop: Headway) -> None:
    """The same request id does not begin a second life."""
    answers = [shop("create", "Order", "--request-id", "form 7", "--json").out for _ in range(2)]
    assert answers[0] == answers[1]
    assert len(json.loads(shop("instances", "list", "--json").out)) == 1


def test_lists_are_filtered_and_go_on(shop: Headway) -> None:
    """By state, by owner, living or ended, from after one on; another tenant's are not there."""
    for name, owner in (("o-1", "ann"), ("o-2", "bob"), ("o-3", "ann")):
        shop("create", "Order", name, "--context", json.dumps({"customer": owner}))
    assert "✓ o-2 is in rejected" in shop("cancel", "o-2").out

    def listed(*arguments: str) -> list[str]:
        return [row["id"] for row in json.loads(shop("instances", "list", *arguments, "--json").out)]

    assert listed() == ["o-1", "o-2", "o-3"]
    assert listed("--owner", "ann") == ["o-1", "o-3"]
    assert listed("--ended") == ["o-2"]
    assert listed("--living", "--limit", "1") == ["o-1"]
    assert listed("--after", "o-1") == ["o-2", "o-3"]
    assert listed("--tenant", "other") == []
    assert "go on with --after o-1" in shop("instances", "list", "--limit", "1").out


def test_no_name_or_reason_can_speak_to_the_terminal(shop: Headway) -> None:
    """What callers have chosen moves no cursor, colours nothing, and adds no line to the tail."""
    name = "o-1\x1b[2J\x9b5m\ro-2"
    refused = shop("create", "Order", name, "--by", "ann\x1b]0;root\x07")
    assert refused.code
    shop("create", "Order", name, "--by", "ann")
    shop("send", name, "submit", "--by", "ann", "--reason", "fine\n12:00:00 o-9 paid")
    tail = shop("tail", "--since", "0-0", "--count", "2").out
    assert len(tail.splitlines()) == 2
    looks = (("instances", "list"), ("instances", "show", name), ("instances", "history", name))
    for told in (
        refused.err,
        tail,
        *(shop(*look).out for look in (*looks, ("why", name), ("inbox", "--role", "manager"))),
    ):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", told), told
    assert json.loads(shop("instances", "list", "--json").out)[0]["id"] == name


def test_the_tail_goes_on_from_where_it_is_told(shop: Headway) -> None:
    """Events since a cursor, one a line, each with the id to go on from."""
    shop("create", "Order", "o-1")
    shop("send", "o-1", "submit")
    lines = shop("tail", "--since", "0-0", "--count", "2", "--json").out.splitlines()
    first, second = map(json.loads, lines)
    assert [(each["instance"], each["to"]) for each in (first, second)] == [
        ("o-1", "draft"),
        ("o-1", "review"),
    ]
    [again] = shop("tail", "--since", first["id"], "--count", "1", "--json").out.splitlines()
    assert json.loads(again) == second
    assert "o-1 submit → review" in shop("tail", "--since", first["id"], "--count", "1").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("why", "gone"), "there is no instance gone"),
        (("send", "gone", "submit"), "there is no instance gone"),
        (("answer", "o-1:1:0"), "there is no ask o-1:1:0"),
        (("link", "o-1:1:0", "--for", "eve"), "there is no ask o-1:1:0"),
        (("link", "o-1:1:0", "--for", ""), "--for"),
        (("link", "o-1:1:0", "--for", "eve", "--lasts", "soon"), "soon"),
        (("create", "Nix"), "no chart is called 'Nix'; registered: Order"),
        (("create", "Order", "--context", "{"), "--context is not JSON"),
        (("tail", "--since", "yesterday"), "not a cursor"),
        (("create", "Order", "--app", "tests.cli.shop:nothing"), "is of type int: name a Lifecycle"),
        (("create", "Order", "--app", "tests.cli.shop:lifecylce"), "did you mean lifecycle"),
        (("keys", "revoke", "gone"), "there is no key gone"),
        (("keys", "create", "bot", "--scope", "fly"), "there is no scope 'fly'"),
    ],
)
def test_a_mistake_is_one_message(shop: Headway, arguments: tuple[str, ...], said: str) -> None:
    """No traceback: what is wrong, and exit code 2."""
    outcome = shop(*arguments)
    assert outcome.code == 2
    assert said in outcome.err
    assert "Traceback" not in outcome.err


def test_a_chart_that_is_none_leaves_nothing_behind(headway: Headway) -> None:
    """The chart is looked for first: before the database, and before other charts are stored in it."""
    missing = headway("create", "Typo", "t-1")
    assert missing.code == 2
    assert "no chart is called 'Typo'" in missing.err
    assert "name its lifecycle with --app" in missing.err
    headway("db", "up")
    assert headway("create", "Typo", "t-1").code == 2
    with closing(sqlite3.connect("headway.db")) as database:
        assert database.execute("SELECT count(*) FROM chart_version").fetchone() == (0,)


def test_an_instance_whose_chart_is_not_loaded_says_what_helps(
    shop: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the most common thing to forget."""
    shop("create", "Order", "o-1")
    monkeypatch.delenv("HEADWAY_APP")
    outcome = shop("send", "o-1", "submit")
    assert outcome.code == 2
    assert "does not know chart Order v1; it knows no version of it\nname its lifecycle" in outcome.err


def test_an_ask_that_never_was_is_not_called_closed(shop: Headway) -> None:
    """Who has mistyped looks for the right one, and does not think that somebody was faster."""
    shop("create", "Order", "o-1", "--context", '{"customer": "ann"}')
    shop("send", "o-1", "submit")
    outcome = shop("answer", "o-1:7:7", "approve", "--role", "manager")
    assert (outcome.code, "there is no ask o-1:7:7" in outcome.err) == (2, True)


def test_why_says_that_no_handler_is_known_here(shop: Headway, folder: Path) -> None:
    """Work without a handler may wait for ever; its times are told as in tables."""
    (folder / "lone.py").write_text(
        "from headway import Final, State, Statechart\n"
        "class Lone(Statechart, version=1):\n"
        '    working = State(initial=True, run="nobody", timeout="1m")\n'
        "    ended = Final()\n"
        "    done = working.on_done.to(ended)\n"
        "    broken = working.on_error.to(ended)\n"
    )
    shop("create", "Lone", "l-1", "--app", "lone:Lone")
    said = shop("why", "l-1", "--app", "lone:Lone").out
    assert "has a handler nobody: the work waits" in said
    assert re.search(r"due \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ\.", said)


def test_output_in_a_pipe_is_not_wrapped(shop: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of a table is one line for the next program, however long it is and however wide the terminal."""
    monkeypatch.setenv("COLUMNS", "40")
    reason = "because " * 40 + "it is late"
    shop("create", "Order", "o-1")
    shop("cancel", "o-1", "--reason", reason)
    assert any(
        line.rstrip().endswith(reason) for line in shop("instances", "history", "o-1").out.splitlines()
    )


def test_printed_times_carry_their_zone(shop: Headway) -> None:
    """Tables, single instances and followed events say that a time is UTC."""
    shop("create", "Order", "o-1")
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    for command in (
        ("instances", "list"),
        ("instances", "history", "o-1"),
        ("tail", "--since", "0-0", "--count", "1"),
    ):
        printed = shop(*command).out
        assert re.findall(time + "Z", printed)
        assert len(re.findall(time + "Z", printed)) == len(re.findall(r"\d\d:\d\d:\d\d", printed))


def test_ids_and_times_are_never_broken(shop: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are copied from narrow terminals; what is empty says so."""
    assert shop("instances", "list").out == "none\n"
    for name, value in {"COLUMNS": "40", "LINES": "25", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    key = json.loads(shop("keys", "create", "a-service-of-ours", "--lasts", "90d", "--json").out)
    name = "a-very-long-name-of-an-instance-that-does-not-fit"
    shop("create", "Order", name, "--context", '{"customer": "ann"}')
    assert re.search(rf"{key['id']} .* until \d{{4}}-\d\d-\d\d ", shop("keys", "list").out)
    assert re.search(rf"{name} .* \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\dZ ", shop("instances", "list").out)
    told = shop("instances", "history", name).out
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ  start ", told, re.MULTILINE)


def test_looking_makes_no_database(folder: Path, headway: Headway) -> None:
    """A file that is not there is told, not made."""
    outcome = headway("instances", "list")
    assert (outcome.code, "there is no database headway.db" in outcome.err) == (2, True)
    assert list(folder.iterdir()) == []


def test_keys_are_made_rotated_and_revoked(shop: Headway) -> None:
    """Only a new secret is printed, and the list never shows one."""
    made = json.loads(shop("keys", "create", "robot", "--scope", "send", "--role", "clerk", "--json").out)
    assert made["key"].startswith(f"hw_{made['id']}_")
    rotated = shop("keys", "rotate", made["id"]).out.strip()
    assert rotated.startswith(f"hw_{made['id']}_")
    assert rotated != made["key"]
    listed = shop("keys", "list", "--json").out
    [row] = json.loads(listed)
    assert (row["actor"], row["scopes"], row["roles"]) == ("robot", ["send"], ["clerk"])
    assert "secret" not in listed
    assert shop("keys", "revoke", made["id"]).code == 0
    assert "revoked" in shop("keys", "list").out
    assert {note["what"] for note in json.loads(shop("keys", "log", made["id"], "--json").out)} >= {
        "made",
        "rotated",
        "revoked",
    }


def test_a_lifecycle_may_come_from_a_function(shop: Headway) -> None:
    """A function gets the settings and returns what is run."""
    assert shop("create", "Order", "o-1", "--app", "tests.cli.shop:made").code == 0
