"""A real PgBouncer in front of the tests' PostgreSQL: on a Unix socket in a folder of its own."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Literal, Self

PORT = 6432
PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
CONFIG = """
[databases]
* = host={server} user=headway

[pgbouncer]
listen_port = {port}
listen_addr =
unix_socket_dir = {folder}
auth_type = any
pool_mode = {mode}
default_pool_size = 20
logfile = {folder}/log
"""
LONGEST_START = 30.0


class PgBouncer:
    """A pooler with its default settings, in one of its modes, for the length of a block."""

    def __init__(self, address: str, mode: Literal["session", "transaction"]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="headway-pgbouncer-"))
        server = re.search(r"host=([^&]+)", address)
        assert server, "the tests' PostgreSQL listens on a Unix socket"
        self._server = Path(server[1])
        self._config = CONFIG.format(server=server[1], port=PORT, folder=self._folder, mode=mode)
        self.address = address.replace(f"host={server[1]}", f"host={self._folder}&port={PORT}")

    def __enter__(self) -> Self:
        """Start, and wait until it takes connections."""
        assert PROGRAM, "there is no pgbouncer: scripts/setup tests"
        file = self._folder / "pgbouncer.ini"
        file.write_text(self._config, encoding="utf-8")
        rights = self._rights()
        silent = subprocess.DEVNULL
        self._process = subprocess.Popen([PROGRAM, file], stdout=silent, stderr=silent, **rights)
        end = time.monotonic() + LONGEST_START
        while not (self._folder / f".s.PGSQL.{PORT}").exists():
            assert self._process.poll() is None, "pgbouncer has ended"
            assert time.monotonic() < end, "pgbouncer does not start"
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder)

    def _rights(self) -> dict[str, Any]:
        """Those of the server, because neither runs as root."""
        if os.getuid() != 0:
            return {}
        owner = self._server.stat()
        os.chown(self._folder, owner.st_uid, owner.st_gid)
        return {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
