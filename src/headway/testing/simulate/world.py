"""A simulated world from one seed: processes on one database, clients, receivers, and faults."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from logging import ERROR, Handler, LogRecord, getLogger
from random import Random
from typing import Any
from unittest.mock import patch

from headway.engine.engine import Engine
from headway.engine.upgrade import versions
from headway.outbox.destination import Destination
from headway.statechart.chart import Chart
from headway.statechart.snapshot import Actor
from headway.store.rows import Key, TimerRow
from headway.testing.memory.tables import Tables
from headway.testing.simulate.audit import Auditor
from headway.testing.simulate.chaos import Chaos, Deploy
from headway.testing.simulate.clients import ClientChoices, SimulatedClient, names
from headway.testing.simulate.database import ConnectionFaults, DatabaseClock, UnreliableStore
from headway.testing.simulate.final_check import FinalCheck
from headway.testing.simulate.loop import StandstillError, generator, new_loop
from headway.testing.simulate.process import KEPT, KEPT_SHORTLY, HandlerFaults, Parts, Process, watched
from headway.testing.simulate.receivers import KINDS, DeliveryLog, Receiver, ReceiverFaults, Recorded
from headway.testing.simulate.scenario import Scenario
from headway.testing.simulate.witness import Trace, Witness

LOG = getLogger("headway")
PATIENCE = 240.0
"""Seconds within which all work must be finished after the faults have ended."""
FAR_AWAY = 4.0
"""If nothing is due within this many seconds, the database's clock jumps to the next due time."""


class ViolationError(AssertionError):
    """A guarantee does not hold."""


