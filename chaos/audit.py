"""The audit after the storm: what is in the database against what the processes have noted."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from chaos import model, rows
from chaos.berth import TENANT
from chaos.charts import CHARTS, PARENTS
from chaos.linear import problem
from chaos.notes import Notes
from headway.codec import decode
from headway.outbox.message import message_of
from headway.statechart.chart import chart_of
from headway.statechart.model import Publish
from headway.statechart.snapshot import Snapshot
from headway.store.port import Store
from headway.store.queries import TimerQuery, WorkQuery
from headway.store.rows import HistoryRow, InstanceRow, MessageRow
from headway.store.unit import Changes, Found, Reads

LONGEST = 1_000
ENDS_OF_WORK = ("done.work.", "error.work.")


class Audit:
    """Goes through everything once; `problems` are the guarantees that do not hold."""

    def __init__(self, store: Store, address: str, notes: Notes) -> None:
        self._store, self._address, self._notes = store, address, notes
        self.counts: Counter[str] = Counter()
        self._rows: dict[str, InstanceRow] = {}
        self._lines: dict[str, list[HistoryRow]] = {}
        self._messages: list[MessageRow] = []

    async def problems(self) -> list[str]:
        """All that is wrong."""
        await self._load()
        self._count()
        checks = (
            self._answers,
            self._histories,
            self._work,
            self._timers,
            self._parents,
            self._outbox,
            self._deliveries,
            self._doors,
        )
        found = [each for check in checks for each in check()]
        return [*found, *await self._counters(), *await self._leftovers(), *await self._journal()]

    async def _load(self) -> None:
        async for row in rows.instances(self._store):
            self._rows[row.id] = row
            self._lines[row.id] = [*await self._store.history.page((row.tenant, row.id), limit=LONGEST)]
        self._messages = [each async for each in rows.topics(self._store)]

    def _count(self) -> None:
        notes, counts = self._notes, self.counts
        asked = {note.facts["request"] for note in notes.of("asks")}
        told = {note.facts["request"] for note in notes.of("is told")}
        counts["requests sent"] = len(asked)
        counts["answered"] = len(told)
        counts["answered again"] = len(notes.of("is told")) - len(told)
        counts["in doubt on the way"] = len(notes.of("doubts"))
        counts["never answered"] = len(asked - told)
        counts["instances ended"] = sum(row.ended for row in self._rows.values())
        counts["transitions"] = sum(map(len, self._lines.values()))
        counts["attempts at work"] = len(notes.of("begins"))
        counts["messages"] = len(self._messages)
        counts["deliveries"] = len(notes.of("takes"))
        for note in notes.of("disk error"):
            counts[f"times that a {note.facts['call']} failed"] += 1
        counts["pushes at doors"] = len(notes.of("calls"))
        counts["pushes without an answer"] = len(notes.of("calls")) - len(
            notes.of("sees", "comes to nothing")
        )

    # What was answered is there, once; a request has one answer.

    def _answers(self) -> Iterator[str]:
        told = self._notes.by("request", "is told")
        for request, notes in self._notes.by("request", "asks").items():
            facts = notes[0].facts
            answers = [
                {k: v for k, v in note.facts.items() if k != "request"} for note in told.get(request, [])
            ]
            if any(answer != answers[0] for answer in answers):
                yield f"{request} got different answers: {answers}"
            lines = self._lines_of(facts["instance"], request)
            if len(lines) > 1:
                yield f"{request} happened {len(lines)} times"
            if answers:
                yield from self._kept(facts["instance"], request, answers[0], lines)

    def _lines_of(self, instance: str, request: str) -> list[HistoryRow]:
        lines = [line for line in self._lines.get(instance, []) if line.row == 0]
        if request == instance:
            return [line for line in lines if line.event == "start"]
        return [line for line in lines if line.data and json.loads(line.data) == {"request": request}]

    def _kept(
        self, instance: str, request: str, answer: dict[str, Any], lines: list[HistoryRow]
    ) -> Iterator[str]:
        if "error" in answer:
            yield f"{request} is nothing to complain about: {answer['error']}"
            return
        if "refused" in answer:
            if lines:
                yield f"{request} was refused, and happened"
            return
        until = [line for line in self._lines.get(instance, []) if line.seq <= answer["seq"]]
        if not lines or lines[0] not in until:
            yield f"{request} was acknowledged at {answer['seq']}, and is lost"
        elif until[-1].after.split("+") != answer["states"]:
            yield f"{request} was told {answer}, and the history has {until[-1].after}"

    def _histories(self) -> Iterator[str]:
        """A history is a path: without a gap, and its end is where the instance stands."""
        for name, lines in self._lines.items():
            for before, after in pairwise(lines):
                if before.after != after.before or (after.seq, after.row) <= (before.seq, before.row):
                    yield f"{name}: {after.seq} begins in {after.before}, not in {before.after}"
            if not lines or lines[-1].after != decode(Snapshot, self._rows[name].snapshot).state:
                yield f"{name} does not stand where its history ends"

    # An attempt has one worker, ends once, and not after it was given up.

    def _work(self) -> Iterator[str]:
        for work, notes in self._notes.by("work", "begins").items():
            workers: dict[int, set[str]] = {}
            for note in notes:
                workers.setdefault(note.facts["attempt"], set()).add(note.who)
            for attempt, names in workers.items():
                if len(names) > 1:
                    yield f"attempt {attempt} of {work} was given to {' and '.join(sorted(names))}"
        for name, lines in self._lines.items():
            yield from self._outcomes(name, lines)

    def _outcomes(self, name: str, lines: list[HistoryRow]) -> Iterator[str]:
        over: set[tuple[str, int]] = set()
        for line in lines:
            ends = line.event.startswith(ENDS_OF_WORK)
            if not ends and line.event != "work.failed":
                continue
            data = json.loads(line.data or "null")
            meant = data["attempt"] if isinstance(data, dict) and "attempt" in data else line.attempt
            if (line.before, meant) in over or meant != line.attempt:
                yield f"{name}: attempt {meant} in {line.before} was over, and its outcome was taken"
            over.add((line.before, meant))

    def _timers(self) -> Iterator[str]:
        for name, lines in self._lines.items():
            fired = Counter(line.event for line in lines if line.event.startswith(("after.", "deadline.")))
            for event, times in fired.items():
                if times > 1:  # no life of ours enters a state twice
                    yield f"{name}: {event} fired {times} times"

    def _parents(self) -> Iterator[str]:
        """Parents count their children by status, and their errors, those that were taken back aside."""
        children: dict[str, list[InstanceRow]] = {}
        for row in self._rows.values():
            children.setdefault(row.parent or "", []).append(row)
        for name, row in self._rows.items():
            if row.chart not in {each.chart.name for each in PARENTS}:
                continue
            known, family = decode(Snapshot, row.snapshot), children.get(name, [])
            found = Counter(each.status for each in family)
            if {k: n for k, n in known.children.items() if n} != found:
                yield f"{name} counts {known.children}, and has {dict(found)}"
            errors = sum(map(_errors, family))
            if _errors(row) != errors:
                yield f"{name} counts {_errors(row)} errors, and its children have {errors}"

    # Every message that a history calls for is there once, and reached the subscriber in its order.

    def _outbox(self) -> Iterator[str]:
        ids = Counter(each.id for each in self._messages)
        yield from (f"the effect {each} was published {n} times" for each, n in ids.items() if n > 1)
        published: dict[str, list[str]] = {}
        for message in self._messages:
            published.setdefault(message.instance, []).append(message.name)
        for name, lines in self._lines.items():
            topics = _topics(self._rows[name].chart)
            wanted = [
                topics[each] for line in lines for each in line.transition.split(", ") if each in topics
            ]
            if wanted != published.get(name, []):
                yield f"{name} called for {wanted}, and published {published.get(name, [])}"

    def _deliveries(self) -> Iterator[str]:
        wanted: dict[str, list[str]] = {}
        for message in self._messages:
            wanted.setdefault(message.instance, []).append(message_of(message).id)
        given = self._notes.by("instance", "takes")
        for name in {*wanted, *given}:
            first = [*dict.fromkeys(note.facts["id"] for note in given.get(name, []))]
            if first != wanted.get(name, []):
                yield f"{name} published {wanted.get(name, [])}, and the subscriber got {first}"

    def _doors(self) -> Iterator[str]:
        for name, operations in model.operations(self._notes).items():
            if window := problem(operations, model.door(name)):
                yield f"{name} is not linearizable: {window}"

    async def _counters(self) -> list[str]:
        looking = Looking(Reads(counters={(TENANT, "noted")}))
        await self._store.run(looking)
        stored = looking.found.counters.get((TENANT, "noted"), 0)
        noted = sum(line.transition == "note" for lines in self._lines.values() for line in lines)
        return [] if stored == noted else [f"the counter of notes is {stored}, and there are {noted}"]

    async def _leftovers(self) -> list[str]:
        """Who has ended waits for nothing."""
        work = await self._store.work.page(WorkQuery(TENANT))
        found = [f"{row.id} of {row.instance}, which has ended, is still to be done" for row in work]
        timers = await self._store.timers.page(TimerQuery(TENANT, limit=1))
        return found + [f"a timer is left, due {timer.due}" for timer in timers]

    async def _journal(self) -> list[str]:
        """What `headway audit verify` says, in a process of its own."""
        command = (sys.executable, "-m", "headway", "audit", "verify", "--database", self._address)
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        said, _ = await process.communicate()
        return [] if process.returncode == 0 else [f"headway audit verify: {said.decode()}"]


class Looking:
    """A unit that only reads."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    def begin(self) -> Reads:
        """Ask for what is wanted."""
        return self._reads

    def take(self, found: Found) -> None:
        """Keep what was found."""
        self.found = found

    def changes(self) -> Changes:
        """Nothing."""
        return Changes()


def _errors(row: InstanceRow) -> int:
    return decode(Snapshot, row.snapshot).counters.get("errors", 0)


def _topics(chart: str) -> dict[str, str]:
    """Which topic a transition of a chart publishes to."""
    rows = next(found for each in CHARTS if (found := chart_of(each)).name == chart).model.transitions
    return {
        row.name: action.name
        for row in rows
        for action in row.actions
        if isinstance(action, Publish) and action.kind == "topic"
    }
