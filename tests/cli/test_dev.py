"""`headway serve --dev`: restarts when the source changes, and is for one machine only."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from headway.cli.dev import SourceFiles, require_local
from headway.cli.output import CommandError
from headway.settings import Settings
from tests.cli.conftest import Headway
from tests.cli.running import Running, calls

pytestmark = pytest.mark.mission("ENG-17", "ENG-19")

SHOP = '''\
"""A shop."""

from headway import Final, State, Statechart


class Order(Statechart, version=1):
    """An order."""

    draft = State(initial=True)
    sent = Final()
    submit = draft.to(sent, emit="order.sent")
'''
GIFT = SHOP.replace("    submit", "    given = Final()\n    give = draft.to(given)\n    submit")
ARGUMENTS = ("serve", "--dev", "--app", "shop:Order", "--port", "0", "--database", "sqlite:///shop.db")


@pytest.fixture
def dev(folder: Path) -> Iterator[Running]:
    """A service in development."""
    (folder / "shop.py").write_text(SHOP)
    with Running(*ARGUMENTS, folder=folder) as service:
        yield service


def changed(service: Running, folder: Path, source: str) -> None:
    """Save another source, and wait until the service has started with it."""
    seen, service.printed = service.printed, ""
    (folder / "shop.py").write_text(source)
    service.ready()
    service.printed = seen + service.printed


def test_a_changed_chart_is_served_under_its_version(dev: Running, folder: Path) -> None:
    """Instances survive the restart and take the new event, under the same address and key."""
    with calls(dev.ready(), dev.key) as client:
        begun = client.post("/v1/instances", json={"chart": "Order", "id": "o-1", "context": {}})
        assert begun.status_code == 201, begun.text
        assert client.post("/v1/instances/o-1/events", json={"event": "give"}).status_code == 409
        changed(dev, folder, GIFT)
        given = client.post("/v1/instances/o-1/events", json={"event": "give"})
        assert (given.status_code, given.json()["states"]) == (200, ["given"])
    assert "shop.py changed: restarting" in "".join(dev.errors)
    assert "charts may change under their version" in dev.printed
    assert dev.end() == 0
    assert "".join(dev.errors).count("no destination takes") == 1, "not at each restart"


def test_an_instance_in_a_renamed_state_breaks_no_inbox(dev: Running, folder: Path, headway: Headway) -> None:
    """The restart and doctor name it, and the asks of others are listed as before."""
    begin = {"chart": "Order", "context": {}}
    asked = SHOP.replace("draft = State(initial=True)", 'draft = State(initial=True, ask=Ask("boss"))')
    asked = asked.replace("import Final", "import Ask, Final")
    dev.ready()
    changed(dev, folder, asked)
    with calls(dev.ready(), dev.key) as client:
        assert client.post("/v1/instances", json=begin | {"id": "o-1"}).status_code == 201
        changed(dev, folder, asked.replace("draft", "begun"))
        dev.until_error("o-1 is in draft, which Order no longer has: rename the state back")
        assert client.post("/v1/instances", json=begin | {"id": "o-2"}).status_code == 201
        boss = headway("keys", "create", "sue", "--role", "boss", "--database", ARGUMENTS[-1]).out.strip()
    with calls(dev.ready(), boss) as client:
        asks = client.get("/v1/asks")
        assert asks.status_code == 200, asks.text
        assert [ask["instance"] for ask in asks.json()["items"]] == ["o-2"]
    assert dev.end() == 0
    checked = headway("doctor", "--app", "shop:Order", "--database", ARGUMENTS[-1])
    assert (checked.code, "o-1 is in draft, which Order no longer has" in checked.out) == (1, True)


def test_without_dev_a_changed_chart_needs_a_version(dev: Running, folder: Path, headway: Headway) -> None:
    """What development allows is refused by a service that is not in development."""
    dev.ready()
    assert dev.end() == 0
    (folder / "shop.py").write_text(GIFT)
    outcome = headway("serve", *ARGUMENTS[2:])
    assert (outcome.code, "stored with different contents" in outcome.err) == (2, True)


def test_a_mistake_is_shown_and_can_be_mended(dev: Running, folder: Path) -> None:
    """A module that cannot be imported ends the child, not the command."""
    dev.ready()
    (folder / "shop.py").write_text("class Order(\n")
    dev.until_error("SyntaxError")
    dev.until_error("waiting for a change")
    changed(dev, folder, SHOP)
    assert dev.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_with_its_child(dev: Running, number: int) -> None:
    """Ctrl-C and SIGTERM stop both processes in good order."""
    address = dev.ready()
    assert dev.end(number) == 0
    assert "Stopped." in "".join(dev.errors)
    with pytest.raises(httpx.ConnectError):
        httpx.get(address)


def test_a_killed_parent_takes_its_child_along(dev: Running) -> None:
    """The child closes what it prints to, which ends the readers."""
    dev.ready()
    dev.process.kill()
    dev.process.wait()
    dev.hear_out()
    assert not any(reader.is_alive() for reader in dev.readers)


def test_a_service_open_to_the_network_is_no_place_for_it(headway: Headway, folder: Path) -> None:
    """Neither a host nor a database of others, unless an option allows it."""
    (folder / "shop.py").write_text(SHOP)
    outcome = headway(*ARGUMENTS, "--host", "0.0.0.0")  # noqa: S104 - refused
    assert (outcome.code, "0.0.0.0 is open to the network" in outcome.err) == (2, True)
    assert not (folder / "shop.db").exists()


@pytest.mark.parametrize(
    ("database", "server"),
    [
        ("postgresql://me@db.example:5432/shop", "db.example"),
        ("postgresql://me@/shop?host=db.example", "db.example"),
        ("postgresql://me@localhost/shop", ""),
        ("postgresql://me@[::1]:5432/shop", ""),
        ("postgresql://me@/shop?host=/var/run/postgresql", ""),
        ("postgresql://me@127.0.0.1,db.example:5432/shop", "db.example"),
        ("postgresql://me@/shop?host=localhost,db.example:5433", "db.example"),
        ("postgresql://me@localhost:5432,[::1]:5433/shop", ""),
        ("postgresql://me@%2Fvar%2Frun%2Fx/shop", ""),
        ("postgresql://me:p%40x@LOCALHOST/shop?host=db.example", ""),
        ("postgresql://me@/shop?service=live", "the service live"),
        ("sqlite:///shop.db", ""),
    ],
)
def test_a_database_of_others_is_left_alone(database: str, server: str) -> None:
    """Charts are replaced in a database on this machine only."""
    settings = Settings(database=database)
    if not server:
        require_local(settings, None)
        return
    with pytest.raises(CommandError, match=f"the one at {server} is not on this machine"):
        require_local(settings, None)


@pytest.mark.parametrize(
    ("database", "server"),
    [
        ("postgresql://me@/shop", "db.example"),
        ("postgresql:///shop?user=me", "db.example"),
        ("postgresql://me@localhost/shop", ""),
        ("sqlite:///shop.db", ""),
    ],
)
def test_the_host_of_the_environment_counts(
    database: str, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PGHOST says where a database is whose address has no host."""
    monkeypatch.setenv("PGHOST", "localhost,db.example")
    test_a_database_of_others_is_left_alone(database, server)


