"""Writes the table of layers in CONTRIBUTING.md from the layer contract in pyproject.toml.

python -m scripts.layers
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
PACKAGE = ROOT / "src" / "headway"
MARKED = re.compile(r"<!-- layers -->\n.*?<!-- /layers -->", re.DOTALL)
NAME = re.compile(r"\w+")


def layers() -> list[list[str]]:
    """The layers from the top, each with its modules that exist."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    [contract] = [each for each in contracts["contracts"] if each["type"] == "layers"]
    return [names for line in contract["layers"] if (names := [*filter(exists, NAME.findall(line))])]


def exists(name: str) -> bool:
    """Whether the package has such a module."""
    return not name.startswith("__") and ((PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file())


def purpose(name: str) -> str:
    """The first line of a module's docstring."""
    folder = PACKAGE / name
    path = folder / "__init__.py" if folder.is_dir() else PACKAGE / f"{name}.py"
    found = re.match(r'"""(.+?)(?:"""|\n)', path.read_text(encoding="utf-8"))
    return found[1].rstrip(".") if found else ""


def table() -> str:
    """One row for each module, from the top layer to the bottom."""
    rows = [
        f"| {number} | `{name}` | {purpose(name)} |"
        for number, names in enumerate(layers(), 1)
        for name in names
    ]
    return "\n".join(["| layer | module of `headway` | purpose |", "|---|---|---|", *rows])


def written(page: str) -> str:
    """A page with the table as it is now."""
    return MARKED.sub(lambda _: f"<!-- layers -->\n{table()}\n<!-- /layers -->", page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
