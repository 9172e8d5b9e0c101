"""Checks what must be true at the end of a run, when nothing is left to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from headway.engine.journal import BEGINNING, follows
from headway.statechart.chart import Chart
from headway.statechart.model import Add
from headway.statechart.step.actions import filled, names_in
from headway.store.rows import Key, MessageRow
from headway.testing.memory.tables import Tables
from headway.testing.simulate.audit import Auditor
from headway.testing.simulate.effects import CASCADE, actions_run
from headway.testing.simulate.receivers import Content, DeliveryLog, content_of
from headway.testing.simulate.scenario import Scenario
from headway.testing.simulate.witness import Witness


class SettledWorld(Protocol):
    """A world in which nothing is left to do."""

    scenario: Scenario
    tables: Tables
    charts: dict[tuple[str, int], Chart]
    auditor: Auditor
    witness: Witness
    delivery_logs: dict[str, DeliveryLog]
    prunes: bool

    def violated(self, what: str) -> None:
        """Report that a guarantee does not hold."""


class FinalCheck:
    """Checks the final rows and the delivery logs, without the engine."""

    def __init__(self, world: SettledWorld) -> None:
        self._world, self._tables = world, world.tables
        self._violated: Callable[[str], Any] = world.violated

    def check(self) -> None:
        """Run all checks."""
        self._deleted()
        self._receipts()
        self._world.witness.check_wins()
        self._owners()
        self._journals()
        self._cancelled_children()
        if self._world.scenario.counted:
            self._counters()
        for delivery_log in self._world.delivery_logs.values():
            self._deliveries(delivery_log)

    def _deleted(self) -> None:
        """Every deleted instance had ended, and none of its rows is left."""
        tables = self._tables
        gone = {key: row for key, row in self._world.auditor.rows.items() if key not in tables.instances}
        for key, row in gone.items():
            if not row.ended or not self._world.prunes:
                self._violated(
                    f"{key[1]} was deleted {'without pruning' if row.ended else 'before it ended'}"
                )
        beside: list[Any] = [*tables.timers.values(), *tables.work.values(), *tables.asks.values()]
        left = {(row.tenant, row.instance) for row in beside} | {*tables.history}
        for key in gone:
            if key in left:
                self._violated(f"{key[1]} was deleted, and some of its rows are left")

    def _receipts(self) -> None:
        """Every receipt is in the history, as long as the instance is stored."""
        rows, known = self._tables.instances, self._world.auditor.rows
        for key, receipt in self._world.witness.receipts:
            if key in known and key not in rows:
                continue
            if key not in rows or rows[key].seq < receipt.seq:
                self._violated(f"{key[1]} had a receipt for step {receipt.seq}, which it has not reached")
                continue
            lines = [line for line in self._tables.history.get(key, ()) if line.seq == receipt.seq]
            if lines and lines[-1].after != "+".join(receipt.states):
                self._violated(
                    f"{key[1]} had a receipt for {receipt.states} at step {receipt.seq}; its history differs"
                )

    def _journals(self) -> None:
        """Each line of each history is chained to the one before it."""
        for key, lines in self._tables.history.items():
            before = BEGINNING
            for line in lines:
                if not follows(line, before):
                    self._violated(
                        f"line {line.seq}.{line.row} of {key[1]} is not chained to the line before it"
                    )
                before = line.hash

    def _cancelled_children(self) -> None:
        """A cancelled instance has cancelled its children, except those that the cancelling step spawned."""
        dead = {(letter.tenant, letter.id) for letter in self._tables.letters.values() if letter.dead}
        cascades = [each for each in self._world.auditor.messages if each.id.endswith(CASCADE)]
        sent = Counter((message.tenant, message.instance) for message in cascades)
        answered = Counter(key for key, _ in self._world.witness.cancelled)
        for key, times in answered.items():
            if sent[key] < times:
                self._violated(f"{key[1]} was cancelled, and no message cancels its children")
        steps = {(each.tenant, each.instance): _step(each.id) for each in cascades}
        lost = {(each.tenant, each.instance) for each in cascades if (each.tenant, each.id) in dead}
        for row in self._tables.instances.values():
            above = (row.tenant, row.parent or "")
            if above in steps and above not in lost and not row.ended and _step(row.id) < steps[above]:
                self._violated(f"{row.parent} was cancelled, and its child {row.id} is still live")

    def _owners(self) -> None:
        """The counters of owners equal the numbers of their live instances."""
        live: Counter[Key] = Counter()
        for row in self._tables.instances.values():
            if row.owner is not None:
                live[row.tenant, f"instances:{row.chart}:{row.owner}"] += not row.ended
        counted = {
            key: value for key, value in self._tables.counters.items() if key[1].startswith("instances:")
        }
        for key in {*live, *counted}:
            if live[key] != counted.get(key, 0):
                self._violated(f"{key[1]} counts {counted.get(key, 0)}, and there are {live[key]}")

    def _counters(self) -> None:
        """Shared counters equal the sum of what all transitions have added."""
        added: Counter[Key] = Counter()
        for key, lines in self._world.auditor.lines.items():
            snapshot, chart = self._world.auditor.snapshot(key), self._world.auditor.rows[key].chart
            known = names_in(snapshot, snapshot.context) if snapshot else {"instance": key[1]}
            for line in lines:
                for action in actions_run(self._world.charts[chart, line.version], line).certain:
                    if isinstance(action, Add):
                        added[key[0], filled(action.key, known)] += action.by
        for key, value in {**dict.fromkeys(added, 0), **self._tables.counters}.items():
            if not key[1].startswith("instances:") and value != added[key]:
                self._violated(f"the counter {key[1]} is {value}, and {added[key]} were added")

    # Messages: none lost, none with two ids, in order.

    def _deliveries(self, delivery_log: DeliveryLog) -> None:
        wanted = [
            message
            for message in self._world.auditor.messages
            if delivery_log.filter.takes(message.tenant, message.kind, message.name)
        ]
        ids = self._matched(delivery_log, wanted)
        dead = {
            (letter.tenant, letter.id)
            for letter in self._tables.letters.values()
            if letter.dead and letter.destination == delivery_log.name
        }
        order = {each: number for number, each in enumerate(delivery_log.taken)}
        last: dict[Key, tuple[int, str]] = {}
        for message in wanted:
            own = ids.get((message.tenant, message.id))
            if own is None or own not in order:
                if own not in delivery_log.denied or (message.tenant, message.id) not in dead:
                    self._violated(
                        f"{delivery_log.name} never got {message.name} of {message.instance} ({message.id})"
                    )
                continue
            line = (message.tenant, message.instance)
            if line in last and order[own] < last[line][0] and last[line][1] not in delivery_log.denied:
                self._violated(
                    f"{delivery_log.name} got {message.name} of {message.instance} too early ({message.id})"
                )
            last[line] = max(last.get(line, (-1, "")), (order[own], own))

    def _matched(self, delivery_log: DeliveryLog, wanted: list[MessageRow]) -> dict[Key, str]:
        """The id that each message was delivered with: as many ids as messages of equal content."""
        given: dict[Content, list[str]] = {}
        for name, content in delivery_log.contents.items():
            given.setdefault(content, []).append(name)
        committed: dict[Content, list[MessageRow]] = {}
        for message in wanted:
            committed.setdefault(content_of(message), []).append(message)
        for content, names in given.items():
            if len(names) > len(committed.get(content, ())):
                self._violated(
                    f"{delivery_log.name} got {content.name} of {content.instance} with the ids {names}"
                )
        return {
            (message.tenant, message.id): name
            for content, messages in committed.items()
            for message, name in zip(messages, given.get(content, ()), strict=False)
        }


def _step(name: str) -> int:
    """The step of its instance that a message or a child is named after."""
    return int(name.rsplit(":", 2)[1])
