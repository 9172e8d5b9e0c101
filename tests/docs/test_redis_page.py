"""What the page about Redis shows happens on a real server."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, same
from tests.outbox.redis_server import RedisProcess

PAGE = (ROOT / "docs/how-to/redis.md").read_text(encoding="utf-8")
PROGRAM = re.compile(
    r"<!-- file: (?P<name>\w+\.py) -->\n(?:<!-- .* -->\n)?```python\n(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@pytest.mark.mission("ENG-5", "ENG-17")
async def test_the_program_of_the_page_runs_on_a_server(tmp_path: Path) -> None:
    """Channel, stream and mirror get what the page says."""
    for program in PROGRAM.finditer(PAGE):
        (tmp_path / program["name"]).write_text(program["body"], encoding="utf-8")
    [shown] = [block.body for block in blocks(PAGE) if block.language == "text"]
    folder = tmp_path / "redis"
    folder.mkdir()
    async with RedisProcess(folder) as redis:
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "office.py"],
            cwd=tmp_path,
            env=os.environ | {"REDIS_URL": redis.url},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    same(shown, done.stdout)
