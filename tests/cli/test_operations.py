"""Commands of operators: letters that were not taken, and many instances at once, on each kind of store."""

import asyncio
import json
from typing import Any

import pytest

from headway.codec import replace
from headway.store.address import store_at
from headway.store.queries import Settlement
from headway.store.rows import Cursor
from tests.cli.conftest import Headway
from tests.store.contract.place import LETTER

pytestmark = pytest.mark.mission("ENG-2", "ENG-5", "ENG-14")


@pytest.fixture
def shop(headway: Headway, database: str, monkeypatch: pytest.MonkeyPatch) -> Headway:
    """Commands about the shop, on a database of its own."""
    monkeypatch.setenv("HEADWAY_DATABASE", database)
    monkeypatch.setenv("HEADWAY_APP", "tests.cli.shop:lifecycle")
    assert headway("db", "up").code == 0
    return headway


def told(shop: Headway, *arguments: str) -> Any:
    """What a command says to a program."""
    answer = shop(*arguments, "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


@pytest.fixture
def letters(shop: Headway, database: str) -> Headway:
    """Three dead letters of the tenant, and one of another."""

    async def keep() -> None:
        store = store_at(database)
        await store.open()
        await store.leases.hold([("", "a")], "n", 60_000)
        rows = tuple(
            replace(LETTER, tenant=tenant, id=f"m{position}", position=position, dead=True, data='"secret"')
            for position, tenant in enumerate(("default", "default", "default", "other"), 1)
        )
        assert await store.messages.settle(Settlement("a", "n", Cursor(), rows))
        await store.close()

    asyncio.run(keep())
    return shop


def ids(letters: Headway, *options: str) -> list[str]:
    """Which letters there are."""
    return [each["id"] for each in told(letters, "letters", "list", *options)]


def test_letters_are_listed_without_what_they_carry(letters: Headway) -> None:
    """Those of the tenant, for people and for programs."""
    assert ids(letters) == ["m1", "m2", "m3"]
    assert ids(letters, "--waiting") == []
    assert ids(letters, "--instance", "none") == []
    assert ids(letters, "--tenant", "other") == ["m4"]
    shown = letters("letters", "list", "--limit", "2").out
    assert "m2" in shown
    assert "m3" not in shown
    assert "secret" not in shown + letters("letters", "list", "--json").out


def test_letters_are_driven_again_and_given_up_only_when_told_so(letters: Headway) -> None:
    """Without --yes it is told which it would be; with it, those that were named are changed."""
    assert "--yes" in letters("letters", "redrive").out
    assert told(letters, "letters", "discard", "a")["count"] == 3
    assert ids(letters, "--dead") == ["m1", "m2", "m3"]
    assert told(letters, "letters", "redrive", "--id", "m2", "--yes")["count"] == 1
    assert ids(letters, "--waiting") == ["m2"]
    assert told(letters, "letters", "discard", "a", "--limit", "1", "--yes")["count"] == 1
    assert ids(letters) == ["m2", "m3"]
    assert told(letters, "letters", "discard", "a", "--waiting")["count"] == 1
    assert told(letters, "letters", "discard", "a", "--waiting", "--yes")["count"] == 1
    assert ids(letters) == ["m3"]
    assert ids(letters, "--tenant", "other") == ["m4"]


def states(shop: Headway) -> list[str]:
    """Where the instances stand."""
    return [each["status"] for each in told(shop, "instances", "list")]


def test_many_are_tried_first_and_then_changed(shop: Headway) -> None:
    """The dry run tells the same numbers as the change, and changes nothing."""
    for number in range(3):
        shop("create", "Order", f"o-{number}", "--context", '{"customer": "ann"}')
    shop("send", "o-2", "submit")
    tried = told(shop, "bulk", "send", "Order", "submit")
    assert states(shop) == ["draft", "draft", "review"]
    done = told(shop, "bulk", "send", "Order", "submit", "--request-id", "all", "--yes")
    assert (tried["seen"], tried["done"], tried["dry_run"]) == (3, 2, True)
    assert {**tried, "dry_run": False} == done
    assert sum(done["refused"].values()) == 1
    assert states(shop) == ["review"] * 3
    shown = shop("bulk", "cancel", "Order", "--status", "review", "--owner", "ann").out
    assert "3 instances: 3 would be done, 0 would be skipped" in shown
    assert shown.startswith("Dry run")
    assert "--yes" in shown
    assert told(shop, "bulk", "cancel", "Order", "--after", "o-0", "--reason", "recall", "--yes")["done"] == 2
    assert states(shop) == ["review", "rejected", "rejected"]
    assert told(shop, "bulk", "retry", "Order", "--yes")["skipped"] == 1


def test_a_wrong_command_says_so(shop: Headway) -> None:
    """Exit code 2, and one message."""
    assert shop("bulk", "send", "Order", "submit", "--data", "{").code == 2
    assert shop("letters", "discard").code == 2
    assert shop("bulk", "cancel").code == 2


def test_a_chart_or_a_state_that_is_none_is_no_success(shop: Headway) -> None:
    """What nothing can fit is an error, not an empty list."""
    unknown = shop("bulk", "cancel", "Odrer")
    assert (unknown.code, unknown.out) == (2, "")
    assert "no chart is called 'Odrer'" in unknown.err
    assert "--app" in unknown.err
    unknown = shop("bulk", "retry", "Order", "--status", "reviewed")
    assert (unknown.code, unknown.out) == (2, "")
    assert "Order has no state 'reviewed'; there are: draft, review" in unknown.err
    assert "none" in shop("bulk", "retry", "Order", "--status", "review").out
