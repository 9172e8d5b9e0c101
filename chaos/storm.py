"""The conductor: lets processes work on one database, and lets everything happen to them that can."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from chaos import disk, rows
from chaos.audit import Audit
from chaos.berth import TENANT
from chaos.charts import CHARTS, LEASE, LIVES, Door
from chaos.control import Control, Disk, WrongClock
from chaos.fleet import Fleet
from chaos.places import Place
from chaos.worker import WITNESS
from headway.engine.engine import Engine
from headway.outbox.message import message_of
from headway.store.address import store_at
from headway.store.queries import LetterQuery
from headway.store.rows import Cursor, MessageRow

CREW = (
    ("keeper", "keeper"),
    ("worker-1", "worker"),
    ("worker-2", "worker"),
    ("sender-1", "sender"),
    ("sender-2", "sender"),
    ("client-1", "client"),
    ("client-2", "client"),
)
PROCESS = ("chaos.process",)
FEW = 10
LONGEST_LEASE = 35.0
SHORTEST_SPELL, LONGEST_SPELL = 0.02, 10.0
OF_THE_DISK: dict[str, Disk] = {
    "fill the disk": "full",
    "let writes fail": "unwritable",
    "let syncs fail": "unsynced",
    "let reads fail": "unreadable",
}
FAIL: dict[Disk, tuple[disk.Kind, ...]] = {
    "full": ("write",),
    "unwritable": ("write",),
    "unsynced": ("sync",),
    "unreadable": ("read", "open"),
}
"""What is waited for: the first happens all the time and must fail; files are opened at a start."""
CLOCK_WRONG_BY = (-20.0, 20.0)
Said = Callable[[str, float], None]


@dataclass(frozen=True)
class Plan:
    """What a run does: for how long, by which chance, and what happens in it; nothing named is everything.

    With `every_act_once` each act comes at least once, however long that takes. `calm` are the seconds
    between two acts; at the end, `patience` is how long nothing may change before all is at rest.
    """

    seconds: float = 60.0
    every_act_once: bool = False
    seed: int = 0
    acts: tuple[str, ...] = ()
    crew: Sequence[tuple[str, str]] = CREW
    command: tuple[str, ...] = PROCESS
    patience: float = 60.0
    calm: float = 0.3


@dataclass
class Result:
    """What was done, what was noted, and which guarantees do not hold."""

    plan: Plan
    kind: str
    acts: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """What could not be done here."""


class Storm:
    """One run on one database."""

    def __init__(
        self, place: Place, folder: Path, plan: Plan, said: Said = lambda _what, _share: None
    ) -> None:
        self._place, self._plan, self._said = place, plan, said
        self._random = Random(plan.seed)
        self._fleet = Fleet(plan.seed, place.address, folder, plan.command)
        self._control = Control(self._fleet.control)
        self._latest = 0.0
        self._result = Result(plan, place.kind)
        if place.kind == "sqlite" and not disk.can_fail():
            self._result.left_out += OF_THE_DISK

    async def run(self) -> Result:
        """Storm, settle, audit."""
        await self._place.prepare()
        try:
            await self._fleet.launch(self._plan.crew)
            await self._rage()
            await self._settle()
        finally:
            await self._fleet.abandon()
        return self._result

    async def _rage(self) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await asyncio.sleep(self._plan.calm)
        acts = self._acts()
        while self._goes_on(passed := loop.time() - begun, acts):
            name = acts.pop() if acts else self._random.choice([*self._possible()])
            self._said(name, min(passed / (self._plan.seconds or 1.0), 1.0))
            self._result.acts[name] += 1
            await self._possible()[name]()
            self._fleet.look()
            await asyncio.sleep(self._random.uniform(self._plan.calm / 2, self._plan.calm))

    def _goes_on(self, passed: float, acts: list[str]) -> bool:
        return passed < self._plan.seconds or (self._plan.every_act_once and bool(acts))

    def _acts(self) -> list[str]:
        """Everything once, in an order of chance, before anything comes a second time."""
        acts = [*self._possible()]
        self._random.shuffle(acts)
        return acts

    def _possible(self) -> dict[str, Callable[[], Awaitable[None]]]:
        anywhere = {
            "kill a sender": lambda: self._kill("sender"),
            "kill a client": lambda: self._kill("client"),
            "kill a worker": lambda: self._kill("worker"),
            "kill the keeper": lambda: self._kill("keeper"),
            "freeze a worker": lambda: self._freeze("worker"),
            "freeze the keeper": lambda: self._freeze("keeper"),
        }
        own: dict[str, dict[str, Callable[[], Awaitable[None]]]] = {
            "sqlite": {
                "set the clock wrong": self._set_clock,
                **{name: partial(self._spoil_disk, disk) for name, disk in OF_THE_DISK.items()},
            },
            "postgres": {"kill PostgreSQL": self._kill_server},
        }
        possible = {**anywhere, **own[self._place.kind]}
        wanted = {*(self._plan.acts or possible)}.difference(self._result.left_out)
        return {name: act for name, act in possible.items() if name in wanted}

    async def _kill(self, role: str) -> None:
        member = self._random.choice(self._fleet.of(role))
        await self._fleet.kill(member.name)
        await asyncio.sleep(self._random.uniform(0, self._plan.calm))
        await self._fleet.start(member.name)

    async def _freeze(self, role: str) -> None:
        """Who wakes up finds its work with others; the keeper, too, where its leases can be made to end."""
        member = self._random.choice(self._fleet.of(role))
        self._fleet.freeze(member.name)
        if role == "keeper" and self._place.kind == "sqlite":
            self._latest += LONGEST_LEASE
            self._control.offset = self._latest
        await asyncio.sleep(LEASE * self._random.uniform(1.1, 1.5))
        self._fleet.thaw(member.name)

    async def _set_clock(self) -> None:
        self._control.offset = self._latest + self._random.uniform(*CLOCK_WRONG_BY)
        self._latest = max(self._latest, self._control.offset)
        await asyncio.sleep(self._plan.calm)
        # What is due by a clock that was ahead would come only when time has caught up.
        self._control.offset = self._latest

    async def _spoil_disk(self, state: Disk) -> None:
        """Let the disk be bad for a while, and until calls have failed: an act that does nothing is none."""
        before = self._failures(state)
        self._control.disk = state
        member = self._random.choice([*self._fleet.members.values()])
        await self._fleet.kill(member.name)  # who starts on a bad disk opens its files there
        starting = asyncio.create_task(self._fleet.start(member.name))
        await asyncio.sleep(self._random.uniform(self._plan.calm, 2 * self._plan.calm))
        must, *may = FAIL[state]
        if not await self._has_failed(state, must, before):
            self._result.problems.append(f"the disk was {state} for {LONGEST_SPELL} s, and no {must} failed")
        for kind in may:
            await self._has_failed(state, kind, before)
        self._control.disk = "well"
        await starting

    async def _has_failed(self, state: Disk, kind: disk.Kind, before: Counter[str]) -> bool:
        """Wait until a call of a kind has failed, but not for ever."""
        try:
            async with asyncio.timeout(LONGEST_SPELL):
                while self._failures(state)[kind] == before[kind]:  # noqa: ASYNC110 - they tell only by notes
                    await asyncio.sleep(SHORTEST_SPELL)
        except TimeoutError:
            return False
        return True

    def _failures(self, state: Disk) -> Counter[str]:
        """How often which kind of call has failed, in all processes."""
        notes = self._fleet.notes.of("disk error")
        return Counter(note.facts["call"] for note in notes if note.facts["disk"] == state)

    async def _kill_server(self) -> None:
        server = self._place.server
        assert server is not None
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(self._random.uniform(0, self._plan.calm))
        await asyncio.to_thread(server.start)

    # When it is over, everything must come to rest by itself.

    async def _settle(self) -> None:
        self._said("everything comes to rest", 1.0)
        self._control.ending = True
        fleet, patience = self._fleet, self._plan.patience
        await fleet.finish("sender", patience)
        await fleet.finish("client", patience)
        await self._know_all()
        engine = Engine(store_at(self._place.address, clock=WrongClock(self._control)), CHARTS)
        await engine.open()
        try:
            await self._remove_doors(engine)
            self._result.problems += await self._rest(engine)
            for role in ("worker", "keeper"):
                await fleet.dismiss(role, patience)
            audit = Audit(engine.store, self._place.address, fleet.notes)
            self._result.problems += await audit.problems()
            self._result.counts = audit.counts
        finally:
            await engine.close()
        self._result.problems += [*fleet.problems, *self._complaints()]

    async def _know_all(self) -> None:
        """Replace the nodes by such as know all versions: what the last ones did not know has waited."""
        for member in (*self._fleet.of("keeper"), *self._fleet.of("worker")):
            await self._fleet.kill(member.name)
            await self._fleet.start(member.name)

    async def _remove_doors(self, engine: Engine) -> None:
        for row in await engine.store.instances.living(Door.chart.name, ("", ""), 10_000):
            await engine.send(TENANT, row.id, Door.remove())

    async def _rest(self, engine: Engine) -> list[str]:
        """Wait until every instance has ended and every message was taken; what has not is a problem.

        A busy machine may need long; only a time in which nothing changes any more is too long.
        """
        last, loop = (-1, -1), asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._plan.patience) as limit:
                while last != (0, 0):
                    left = (len(await self._alive(engine)), len(await self._under_way(engine)))
                    if left != last:
                        limit.reschedule(loop.time() + self._plan.patience)
                    last = left
                    await asyncio.sleep(0.1)  # other processes bring it to rest, and tell nobody
        except TimeoutError:
            alive, waiting = await self._alive(engine), await self._under_way(engine)
            ends = [f"{name} has not ended: {await engine.why(TENANT, name)}" for name in alive[:FEW]]
            return [*ends, *[await self._untaken(engine, each) for each in waiting[:FEW]]]
        return []

    async def _untaken(self, engine: Engine, message: MessageRow) -> str:
        cursor = await engine.store.messages.consumer(WITNESS) or Cursor()
        letters = await engine.store.letters.page(LetterQuery(destination=WITNESS, ids=(message.id,)))
        lost = message.cursor <= cursor and not letters
        fate = "and the relay is past it" if lost else "it still waits"
        return f"nobody took {message.name} of {message.instance} ({message.id}), {fate}"

    async def _alive(self, engine: Engine) -> list[str]:
        pages = [await engine.store.instances.living(each.chart.name, ("", ""), 100) for each in LIVES]
        return [row.id for page in pages for row in page]

    async def _under_way(self, engine: Engine) -> list[MessageRow]:
        taken = {note.facts["id"] for note in self._fleet.notes if note.what == "takes"}
        return [each async for each in rows.topics(engine.store) if message_of(each).id not in taken]

    def _complaints(self) -> list[str]:
        """Errors that nobody has foreseen stand in the logs with their traceback."""
        logs = {name: self._fleet.log(name).read_text() for name in self._fleet.members}
        return [f"{name} met an error:\n{text[-2000:]}" for name, text in logs.items() if "Traceback" in text]
