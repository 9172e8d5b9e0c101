"""The import contracts of pyproject.toml fail when they are broken, and only then."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINT = Path(sys.executable).with_name("lint-imports")

LEGAL = {
    "errors.py": "",
    "codec.py": "import msgspec\nimport headway.errors",
    "statechart/types.py": "import pydantic\nimport headway.codec",
    "statechart/step/step.py": "import headway.statechart.types",
    "statechart/authoring/reader.py": "",
    "statechart/check/check.py": "import headway.statechart.step.step",
    "statechart/drawings/dot.py": "",
    "statechart/explore/explore.py": "import headway.statechart.step.step",
    "statechart/scxml/document.py": "",
    "statechart/upgrade/instance.py": "",
    "engine/engine.py": "import headway.store.address",
    "store/address.py": "",
    "store/migrate.py": "",
    "store/postgres/store.py": "",
    "store/sqlite/store.py": "",
    "telemetry/logs.py": "",
    "api/app.py": "import headway.engine.engine",
    "client/client.py": "import httpx\nimport headway.codec",
    "settings.py": "",
    "http.py": "import headway.api.app",
    "lifecycles/crawls/chart.py": "import headway.statechart",
    "lifecycles/crawls/api.py": "import headway.http",
    "lifecycles/interviews/chart.py": "",
    "testing/plugin.py": "import hypothesis, pytest\nimport headway.lifecycles.crawls.chart",
    "cli/main.py": "import rich, typer\nimport headway.cli.explorer",
    "cli/explorer/app.py": "import starlette, uvicorn",
}

BROKEN = [
    ("errors.py", "import headway.statechart", "Imports point down only"),
    ("store/port.py", "import headway.statechart", "Imports point down only"),
    ("unplaced.py", "", "Imports point down only"),
    ("statechart/step/step.py", "import time", "The core and every chart do no I/O"),
    (
        "statechart/step/step.py",
        "import headway.statechart.drawings.dot",
        "The step knows nothing of checking, exploring, drawing and upgrading",
    ),
    ("errors.py", "import socket", "The core and every chart do no I/O"),
    ("lifecycles/crawls/chart.py", "import urllib.request", "The core and every chart do no I/O"),
    ("lifecycles/crawls/api.py", "import headway.lifecycles.interviews", "Lifecycles do not know each other"),
    (
        "lifecycles/crawls/chart.py",
        "import headway.statechart.types",
        "Lifecycles import only public modules",
    ),
    (
        "lifecycles/crawls/handlers.py",
        "import headway.engine.engine",
        "Lifecycles import only public modules",
    ),
    (
        "api/app.py",
        "import headway.store.sqlite.store",
        "The outer layers reach the store through the engine",
    ),
    ("client/verbs.py", "import headway.settings", "The client stands alone"),
    (
        "client/verbs.py",
        "import httpx",
        "httpx lives in headway.outbox.webhook and the drivers of the client",
    ),
    ("engine/engine.py", "import msgspec", "msgspec lives in headway.codec"),
    (
        "engine/engine.py",
        "import pydantic",
        "pydantic lives in headway.statechart.types, and in queries of HTTP",
    ),
    ("drawing.py", "import rich.table", "typer and rich live in headway.cli"),
    (
        "cli/main.py",
        "import uvicorn",
        "FastAPI, starlette and uvicorn live in headway.api and the explorer",
    ),
    ("api/access.py", "import jwt", "jwt lives in headway.api.tokens"),
    ("statechart/explore/explore.py", "import hypothesis", "hypothesis and pytest live in headway.testing"),
]


def broken_contracts(folder: Path, modules: dict[str, str]) -> list[str]:
    """Lint a package of these modules with the project's own contracts."""
    for name, source in modules.items():
        module = folder / "headway" / name
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(source)
        for package in module.relative_to(folder).parents[:-1]:
            (folder / package / "__init__.py").touch()
    shutil.copy(ROOT / "pyproject.toml", folder)
    result = subprocess.run(
        [LINT, "--no-logo", "--no-cache"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Contracts: " in result.stdout, result.stdout + result.stderr
    broken = re.findall(r"^(.+) BROKEN", result.stdout, re.MULTILINE)
    assert result.returncode == bool(broken)
    return broken


def test_legal_imports_keep_every_contract(tmp_path: Path) -> None:
    """Packages that do not exist yet and imports that point down are fine."""
    assert broken_contracts(tmp_path, LEGAL) == []


@pytest.mark.parametrize(("module", "source", "contract"), BROKEN)
def test_an_illegal_import_breaks_its_contract(
    tmp_path: Path, module: str, source: str, contract: str
) -> None:
    """Each contract notices a module that breaks it."""
    assert broken_contracts(tmp_path, LEGAL | {module: source}) == [contract]