class World:
    """One run. `violations` lists the guarantees that do not hold, `trace` what happened."""

    def __init__(self, seed: int, scenario: Scenario) -> None:
        self.seed, self.scenario = seed, scenario
        random = self._random = generator(f"{seed}/{scenario.name}")
        self.loop = new_loop(random.random())
        self.trace = Trace(lambda: self.loop.now)
        self.violations: list[str] = []
        self.tables = Tables()
        self.clock = DatabaseClock(self.loop)
        self.connection_faults = ConnectionFaults(generator(random.random()))
        self.handler_faults = HandlerFaults(generator(random.random()))
        self.receiver_faults = [ReceiverFaults(generator(random.random())) for _ in KINDS]
        self.prunes = random.random() < 0.3  # noqa: PLR2004 - in three worlds of ten
        """Whether instances are pruned soon after they have ended."""
        self.witness = Witness(self.violated)
        self.charts = {(chart.name, chart.version): chart for chart in scenario.compiled}
        self.auditor = Auditor(self.tables, self.charts, self.violated, self.trace)
        self.auditor.upgrade_check.restarted = self.witness.restarted.add
        self._choices = scenario.choices
        self.tables.watchers.append(self.auditor.committed)
        self.delivery_logs: dict[str, DeliveryLog] = {}
        self.processes: dict[int, Process | None] = {}
        self.deployed: set[int] = set()
        """The processes that have the new versions of the charts."""
        self.forgetful: set[int] = set()
        """Those of them that do not have the older versions any more."""
        self._deploy: Deploy | None = None
        self._lives = 0
        handlers = watched(
            scenario.compiled,
            scenario.handlers,
            handler_faults=self.handler_faults,
            witness=self.witness,
            time=self.loop.time,
        )
        self._parts = Parts(
            handlers,
            self._receivers,
            self._recorded,
            scenario.facts,
            self.loop,
            self.witness,
            KEPT_SHORTLY if self.prunes else KEPT,
        )

    def violated(self, what: str) -> None:
        """Report that a guarantee does not hold."""
        self.trace.note("VIOLATION", what)
        self.violations.append(what)

    def run(self) -> None:
        """Run from beginning to end; violated guarantees are in `violations`."""
        small_pages = patch.object(versions, "PAGE", 2)
        with _quiet(self), patch("secrets.token_hex", self._token), small_pages:
            try:
                self.loop.run(self._live())
            except StandstillError as error:
                self.violated(str(error))
            finally:
                self.loop.close()
        for failure in self.loop.failures:
            self.violated(failure)

    # Called by faults and deployments.

    def crash(self, number: int) -> None:
        """Kill a process."""
        process = self.processes[number]
        if process is not None:
            self.trace.note(process.name, "is killed")
            self.processes[number] = None
            process.end()
            self.witness.gone(process.name)

    async def begin(self, number: int) -> None:
        """Start a process if none runs; try until the database accepts its connection."""
        while self.processes.get(number) is None:
            self._lives += 1
            name = f"p{number}.{self._lives}"
            link = UnreliableStore(self.tables, self.clock, self.loop, self.connection_faults)
            process = Process(name, link, self._known_by(number), self._parts)
            self._claims_seen(process)
            self.trace.note(name, "starts")
            self.processes[number] = process
            try:
                await process.serve(partial(_start, process))
            except Exception as error:  # noqa: BLE001 - any error is followed by another try
                self.trace.note(name, f"could not start: {type(error).__name__}")
                if self.processes[number] is process:
                    self.crash(number)
                await asyncio.sleep(0.5)

    def _known_by(self, number: int) -> list[Chart]:
        if number in self.forgetful:
            return self.scenario.last
        return self.scenario.compiled if number in self.deployed else self.scenario.first

    async def shut(self, number: int) -> None:
        """Shut a process down; a fault may kill it meanwhile."""
        process = self.processes[number]
        if process is None:
            return
        self.trace.note(process.name, "shuts down")
        with suppress(Exception):  # a process that fails to shut down is killed
            async with asyncio.timeout(20.0):
                await process.serve(partial(_stop, process))
        if self.processes[number] is process:
            self.processes[number] = None
            process.end()
            self.witness.gone(process.name)
            self.trace.note(process.name, "has ended")

    # The run itself.

    async def _live(self) -> None:
        random, scenario = self._random, self.scenario
        for number in range(random.randint(1, scenario.processes)):
            await self.begin(number)
        chaos = Chaos(self, generator(random.random()))
        lives = [chaos.run(scenario.seconds * random.uniform(0.5, 1.0))]
        if scenario.newest and random.random() < 0.4:  # noqa: PLR2004 - in four worlds of ten
            self._deploy = Deploy(self, generator(random.random()))
            lives.append(self._deploy.go(scenario.seconds * 0.7))
        lives += [self._client(number) for number in range(scenario.clients)]
        tasks = [asyncio.create_task(life) for life in lives]
        await asyncio.wait(tasks)
        for task in tasks:
            if error := task.exception():
                self.violated(f"{type(error).__name__}: {error}")
        await self._rest()
        FinalCheck(self).check()

    async def _client(self, number: int) -> None:
        random = generator(self._random.random())
        client = SimulatedClient(f"client{number}", self._serve, random, self.trace)
        begun = [self._choices[chart.name, chart.version] for chart in self._begun()]
        known = [(names(each.chart.name, self.scenario.instances), each) for each in begun]
        users = self.scenario.end_users
        for _ in range(self.scenario.calls):
            await asyncio.sleep(random.random() * self.scenario.seconds / self.scenario.calls)
            keys, choice = random.choice(known)
            key = random.choice(keys)
            if users and random.random() < 0.4:  # noqa: PLR2004 - four in ten
                await self._try(client, key, choice, by=random.choice(users), random=random)
            elif self.auditor.snapshot(key) is not None:
                await self._act(client, key, choice, random)
            elif not self.prunes or keys.index(key) % self.scenario.clients == number:
                # An id is used once: a late call must not create a deleted instance again.
                request_id = client.request_id(always=self.prunes)
                await client.create(key, choice.chart.name, choice.context(random), request_id)

    async def _try(
        self, client: SimulatedClient, key: Key, choice: ClientChoices, *, by: Actor, random: Random
    ) -> None:
        """An end user sends to, reads or creates an instance that may belong to another."""
        snapshot, lines = self.auditor.snapshot(key), self.auditor.lines.get(key, [])
        if snapshot is None:
            request_id = client.request_id(always=True)
            if not self.prunes:
                await client.create(key, choice.chart.name, choice.context(random), request_id, by=by)
            return
        await client.read(key, by, self.auditor.ownership, lines)
        choice = self._choices[snapshot.chart, snapshot.version]
        await client.send(key, choice.tried(snapshot, random, by), client.request_id(), None)

    def _begun(self) -> list[Chart]:
        """The charts whose instances clients create."""
        spawned = self.scenario.spawned
        return [chart for chart in self.scenario.first if chart.name not in spawned]

    async def _act(self, client: SimulatedClient, key: Key, choice: ClientChoices, random: Random) -> None:
        """Send an event to an instance or to one of its children, or cancel it."""
        request_id = client.request_id()
        family = [
            row for row in self.tables.instances.values() if row.parent == key[1] and row.tenant == key[0]
        ]
        if family and random.random() < 0.3:  # noqa: PLR2004 - three in ten
            child = random.choice(family)
            key = (child.tenant, child.id)
        snapshot = self.auditor.snapshot(key)
        if snapshot is not None:
            choice = self._choices[snapshot.chart, snapshot.version]
        if choice.chart.model.cancel is not None and random.random() < 0.03:  # noqa: PLR2004 - not often
            await client.cancel(key, request_id)
        elif snapshot is not None and (event := choice.event(snapshot, random, self.clock.now())):
            expected = snapshot.seq if random.random() < 0.3 else None  # noqa: PLR2004 - three in ten
            rival = choice.event(snapshot, random, self.clock.now())
            if rival is not None and random.random() < 0.15:  # noqa: PLR2004 - now and then
                second = client.send(key, rival, client.request_id(), snapshot.seq)
                await asyncio.gather(client.send(key, event, request_id, snapshot.seq), second)
            else:
                await client.send(key, event, request_id, expected)

    async def _serve(self, call: Any) -> Any:
        alive = [process for process in self.processes.values() if process is not None]
        if not alive:
            raise ConnectionError("no process runs")
        return await self._random.choice(alive).serve(call)

    async def _rest(self) -> None:
        """Wait until all work is finished, which must happen when there are no faults."""
        for number in self.processes:
            await self.begin(number)
        if self._deploy is not None:
            await self._deploy.finish()
        until = self.loop.now + PATIENCE
        while waits := self.waits_for(self.clock.now()):
            if self.loop.now > until:
                self.violated(f"still not done: {'; '.join(waits[:5])}")
                return
            await self._skip()
            await asyncio.sleep(0.25)

    async def _skip(self) -> None:
        """Move the database's clock to the next due time if nothing happens before it."""
        now = self.clock.now()
        dues = [letter.due for letter in self.tables.letters.values() if not letter.dead]
        dues += [row.leased_until or row.due for row in self.tables.work.values()]
        dues += [row.due for row in self.tables.timers.values() if self._meant_for(row) <= now]
        if dues and not self.witness.runs and (ahead := (min(dues) - now).total_seconds()) > FAR_AWAY:
            self.witness.clocks_agree = False
            self.trace.note("database", f"moves its clock ahead by {ahead:.3f} s")
            self.clock.jump(ahead)

    def waits_for(self, now: datetime) -> list[str]:
        """The timers, work, letters and messages that are not finished yet."""
        tables = self.tables
        waits = [f"timer {row.id}" for row in tables.timers.values() if self._meant_for(row) <= now]
        waits += [
            f"work {row.id} attempt {row.attempt}"
            for row in tables.work.values()
            if not self.scenario.endless or row.due <= now - timedelta(seconds=30)
        ]
        waits += [
            f"letter {letter.id} for {letter.destination}"
            for letter in tables.letters.values()
            if not letter.dead
        ]
        for delivery_log in self.delivery_logs.values():
            cursor = tables.consumers.get(delivery_log.name)
            waits += [
                f"message {row.id} for {delivery_log.name}"
                for row in tables.messages
                if (cursor is None or row.cursor > cursor)
                and delivery_log.filter.takes(row.tenant, row.kind, row.name)
            ]
        return waits

    def _meant_for(self, timer: TimerRow) -> datetime:
        """When a timer was first due, before it was postponed."""
        snapshot = self.auditor.snapshot((timer.tenant, timer.instance))
        known = None if snapshot is None else snapshot.timers.get(timer.id)
        return timer.due if known is None else known.due

    # The parts of processes.

    def _receivers(self) -> list[Destination]:
        return [
            Receiver(name, faulty, self.trace)
            for name, faulty in zip(KINDS, self.receiver_faults, strict=True)
        ]

    def _recorded(self, destination: Destination) -> Recorded:
        delivery_log = self.delivery_logs.setdefault(
            destination.name, DeliveryLog(destination, self.violated)
        )
        return Recorded(destination, delivery_log)

    def _claims_seen(self, process: Process) -> None:
        store: Any = process.link
        claim_work = store.work.claim

        async def claim(asked: Any) -> Any:
            rows = await claim_work(asked)
            self.witness.claims(rows)
            for row in rows:
                if not process.engine.charts.has(row.chart, row.version):
                    self.violated(f"{process.name} got work of {row.chart} v{row.version}, unknown to it")
            return rows

        store.work.claim = claim

    def _token(self, number: int | None = None) -> str:
        return f"{self._random.getrandbits(4 * (number or 16)):x}"


async def _start(process: Process, _engine: Engine) -> None:
    await process.start()


async def _stop(process: Process, _engine: Engine) -> None:
    await process.stop()


class _Errors(Handler):
    """Reports exceptions that are logged as errors: they are bugs of the engine."""

    def __init__(self, world: World) -> None:
        super().__init__(ERROR)
        self._world = world

    def emit(self, record: LogRecord) -> None:
        if not self._world.loop.is_closed() and record.exc_info and record.exc_info[1] is not None:
            self._world.violated(f"{record.getMessage()}: {record.exc_info[1]!r}")


@contextmanager
def _quiet(world: World) -> Iterator[None]:
    """Send the log of a run to the world only."""
    handler, level, propagate = _Errors(world), LOG.level, LOG.propagate
    LOG.addHandler(handler)
    LOG.setLevel(ERROR)
    LOG.propagate = False
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)
        LOG.propagate = propagate
