"""`headway doctor`: finds what is wrong, and says how to mend it."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Headway

pytestmark = pytest.mark.mission("ENG-17", "ENG-18")

APP = ("--app", "tests.cli.shop:lifecycle")


def found(headway: Headway, *arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the checks by name."""
    outcome = headway("doctor", "--json", *arguments)
    return outcome.code, {check["name"]: check for check in json.loads(outcome.out)["checks"]}


def test_a_healthy_installation(headway: Headway, database: str) -> None:
    """All is well: settings, lifecycles, handlers, database, charts, clock; nothing was written."""
    headway("db", "up", "--database", database)
    code, checks = found(headway, *APP, "--database", database)
    assert code == 0
    names = ["settings", "lifecycles", "handlers", "database", "charts", "versions", "clock", "issuers"]
    names.append("destinations")
    assert {name: checks[name]["verdict"] for name in names} == dict.fromkeys(names, "ok")
    assert "✓" in headway("doctor", *APP, "--database", database).out


@pytest.mark.parametrize(
    ("settings", "name", "verdict", "said", "fix"),
    [
        ('app = "nix:da"', "lifecycles", "error", "there is no module 'nix'", "fix the module"),
        ('app = "tests.cli.shop:Order"', "handlers", "warning", "Order needs pay", "register them"),
        ('database = "sqlite:///gone.db"', "database", "warning", "no file gone.db", "headway db up"),
        (
            'database = "postgresql://x@127.0.0.1:1/x"',
            "database",
            "error",
            "PostgreSQL",
            "check that the server runs",
        ),
        (
            'redis = "redis://127.0.0.1:1/0"',
            "destinations",
            "warning",
            "no answer from redis",
            "check name, port",
        ),
        (
            'otlp = "http://127.0.0.1:1"',
            "destinations",
            "warning",
            "no answer from otlp (127.0.0.1:1)",
            "check name, port",
        ),
        (
            '[[issuers]]\nissuer = "https://a"\naudience = "b"\njwks = "gone.json"',
            "issuers",
            "error",
            "the keys at gone.json cannot be read: [Errno 2] No such file",
            "jwks of [[issuers]]",
        ),
        (
            '[[issuers]]\nissuer = "https://a"\naudience = "b"\njwks = "headway.toml"',
            "issuers",
            "error",
            "the keys at headway.toml cannot be read",
            "jwks of [[issuers]]",
        ),
        (
            '[[issuers]]\nissuer = "https://a"\naudience = "b"\njwks = "http://a/keys"',
            "issuers",
            "error",
            "a key set comes by https",
            "jwks of [[issuers]]",
        ),
        ("prot = 1", "settings", "error", "did you mean port?", "headway config"),
    ],
)
def test_each_trouble_has_its_remedy(
    folder: Path, headway: Headway, *, settings: str, name: str, verdict: str, said: str, fix: str
) -> None:
    """What is wrong is told in one line, and what to do about it in another."""
    (folder / "headway.toml").write_text(settings)
    code, checks = found(headway)
    assert checks[name]["verdict"] == verdict
    assert said in checks[name]["said"]
    assert fix in checks[name]["fix"]
    assert code == (verdict == "error")


@pytest.mark.mission("ENG-19")
def test_changed_code_of_a_guard_is_a_warning(folder: Path, headway: Headway) -> None:
    """It is told with function and chart before the new code is used, and a new start settles it."""
    source = (
        "from headway import Final, State, Statechart\n"
        "def may(view):\n"
        "    return view.context.get('amount', 0) > LIMIT\n"
        "class Claim(Statechart, version=1):\n"
        "    draft = State(initial=True)\n"
        "    paid = Final()\n"
        "    pay = draft.to(paid, when=may)\n"
    )
    database = ("--database", "sqlite:///claims.db")
    for name, limit in (("before", "100"), ("after", "200")):
        (folder / f"{name}.py").write_text(source.replace("LIMIT", limit))
    headway("db", "up", *database)
    headway("create", "Claim", "c-1", "--app", "before:Claim", *database)
    assert found(headway, "--app", "before:Claim", *database)[1]["charts"]["verdict"] == "ok"
    code, checks = found(headway, "--app", "after:Claim", *database)
    assert (code, checks["charts"]["verdict"]) == (0, "warning")
    assert checks["charts"]["said"] == "changed code: may of Claim v1"
    assert "new version" in checks["charts"]["fix"]


