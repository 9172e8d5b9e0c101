"""Runs the examples of a page of documentation and follows its links.

A page's examples run in order, in one namespace and one empty folder:

- a ``python`` block is executed, and with ``<!-- file: name.py -->`` before it also saved under that name,
  so that later blocks may import it;
- a ``text`` block with ``<!-- output -->`` before it is what the block above it printed;
- ``$ headway …`` and ``$ python …`` in a ``console`` block are run, and print what is shown below them, if
  anything is; other commands are for the reader;
- a block with ``<!-- from: examples/… -->`` before it is a part of that file, word for word;
- a block with ``<!-- terminal: … -->`` before it belongs to several processes: ``tests/examples`` plays it;
- ``...`` in an output stands for anything;
- ``<!-- example: skip because … -->`` leaves out the next block; the reason appears in the test report.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

BIN = Path(sys.executable).parent

BLOCK = re.compile(
    r"(?:^<!-- *(?P<note>[^\n]*?) *-->\n+)?^```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"^\$ (?P<command>[^\n]+)\n(?P<shown>(?:(?!\$ )[^\n]*\n)*)", re.MULTILINE)
PART = "from: "
TERMINAL = "terminal: "
ROOT = Path(__file__).resolve().parents[2]
SKIP = re.compile(r"example: skip because (?P<reason>\S.+)")
LINK = re.compile(r"(?<!`)\[[^\]\n]*\]\((?P<target>[^)\s]+)\)")
INDENTED = re.compile(r"^[ \t]+```(?:python|console)", re.MULTILINE)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page, with the comment that stands before it."""

    line: int
    note: str
    language: str
    body: str


def blocks(text: str) -> Iterator[Block]:
    """All fenced blocks of a page in order; `line` is the line of the opening fence."""
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("language")) + 1
        yield Block(line, match["note"] or "", match["language"], match["body"])


def same(shown: str, printed: str) -> None:
    """Compare what a page shows with what was printed, blanks at line ends aside."""
    shown, printed = (
        re.sub(r"[ \t]+$", "", text.strip("\n"), flags=re.MULTILINE) + "\n" for text in (shown, printed)
    )
    agree = doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS)
    assert agree, f"the page shows:\n{shown}\nbut this was printed:\n{printed}"


class Page:
    """Runs the examples of one page."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder = path, folder
        self.module = ModuleType(f"example_{path.stem.replace('-', '_')}")
        self.printed = ""

    def run(self) -> None:
        """Run each block by its language; the files it saved are no modules any more when it is over."""
        known = set(sys.modules)
        try:
            self.run_blocks(self.path.read_text(encoding="utf-8"))
        finally:
            for name in [name for name, module in sys.modules.items() if module is self.module]:
                if name not in known:
                    del sys.modules[name]

    def run_blocks(self, text: str) -> None:
        """Run each block by its language."""
        assert not INDENTED.search(text), "an indented example would never run: move it to the margin"
        for block in blocks(text):
            if SKIP.fullmatch(block.note) or block.note.startswith(TERMINAL):
                continue
            assert not block.note.startswith("example:"), (
                f"line {block.line}: a skipped example needs a reason"
            )
            if block.note.startswith(PART):
                whole = (ROOT / block.note.removeprefix(PART)).read_text(encoding="utf-8")
                assert block.body in whole, f"line {block.line}: the file says something else"
            elif block.language == "python":
                self.run_python(block)
            elif block.language == "console":
                self.run_console(block)
            elif block.note == "output":
                same(block.body, self.printed)

    def run_python(self, block: Block) -> None:
        """Execute a block so that its errors point to the line of the page."""
        if block.note.startswith("file: "):
            name = block.note.removeprefix("file: ")
            (self.folder / name).write_text(block.body, encoding="utf-8")
            sys.modules[name.removesuffix(".py")] = self.module
        code = compile("\n" * block.line + block.body, self.path, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(code, self.module.__dict__)  # noqa: S102 (the project's own documentation)
        self.printed = output.getvalue()

    def run_console(self, block: Block) -> None:
        """Run the project's own commands; one without shown output must succeed."""
        for command, shown in COMMAND.findall(block.body):
            program, *arguments = shlex.split(command, comments=True)
            if program not in ("headway", "python"):
                continue
            result = subprocess.run(
                [BIN / program, *arguments],
                cwd=self.folder,
                env=os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if shown.strip():
                same(shown, result.stdout)
            else:
                assert result.returncode == 0, f"$ {command}\n{result.stdout}"


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as code hosts spell them."""
    headings = HEADING.findall(BLOCK.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> Iterator[str]:
    """The relative links of a page that lead nowhere."""
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(BLOCK.sub("", text)):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        goal = page.parent / path if path else page
        if not goal.exists() or (anchor and anchor not in anchors(goal.read_text(encoding="utf-8"))):
            yield target
