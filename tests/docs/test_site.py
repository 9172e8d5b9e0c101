"""The documentation builds as a site that loads nothing from other hosts."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT

MKDOCS = Path(sys.executable).with_name("mkdocs")
LOADED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["']?([^"'\s>]+)|<link[^>]*\shref=["']?([^"'\s>]+)"""
)


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    """Every page is in the navigation, every link has its target, and the browser asks no other host."""
    done = subprocess.run(
        [MKDOCS, "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = [*tmp_path.rglob("*.html")]
    assert len(pages) > 100
    loaded = {
        script or link
        for page in pages
        for script, link in LOADED.findall(page.read_text(encoding="utf-8"))
        if 'rel="canonical"' not in link
    }
    assert [address for address in loaded if "//" in address] == []
    assert [page.parent.name for page in pages if "<p>|" in page.read_text(encoding="utf-8")] == [], (
        "a split table"
    )
