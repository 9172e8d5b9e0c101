"""The processes of a run: started, killed, frozen, started again, and what they have noted."""

import asyncio
import signal
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from chaos.berth import Setting
from chaos.notes import Notes, read

ROOT = Path(__file__).resolve().parent.parent
KILLED = -signal.SIGKILL
LONGEST_START = 60


@dataclass
class Member:
    """A process under its name, whichever life it is in."""

    name: str
    role: str
    life: int = 0
    frozen: bool = False
    process: asyncio.subprocess.Process | None = None
    reading: asyncio.Task[None] | None = None
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    notes: Notes = field(default_factory=Notes)

    @property
    def runs(self) -> bool:
        """Whether its process has not ended."""
        return self.process is not None and self.process.returncode is None


class Fleet:
    """All processes of a run. Whoever ends without having been told to is a problem."""

    def __init__(self, seed: int, database: str, folder: Path, command: tuple[str, ...]) -> None:
        self._seed, self._database, self._folder = seed, database, folder
        self._command = command
        self.control = folder / "control"
        self.members: dict[str, Member] = {}
        self.problems: list[str] = []

    async def launch(self, crew: Iterable[tuple[str, str]]) -> None:
        """Start a process for each name and role: the first alone, so that it gets the leases of its node."""
        self.members = {name: Member(name, role) for name, role in crew}
        first, *others = self.members
        await self.start(first)
        await asyncio.gather(*map(self.start, others))

    async def start(self, name: str) -> None:
        """Begin a process's next life, where the one before was cut off, and wait for a sign of it."""
        member = self.members[name]
        member.life += 1
        member.heard.clear()
        member.frozen = False
        setting = Setting(
            name,
            member.role,
            self._seed,
            self._database,
            str(self.control),
            *_left(member.notes),
            member.life,
        )
        with self.log(name).open("ab") as log:
            member.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *self._command, setting.text()),
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        member.reading = asyncio.create_task(_read(member, member.process))
        async with asyncio.timeout(LONGEST_START):
            await member.heard.wait()

    async def kill(self, name: str) -> None:
        """Kill a process, as a loss of power would; what it had noted stays."""
        member = self.members[name]
        if member.process is not None and member.runs:
            member.process.kill()
        await self._ended(member, {KILLED, 0})

    def freeze(self, name: str) -> None:
        """Stop a process where it is."""
        self._signal(name, signal.SIGSTOP)
        self.members[name].frozen = True

    def thaw(self, name: str) -> None:
        """Let a process go on as if nothing had happened."""
        self._signal(name, signal.SIGCONT)
        self.members[name].frozen = False

    async def finish(self, role: str, seconds: float) -> None:
        """Wait until all of a role have ended by themselves."""
        for member in self.of(role):
            try:
                async with asyncio.timeout(seconds):
                    await self._ended(member, {0})
            except TimeoutError:
                self.problems.append(f"{member.name} does not come to an end")

    async def dismiss(self, role: str, seconds: float) -> None:
        """Tell all of a role to end in good order."""
        for member in self.of(role):
            if member.runs:
                self._signal(member.name, signal.SIGTERM)
        await self.finish(role, seconds)

    async def abandon(self) -> None:
        """Kill whatever still runs."""
        for member in self.members.values():
            if member.runs:
                await self.kill(member.name)

    def of(self, role: str) -> list[Member]:
        """All processes of a role."""
        return [member for member in self.members.values() if member.role == role]

    def look(self) -> None:
        """See whether anybody has ended who should not have."""
        for member in self.members.values():
            if member.process is not None and member.process.returncode not in {None, KILLED, 0}:
                self._report(member)
                member.process = None

    def log(self, name: str) -> Path:
        """Where a process complains."""
        return self._folder / f"{name}.log"

    @property
    def notes(self) -> Notes:
        """All notes of all processes."""
        return Notes(note for member in self.members.values() for note in member.notes)

    def _signal(self, name: str, number: signal.Signals) -> None:
        process = self.members[name].process
        if process is not None and process.returncode is None:
            process.send_signal(number)

    async def _ended(self, member: Member, expected: set[int]) -> None:
        if member.process is None or member.reading is None:
            return
        if await member.process.wait() not in expected:
            self._report(member)
        await member.reading
        member.process = None

    def _report(self, member: Member) -> None:
        assert member.process is not None
        last = "\n".join(self.log(member.name).read_text().splitlines()[-12:])
        self.problems.append(f"{member.name} ended by itself with {member.process.returncode}:\n{last}")


async def _read(member: Member, process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        member.notes.append(read(line))
        member.heard.set()
    member.heard.set()  # one that has ended says nothing more


def _left(notes: Notes) -> tuple[list[int], int]:
    """Which journeys were begun and not finished, and which is the first that was not begun."""
    begun = {note.facts["number"] for note in notes.of("sets out")}
    finished = {note.facts["number"] for note in notes.of("arrives")}
    return sorted(begun - finished), max(begun, default=-1) + 1
