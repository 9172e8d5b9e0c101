"""Plays a page whose reader has several terminals: programs run in some, and are called from another.

- A block with ``<!-- terminal: yours -->`` has commands that run to their end and print what is shown. The
  process id 4711 is that of the program in the terminal ``office``. ``headway why`` is repeated for a while,
  because work goes on meanwhile. The id of an instance that a command creates stands for the real one.
- In a block of any other terminal, such as ``<!-- terminal: service -->``, a command goes on. The lines that
  are shown below it are waited for; in which order they come is not compared. ``^C`` interrupts the program.
- ``<!-- terminal: save file.py -->`` saves the block, ``<!-- terminal: edit file.py -->`` applies it as a
  diff.

Every terminal is a shell of its own, so its commands may change folders and set variables.
"""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.docs.pages import BIN, ROOT, TERMINAL, Block, blocks, same

LONGEST_WAIT = 120.0
PROMPT, INTERRUPT = "$ ", "^C"
YOURS, OFFICE = "yours", "office"
PROCESS_ID = "4711"
END = "the command has ended"
NEW_ID = re.compile(r'(?<=^{"id":")\w+_[0-9a-f]{16}(?=")')
WATCHING, REPEATS = "headway why ", 20


class Shell:
    """A shell with what its commands print."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            ["/bin/bash"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def start(self, command: str) -> None:
        """Give it a command, and do not wait."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{{ {command}\n}} </dev/null\n")
        self._process.stdin.flush()

    def run(self, command: str) -> tuple[str, int]:
        """What a command prints until it ends, and its exit code."""
        self.start(command)
        self.start(f"echo {END} $?")
        printed = ""
        for line in self.lines():
            before, end, code = line.partition(END)
            printed += before
            if end:
                return printed, int(code)
        raise AssertionError(f"the shell ended:\n{printed}")

    def wait_for(self, shown: Iterable[str]) -> None:
        """Read on until each line has been printed."""
        missing, printed = list(shown), ""
        for line in self.lines() if missing else ():
            printed += line
            missing = [each for each in missing if not is_like(each, line)]
            if not missing:
                return
        assert not missing, f"the page shows:\n{missing}\nbut this was printed:\n{printed}"

    def lines(self) -> Iterator[str]:
        """What it prints, line by line; a shell that prints nothing for long is ended."""
        assert self._process.stdout is not None
        while True:
            watchdog = threading.Timer(LONGEST_WAIT, self.kill)
            watchdog.start()
            try:
                line = self._process.stdout.readline()
            finally:
                watchdog.cancel()
            if not line:
                return
            yield line

    @property
    def programs(self) -> list[int]:
        """The process ids of what runs in it."""
        shell = self._process.pid
        return [*map(int, Path(f"/proc/{shell}/task/{shell}/children").read_text().split())]

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        for program in self.programs:
            os.kill(program, signal.SIGINT)

    def kill(self) -> None:
        """End it, and what runs in it."""
        os.killpg(self._process.pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()
        self._process.communicate()


class Terminals:
    """The terminals of a reader, in a folder of their own; `replaced` are texts of the page to change."""

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        replaced: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self._environment, self._replaced = environment or {}, dict(replaced or {})
        self._shells: dict[str, Shell] = {}

    def play(self, text: str) -> None:
        """Follow a page from top to bottom, and stop what it has started."""
        try:
            for block in blocks(text):
                if block.note.startswith(TERMINAL):
                    self._play(block, *block.note.removeprefix(TERMINAL).split())
        finally:
            for shell in self._shells.values():
                with shell:
                    pass

    def _play(self, block: Block, terminal: str, file: str = "") -> None:
        if terminal == "save":
            (self.folder / file).write_text(block.body, encoding="utf-8")
        elif terminal == "edit":
            edit(self.folder / file, block.body)
        else:
            for command, shown in steps(block.body):
                self._type(terminal, self._here(command), [self._here(line) for line in shown])

    def _type(self, terminal: str, command: str, shown: list[str]) -> None:
        shell = self._shell(terminal)
        if terminal == YOURS:
            if PROCESS_ID in command.split():
                [program] = self._shell(OFFICE).programs
                command = command.replace(PROCESS_ID, str(program))
            self._call(shell, command, "\n".join(shown))
            return
        if command == INTERRUPT:
            shell.interrupt()
        elif command:
            shell.start(command)
        shell.wait_for(shown)

    def _call(self, shell: Shell, command: str, shown: str) -> None:
        """Run a command to its end; it prints what is shown, or succeeds if nothing is."""
        for _ in range(REPEATS if command.startswith(WATCHING) else 0):
            with suppress(AssertionError):
                same(shown, shell.run(command)[0])
                return
        printed, code = shell.run(command)
        self._replaced |= dict(zip(NEW_ID.findall(shown), NEW_ID.findall(printed), strict=False))
        if shown:
            same(self._here(shown), printed)
        else:
            assert code == 0, f"$ {command}\n{printed}"

    def _here(self, text: str) -> str:
        """A text of the page, with what differs here."""
        for there, here in self._replaced.items():
            text = text.replace(there, here)
        return text

    def _shell(self, name: str) -> Shell:
        if name not in self._shells:
            self._shells[name] = Shell(self.folder, self._environment_of_reader())
        return self._shells[name]

    def _environment_of_reader(self) -> dict[str, str]:
        """The reader is in a clone of the project; the files land in a folder of the test."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
        reader = {
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "COLUMNS": "100",
            "NO_COLOR": "1",
        }
        return {**own, **reader, **self._environment}


def steps(body: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a block with the lines shown below it; lines before the first one have none."""
    command, shown = "", list[str]()
    for line in re.sub(r"\\\n *", "", body).splitlines():
        if line.startswith(PROMPT) or line == INTERRUPT:
            if command or shown:
                yield command, shown
            command, shown = line.removeprefix(PROMPT), []
        else:
            shown.append(line)
    yield command, shown


def edit(file: Path, diff: str) -> None:
    """Replace the lines of a file as a diff says; it has one place that fits."""
    lines = diff.splitlines()
    before, after = (
        "".join(f"{line[1:]}\n" for line in lines if not line.startswith(left_out)) for left_out in "+-"
    )
    text = file.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{file.name} does not have these lines once:\n{before}"
    file.write_text(text.replace(before, after), encoding="utf-8")


def is_like(shown: str, line: str) -> bool:
    """Whether a line is the one shown, where `...` stands for anything."""
    pattern = ".*".join(re.escape(part) for part in shown.split("..."))
    return re.fullmatch(pattern, line.rstrip("\n")) is not None
