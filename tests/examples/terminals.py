"""Plays a page whose reader has two terminals: one runs a program, the other calls it and kills it.

- The block with ``<!-- terminal: office -->`` and a command starts a program that goes on. What it shows is
  waited for; in which order its lines come is not compared. A block without a command shows what follows.
- In a block with ``<!-- terminal: yours -->`` each command runs to its end and prints what is shown.
  ``kill -9`` kills the program of the other terminal.
"""

import os
import re
import shlex
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path

from tests.docs.pages import BIN, COMMAND, ROOT, TERMINAL, Block, blocks, same

LONGEST_WAIT = 60.0
PROMPT = "$ "


class Terminals:
    """The two terminals of a reader, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.office: subprocess.Popen[str] | None = None
        self.plays = {"office": self.watch, "yours": self.call}

    def play(self, text: str) -> None:
        """Follow a page from top to bottom, and stop what it has started."""
        try:
            for block in blocks(text):
                if block.note.startswith(TERMINAL):
                    self.plays[block.note.removeprefix(TERMINAL)](block)
        finally:
            if self.office is not None:
                self.office.kill()
                self.office.communicate()

    def watch(self, block: Block) -> None:
        """Start the program if the block says so, and wait for what it shows."""
        lines = block.body.splitlines()
        if lines[0].startswith(PROMPT):
            self.office = subprocess.Popen(
                self.command(lines.pop(0).removeprefix(PROMPT)),
                cwd=self.folder,
                env=self.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self.wait_for(lines)

    def wait_for(self, shown: Iterable[str]) -> None:
        """Read on until each line has been printed; a program that does not print it is ended."""
        assert self.office is not None
        assert self.office.stdout is not None
        missing, printed = list(shown), ""
        watchdog = threading.Timer(LONGEST_WAIT, self.office.kill)
        watchdog.start()
        try:
            while missing:
                line = self.office.stdout.readline()
                assert line, f"the page shows:\n{missing}\nbut this was printed:\n{printed}"
                printed += line
                missing = [each for each in missing if not is_like(each, line)]
        finally:
            watchdog.cancel()

    def call(self, block: Block) -> None:
        """Run each command to its end."""
        for command, shown in COMMAND.findall(block.body):
            if command.startswith("kill "):
                self.kill()
            else:
                result = subprocess.run(
                    self.command(command),
                    cwd=self.folder,
                    env=self.environment(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    check=False,
                )
                same(shown, result.stdout)

    def kill(self) -> None:
        """Kill as `kill -9` does: the program has no chance to clean up."""
        assert self.office is not None
        self.office.kill()
        self.office.communicate()

    def command(self, line: str) -> list[str]:
        """A command of the page, with this Python."""
        program, *arguments = shlex.split(line, comments=True)
        assert program == "python", f"nobody plays {program}"
        return [str(BIN / program), *arguments]

    def environment(self) -> dict[str, str]:
        """The reader is in a clone of the project; the files land in a folder of the test."""
        return os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}


def is_like(shown: str, line: str) -> bool:
    """Whether a line is the one shown, where `...` stands for anything."""
    pattern = ".*".join(re.escape(part) for part in shown.split("..."))
    return re.fullmatch(pattern, line.rstrip("\n")) is not None
