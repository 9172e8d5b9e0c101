"""Settings: four sources, the later ones win, and a mistake is told where it was made."""

import json
import re
from pathlib import Path

import pytest

from headway.errors import InputError
from headway.settings import ABOUT, MASK, TYPES, Settings, load
from tests.cli.conftest import Headway

pytestmark = pytest.mark.mission("ENG-17")

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/settings.md").read_text(encoding="utf-8")


def test_later_sources_win_and_each_value_knows_its_own(folder: Path) -> None:
    """Defaults give way to the file, the file to variables, and those to options."""
    (folder / "headway.toml").write_text('database = "sqlite:///a.db"\nport = 1\nhost = "::1"\n')
    found = load(
        {"port": 3, "capacity": None}, environment={"HEADWAY_PORT": "2", "HEADWAY_HOST": "localhost"}
    )
    assert (found.settings.database, found.settings.host, found.settings.port) == (
        "sqlite:///a.db",
        "localhost",
        3,
    )
    sources = {each.name: each.source for each in found.values()}
    assert [sources[name] for name in ("capacity", "database", "host", "port")] == [
        "default",
        "headway.toml",
        "HEADWAY_HOST",
        "--port",
    ]


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("queues", "default, slow", ("default", "slow")),
        ("log_transitions", "yes", True),
        ("capacity", "7", 7),
        ("log", "json", "json"),
    ],
)
def test_variables_are_read_by_the_type_of_their_setting(variable: str, text: str, value: object) -> None:
    """Lists, flags and numbers are what they say."""
    found = load(environment={f"HEADWAY_{variable.upper()}": text})
    assert getattr(found.settings, variable) == value


@pytest.mark.parametrize(
    ("file", "environment", "said"),
    [
        ("databse = 'x'", {}, r"headway\.toml: there is no setting databse; did you mean database\?"),
        ("port = '80'", {}, r"headway\.toml: port must be a whole number, not '80'"),
        ("port = true", {}, r"headway\.toml: port must be a whole number, not True"),
        ("port = 70000", {}, r"headway\.toml: port must be a port, 0 to 65535"),
        ("grace = 'soon'", {}, r"headway\.toml: grace must be a duration such as 30s"),
        ("log = 'loud'", {}, r"headway\.toml: log must be auto or json or text, not 'loud'"),
        ("otlp = 'localhost:4318'", {}, r"headway\.toml: otlp must be empty, or a URL such as http://"),
        ("otlp = 'http://[::1'", {}, r"headway\.toml: otlp must be empty, or a URL such as http://"),
        ("queues = 'one'", {}, r"headway\.toml: queues must be a list of texts"),
        ("[[webhooks]]\nid = 'a'\nurl = 'https://x.example'", {}, r"webhooks is not .*missing.*`secret`"),
        ("port = ", {}, r"headway\.toml is not TOML"),
        (
            "",
            {"HEADWAY_PROT": "1"},
            r"environment: there is no setting HEADWAY_PROT; did you mean HEADWAY_PORT\?",
        ),
        ("", {"HEADWAY_CAPACITY": "many"}, r"HEADWAY_CAPACITY must be a whole number, not 'many'"),
        ("", {"HEADWAY_CONFIG": "gone.toml"}, r"gone\.toml cannot be read"),
    ],
)
def test_a_mistake_names_the_place_and_the_key(
    folder: Path, file: str, environment: dict[str, str], said: str
) -> None:
    """Whoever made it can mend it without looking for it."""
    (folder / "headway.toml").write_text(file)
    with pytest.raises(InputError, match=said):
        load(environment=environment)


def test_a_wrong_secret_is_not_repeated() -> None:
    """An error about a secret does not print it."""
    with pytest.raises(InputError) as told:
        load({"metrics_token": 1234567890}, environment={})
    assert "1234567890" not in str(told.value)


SECRETS = """\
database = "postgresql://me:geheim@db/x"
metrics_token = "tok-geheim"
link_secrets = ["link-geheim"]
[[webhooks]]
id = "billing"
url = "https://billing.example/geheim"
secret = "whsec_geheim"
"""


def test_the_command_masks_secrets(folder: Path, headway: Headway) -> None:
    """Neither the table nor the JSON shows a password, a token or a webhook's address."""
    (folder / "headway.toml").write_text(SECRETS)
    for arguments in ([], ["--json"]):
        shown = headway("config", *arguments)
        assert shown.code == 0
        assert "geheim" not in shown.out
        assert MASK in shown.out
        assert "postgresql://me:" in shown.out
    found = json.loads(headway("config", "--json").out)
    assert found["database"]["source"] == "headway.toml"
    assert found["port"] == {"value": 8000, "source": "default", "about": ABOUT["port"]}


def test_the_reference_lists_every_setting_with_its_default() -> None:
    """The page says what the code says, and of no setting that is gone."""
    rows = re.findall(r"^\| `(\w+)` \| .*? \| (?:`(.*?)`)? \| (.*) \|$", PAGE, re.MULTILINE)
    assert [name for name, _, _ in rows] == [*TYPES]
    for name, default, meaning in rows:
        assert meaning == ABOUT[name]
        value = getattr(Settings(), name)
        text = ", ".join(value) if isinstance(value, tuple) else str(value)
        assert default in {text, text.lower()}