def test_settings_that_change_are_checked_again(folder: Path) -> None:
    """A database of others is left alone, too, when a later start reads its address."""
    (folder / "shop.py").write_text(SHOP)
    (folder / "headway.toml").write_text('database = "sqlite:///shop.db"\n')
    with Running(*ARGUMENTS[:-2], folder=folder) as service:
        service.ready()
        (folder / "headway.toml").write_text('database = "postgresql://me@db.invalid/shop"\n')
        service.until_error("the one at db.invalid is not on this machine")
        assert service.end() == 0


def test_loopback_is_this_machine() -> None:
    """A socket on 127.0.0.1 is fine."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        require_local(Settings(), listening)


def test_source_files_that_change_are_named_once(tmp_path: Path) -> None:
    """New, changed and deleted ones; nothing in virtual environments and hidden folders, and no data."""
    package, venv, hidden = tmp_path / "shop", tmp_path / "venv", tmp_path / ".git"
    for place in (package, venv, hidden):
        place.mkdir()
    (venv / "pyvenv.cfg").touch()
    (package / "chart.py").write_text("one")
    (package / "old.py").touch()
    sources = SourceFiles(tmp_path)
    assert sources.changed() == []
    (package / "chart.py").write_text("one more")
    (package / "old.py").unlink()
    (tmp_path / "headway.toml").touch()
    for foreign in (venv / "lib.py", hidden / "hook.py", tmp_path / "shop.db"):
        foreign.touch()
    assert sources.changed() == [tmp_path / "headway.toml", package / "chart.py", package / "old.py"]
    assert sources.changed() == []
    os.utime(package / "chart.py", ns=(1, 1))
    assert sources.changed() == [package / "chart.py"]
