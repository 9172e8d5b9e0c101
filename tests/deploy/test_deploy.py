"""What is shipped for operators fits the program: commands, settings, files and units."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml  # type: ignore[import-untyped]

from headway.cli.main import app
from headway.settings import ELSEWHERE, TYPES, load

pytestmark = pytest.mark.mission("ENG-16", "ENG-17")

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
UNITS = sorted((DEPLOY / "systemd").iterdir())
VARIABLES = {f"HEADWAY_{name.upper()}" for name in TYPES} | ELSEWHERE


def commands() -> Iterator[list[str]]:
    """Every `headway` command that a container or a unit runs."""
    for service in COMPOSE["services"].values():
        if service.get("image") == "headway":
            yield service["command"]
    yield ["serve"]
    for unit in UNITS:
        for line in re.findall(
            r"^ExecStart=\S+/headway (.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE
        ):
            yield shlex.split(line)


@pytest.mark.parametrize("words", [*commands()], ids=" ".join)
def test_each_command_exists_with_these_options(words: list[str]) -> None:
    """A container that starts does not fail for a typing error."""
    command: Any = typer.main.get_command(app)
    words = [*words]
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context("headway", words)


def test_variables_are_settings() -> None:
    """Every HEADWAY_ variable in image, compose file and units is known, and its value can be read."""
    compose = COMPOSE["x-headway"]["environment"]
    image = dict(re.findall(r"(HEADWAY_\w+)=(\S+)", DOCKERFILE))
    units = "".join(unit.read_text(encoding="utf-8") for unit in UNITS)
    assert {*compose, *image, *re.findall(r"HEADWAY_\w+", units)} <= VARIABLES
    plain = {name: value for name, value in (compose | image).items() if "$" not in value}
    assert load(environment=plain).settings.drain == "5s"


def test_the_image_is_built_from_what_is_there() -> None:
    """Each file that is copied exists, and each extra that is installed is one of the project's."""
    for line in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE):
        assert all((ROOT / name).exists() for name in line.split())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [extras] = re.findall(r'"/source\[(.*)\]"', DOCKERFILE)
    assert {*extras.split(",")} <= {*project["optional-dependencies"]}


def test_services_wait_for_what_they_need() -> None:
    """Nothing starts before the schema is there; each dependency is a service, and has a check of its own."""
    services = COMPOSE["services"]
    for name, service in services.items():
        for needed, how in service.get("depends_on", {}).items():
            assert needed in services, name
            assert how["condition"] != "service_healthy" or "healthcheck" in services[needed]
    assert services["api"]["depends_on"]["schema"]["condition"] == "service_completed_successfully"
    assert {"api", "worker", "postgres", "redis"} <= {*services}
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in ports), "nothing is open to the network by default"


def test_there_is_time_to_drain() -> None:
    """Whoever stops a container or a unit waits longer than the service needs for an end in good order."""
    most = 5 + 30 + 5
    assert int(COMPOSE["x-headway"]["stop_grace_period"].removesuffix("s")) >= most
    for unit in UNITS:
        for seconds in re.findall(r"TimeoutStopSec=(\d+)", unit.read_text(encoding="utf-8")):
            assert int(seconds) >= most


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_valid(unit: Path, tmp_path: Path) -> None:
    """The tool of systemd itself has nothing to say about them, with the program in its place."""
    program = Path(sys.executable).with_name("headway")
    for each in UNITS:
        text = each.read_text(encoding="utf-8").replace("/opt/headway/bin/headway", str(program))
        (tmp_path / each.name).write_text(text)
    name = unit.name.replace("@.", "@1.")
    if name != unit.name:
        (tmp_path / name).write_text((tmp_path / unit.name).read_text())
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / name],  # noqa: S607 - wherever the system has it
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