@pytest.mark.mission("ENG-5")
def test_messages_that_no_destination_takes_are_told(folder: Path, headway: Headway) -> None:
    """A published name that nobody gets is a warning; a webhook that takes one of them leaves the other."""
    code, checks = found(headway, *APP)
    assert (code, checks["messages"]["verdict"]) == (0, "warning")
    topic = "order.approved (topic of Order v1)"
    assert checks["messages"]["said"] == f"no destination takes {topic}, order.paid (webhook of Order v1)"
    assert "[[webhooks]]" in checks["messages"]["fix"]
    (folder / "headway.toml").write_text(
        '[[webhooks]]\nid = "shop"\nurl = "http://127.0.0.1:9/"\nallow_private = true\ntenant = "default"\n'
        'secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="\nevents = ["order.*"]\n'
    )
    _, checks = found(headway, *APP)
    assert checks["messages"]["said"] == f"no destination takes {topic}"


def test_a_broken_destination_is_one_error(folder: Path, headway: Headway) -> None:
    """What depends on the destinations is skipped: it has no second error of its own."""
    (folder / "headway.toml").write_text(
        '[[webhooks]]\nid = "shop"\nurl = "ftp://127.0.0.1/"\ntenant = "default"\nsecret = "short"\n'
    )
    code, checks = found(headway, *APP)
    assert (code, checks["destinations"]["verdict"]) == (1, "error")
    assert checks["messages"]["verdict"] == "skipped"


def test_a_schema_that_lags_and_a_chart_that_has_changed(folder: Path, headway: Headway) -> None:
    """Pending migrations and changed charts are errors before anybody runs into them."""
    database = ("--database", "sqlite:///shop.db")
    headway("db", "up", *database)
    headway("db", "down", "--yes", *database)
    _, checks = found(headway, *APP, *database)
    assert (checks["database"]["verdict"], checks["database"]["fix"]) == ("error", "headway db up")
    headway("db", "up", *database)
    headway("create", "Order", "o-1", *APP, *database)
    (folder / "later.py").write_text(
        "from headway import Final, State, Statechart\n"
        "class Order(Statechart, version=1):\n"
        "    draft = State(initial=True)\n"
        "    paid = Final()\n"
        "    pay = draft.to(paid)\n"
    )
    code, checks = found(headway, "--app", "later:Order", *database)
    assert code == 1
    assert "Order v1 differ from the stored charts" in checks["charts"]["said"]


def test_a_chart_that_is_not_loaded_matters_while_instances_live_by_it(
    folder: Path, headway: Headway
) -> None:
    """What is only stored harms nobody; what somebody lives by stands still here."""
    assert folder.is_dir()
    database = ("--database", "sqlite:///shop.db")
    headway("db", "up", *database)
    headway("create", "Order", "o-1", *APP, *database)
    _, checks = found(headway, "--app", "tests.cli.sample:Expense", *database)
    assert checks["charts"]["verdict"] == "warning"
    assert "Order" in checks["charts"]["said"]
    headway("cancel", "o-1", *APP, *database)
    _, checks = found(headway, "--app", "tests.cli.sample:Expense", *database)
    assert checks["charts"]["verdict"] == "ok"


def test_the_keys_of_an_issuer(folder: Path, headway: Headway) -> None:
    """A key set that can be read is well; one without any key verifies nothing, and that is told."""
    (folder / "headway.toml").write_text(
        '[[issuers]]\nissuer = "https://a"\naudience = "b"\njwks = "keys.json"\n'
    )
    for keys, verdict in (([], "error"), ([{"kty": "OKP", "crv": "Ed25519", "x": "AA"}], "ok")):
        (folder / "keys.json").write_text(json.dumps({"keys": keys}))
        _, checks = found(headway, *APP)
        assert checks["issuers"]["verdict"] == verdict


def test_a_port_and_a_receiver(folder: Path, headway: Headway) -> None:
    """A port in use is told; a receiver that listens is reachable."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (folder / "headway.toml").write_text(
            f'port = {port}\n[[webhooks]]\nid = "here"\nurl = "http://127.0.0.1:{port}/"\n'
            'secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"\nallow_private = true\n'
        )
        _, checks = found(headway, *APP)
        _, elsewhere = found(headway, *APP, "--port", "0")
    assert (checks["port"]["verdict"], checks["destinations"]["verdict"]) == ("warning", "ok")
    assert elsewhere["port"]["verdict"] == "ok"
