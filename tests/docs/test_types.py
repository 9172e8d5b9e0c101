"""What the documentation shows passes the strictest type checker, so readers may copy it into typed code.

Each page becomes a package. A block saved as a file is a module of that name, and the other blocks are one
module together (or one each, where they define the same class again); all keep their lines.
"""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PART, ROOT, SKIP, Block, blocks
from tests.docs.test_examples import PAGES

FILE = "file: "


def examples(text: str) -> list[Block]:
    """The Python blocks of a page that are run; parts of a file are checked with their file."""
    return [
        each
        for each in blocks(text)
        if each.language == "python" and not SKIP.fullmatch(each.note) and not each.note.startswith(PART)
    ]


def modules(text: str) -> Iterator[tuple[str, list[Block]]]:
    """The modules of a page: their names, and the blocks in each."""
    found = examples(text)
    saved = [each for each in found if each.note.startswith(FILE)]
    last = {each.note: each for each in saved}
    for block in saved:
        name = block.note.removeprefix(FILE).removesuffix(".py")
        yield (name if last[block.note] is block else f"{name}_{block.line}"), [block]
    rest = [each for each in found if each not in saved]
    classes = [
        node.name for each in rest for node in ast.parse(each.body).body if isinstance(node, ast.ClassDef)
    ]
    if len(classes) == len(set(classes)):
        yield "page", rest
    else:
        yield from ((f"line_{each.line}", [each]) for each in rest)


def placed(together: list[Block], siblings: set[str]) -> str:
    """The text of a module, with every line where it stands on the page; saved files are its siblings."""
    lines: list[str] = []
    for block in together:
        lines += [""] * (block.line - len(lines)) + block.body.splitlines()
    own = re.compile(rf"^from (?=(?:{'|'.join(siblings)}) import )") if siblings else re.compile(r"(?!)")
    return "\n".join(own.sub("from .", line) for line in lines) + "\n"


def package(page: Path, text: str, folder: Path) -> None:
    """Write the examples of a page as a package that is named after it."""
    home = folder / re.sub(r"\W", "_", str(page.with_suffix("")))
    home.mkdir()
    (home / "__init__.py").touch()
    made = dict(modules(text))
    for name, together in made.items():
        (home / f"{name}.py").write_text(placed(together, set(made) - {"page"}), encoding="utf-8")


def complaints(folder: Path) -> list[str]:
    """What the type checker says about the packages in a folder, by page and line."""
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=.cache", "."],
        cwd=folder,
        env=os.environ | {"MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not result.stderr, result.stderr
    named = {re.sub(r"\W", "_", str(path.with_suffix(""))): str(path) for path in pages()}
    found = re.findall(r"^(\w+)/\w+\.py:(\d+): (.+)$", result.stdout, re.MULTILINE)
    assert bool(found) == bool(result.returncode), result.stdout
    return [f"{named.get(home, home)}:{line}: {said}" for home, line, said in found]


def pages() -> list[Path]:
    """Every page, by its place in the project."""
    return [page.relative_to(ROOT) for page in PAGES]


def test_the_examples_of_every_page_pass_strict_type_checks(tmp_path: Path) -> None:
    """A reader with a strict type checker can copy what a page shows."""
    for page in pages():
        package(page, (ROOT / page).read_text(encoding="utf-8"), tmp_path)
    found = complaints(tmp_path)
    assert not found, "\n".join(found)


PROBE = """# Title

<!-- file: one.py -->
```python
a: int = 1
```

```python
from one import a

b: str = a
```
"""


@pytest.mark.parametrize("again", ["", "\n```python\nclass A: ...\n```\n\n```python\nclass A: ...\n```\n"])
def test_a_complaint_names_page_and_line(tmp_path: Path, again: str) -> None:
    """Whoever reads a failure finds the line, whether a page's blocks are one module or several."""
    package(pages()[0], PROBE + again, tmp_path)
    [complaint] = complaints(tmp_path)
    assert complaint.startswith(f"{pages()[0]}:11: error: Incompatible types")
