"""Open timers, asks and work of an instance, carried over to another version of its chart.

The time already waited counts: a timer that another delay replaces is due that long after it was set, and
what is overdue by then comes at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from headway.codec import Scratch, replace
from headway.statechart import model
from headway.statechart.chart import Chart
from headway.statechart.effects import CancelTimer, CancelWork, ClosedAsk, RenewedAsk, SetTimer
from headway.statechart.people import audience
from headway.statechart.refusal import Veto
from headway.statechart.snapshot import OpenAsk, OpenWork, Snapshot, Timer
from headway.statechart.step.actions import Fault, as_delay, call, value_of
from headway.statechart.step.asks import question
from headway.statechart.step.draft import Draft
from headway.statechart.step.work import start_work
from headway.statechart.tree import StateNode
from headway.statechart.upgrade.renaming import timer_now

LIFE = "after.life."
MOST_NODES = 1_024
PLACED = ("handler", "queue")
"""What of a state's work decides who does it: an attempt that began otherwise is not finished by others."""


class InstanceUpgrade(Scratch):
    """One instance on its way from one version of a chart to another: what it was, and what has become of it.

    `came` gives the old state of each new one; `draft` is the instance as the new chart sees it.
    """

    old: Chart
    new: Chart
    rule: model.Upgrade
    snapshot: Snapshot
    draft: Draft
    born: datetime
    came: dict[str, str]
    problems: list[str] = []
    fresh: set[str] = set()
    made: int = 0

    @property
    def now(self) -> datetime:
        """The time of the upgrade."""
        return self.draft.now

    def identify(self) -> str:
        """The id of a timer, an ask or work that is new; no step makes such a one."""
        self.made += 1
        return f"{self.snapshot.instance}:{self.draft.seq}:u{self.made}"

    def states(self) -> Iterator[tuple[StateNode, StateNode | None]]:
        """The active states, the whole life among them, each with the old state it came from."""
        yield self.new.root, self.old.root
        for node in self.draft.active:
            came = self.came.get(node.id)
            yield node, None if came is None else self.old.nodes.get(came)

    def since(self, node: StateNode) -> datetime:
        """When a state was entered."""
        return self.draft.since.get(node.id, self.born)

    def renamed(self, name: str) -> str:
        """What a transition or an event is called now."""
        return self.rule.renames.get(name, name)


class Alarm(NamedTuple):
    """A timer that a state sets: what it is in every version, its event, and after how long it comes.

    `rank` counts those of the same event, the longest wait first: the others come before it.
    """

    key: str
    event: str
    wait: int | model.Condition
    data: Any = None
    repeats: bool = False
    rank: int = 0


def carry_over(upgrade: InstanceUpgrade) -> None:
    """Bring along what is open."""
    draft = upgrade.draft
    draft.work = _carried_work(upgrade)
    for node, was in upgrade.states():
        if node.model.ask is not None and (was is None or was.model.ask is None):
            upgrade.fresh.add(node.id)
    draft.timers = _carried_timers(upgrade)
    draft.asks = _carried_asks(upgrade)


@lru_cache(MOST_NODES)
def _alarms(node: StateNode) -> tuple[Alarm, ...]:
    found = sorted(_declared(node), key=_longest_first)
    ranks: Counter[tuple[str, Any]] = Counter()
    ranked = []
    for alarm in found:
        rank = ranks[alarm.event, alarm.data]
        ranks[alarm.event, alarm.data] += 1
        ranked.append(alarm._replace(rank=rank, key=f"{alarm.key}#{rank}" if rank else alarm.key))
    return tuple(ranked)


def _longest_first(alarm: Alarm) -> int:
    return -alarm.wait if isinstance(alarm.wait, int) else 0


def _declared(node: StateNode) -> Iterator[Alarm]:
    for arc in node.after:
        row = arc.model
        event = row.events[0]
        assert row.after is not None
        prefix = LIFE if node.parent is None else f"after.{node.id}."
        yield Alarm(f"after:{event.removeprefix(prefix)}", event, row.after, repeats=row.repeats)
    ask = node.model.ask
    if ask is None:
        return
    if ask.deadline is not None:
        yield Alarm("deadline", f"deadline.{node.id}", ask.deadline)
    if ask.remind is not None:
        yield Alarm("remind", f"remind.{node.id}", ask.remind, repeats=True)
    for index, each in enumerate(ask.escalate):
        yield Alarm(f"escalate:{','.join(each.roles)}", f"escalate.{node.id}", each.after, index)


def _before(upgrade: InstanceUpgrade, was: StateNode | None) -> dict[str, Alarm]:
    """The timers of the old state, by what they are called in the new one."""
    if was is None:
        return {}
    return {_renamed_key(upgrade, alarm.key): alarm for alarm in _alarms(was)}


def _renamed_key(upgrade: InstanceUpgrade, key: str) -> str:
    kind, _, name = key.partition(":")
    return f"after:{timer_now(upgrade.rule, name)}" if kind == "after" else key


def _carried_timers(upgrade: InstanceUpgrade) -> dict[str, Timer]:
    timers = {key: timer for key, timer in upgrade.snapshot.timers.items() if timer.state is None}
    for node, was in upgrade.states():
        before = _before(upgrade, was)
        for alarm in _alarms(node):
            earlier = before.get(alarm.key)
            try:
                if earlier is None:
                    timers |= _new(upgrade, node, alarm)
                elif was is not None:
                    timers |= _kept(upgrade, node, was, (earlier, alarm))
            except (Fault, Veto, OverflowError) as error:
                upgrade.problems.append(f"the delay of {alarm.event} is not known: {error}")
    return timers


def _pending(snapshot: Snapshot, state: str, alarm: Alarm) -> tuple[str, Timer] | None:
    found = [
        (key, timer)
        for key, timer in snapshot.timers.items()
        if timer.state == state and timer.event == alarm.event and timer.data == alarm.data
    ]
    found.sort(key=lambda each: each[1].due, reverse=True)
    return found[alarm.rank] if alarm.rank < len(found) else None


def _kept(
    upgrade: InstanceUpgrade, node: StateNode, was: StateNode, alarms: tuple[Alarm, Alarm]
) -> dict[str, Timer]:
    """A timer under the new chart; one that is not set any more has come already, and does not come again."""
    earlier, alarm = alarms
    found = _pending(upgrade.snapshot, was.id, earlier)
    if found is None:
        return {}
    key, timer = found
    due = timer.due
    if earlier.wait != alarm.wait:
        fixed = isinstance(earlier.wait, int)
        set_at = due - timedelta(milliseconds=earlier.wait) if fixed else upgrade.since(node)  # type: ignore[arg-type]  # a number
        due = _due(upgrade, alarm, set_at)
    return {key: replace(timer, due=due, event=alarm.event, state=node.id, data=alarm.data)}


def _new(upgrade: InstanceUpgrade, node: StateNode, alarm: Alarm) -> dict[str, Timer]:
    """A timer that the old chart did not set: it counts from when its state was entered, or its ask put."""
    of_ask = not alarm.key.startswith("after:")
    if of_ask and node.id not in upgrade.fresh and _came_from(upgrade, node) not in upgrade.snapshot.asks:
        return {}  # the question is answered
    begun = upgrade.now if of_ask and node.id in upgrade.fresh else upgrade.since(node)
    timer = Timer(due=_due(upgrade, alarm, begun), event=alarm.event, state=node.id, data=alarm.data)
    return {upgrade.identify(): timer}


def _came_from(upgrade: InstanceUpgrade, node: StateNode) -> str:
    return upgrade.came.get(node.id, "")


def _due(upgrade: InstanceUpgrade, alarm: Alarm, begun: datetime) -> datetime:
    wait = timedelta(milliseconds=_wait(upgrade.draft, alarm.wait))
    if alarm.repeats and wait:
        passed = max(upgrade.now - begun, timedelta()) // wait
        return begun + (passed + 1) * wait
    return max(begun + wait, upgrade.now)


def _wait(draft: Draft, wait: int | model.Condition) -> int:
    if isinstance(wait, int):
        return wait
    if isinstance(wait, model.Named):
        return as_delay(draft, call(draft, wait.name))
    return as_delay(draft, value_of(draft, wait.text))


def _carried_asks(upgrade: InstanceUpgrade) -> dict[str, OpenAsk]:
    asks = {}
    for node, was in upgrade.states():
        ask = node.model.ask
        if ask is None:
            continue
        if node.id in upgrade.fresh:
            deadline = _deadline(upgrade, node)
            asks[node.id] = OpenAsk(
                id=upgrade.identify(), roles=ask.roles, deadline=deadline, since=upgrade.now
            )
        elif was is not None and was.id in upgrade.snapshot.asks:
            asks[node.id] = _carried_ask(upgrade, node, was, ask)
    return asks


def _carried_ask(upgrade: InstanceUpgrade, node: StateNode, was: StateNode, ask: model.Ask) -> OpenAsk:
    """The same ask: it keeps its id and its holder; audience and deadline come from the new chart."""
    held = upgrade.snapshot.asks[was.id]
    before = _before(upgrade, was)
    escalated = [
        role
        for each in ask.escalate
        if (earlier := before.get(f"escalate:{','.join(each.roles)}")) is not None
        and _pending(upgrade.snapshot, was.id, earlier) is None
        for role in each.roles
    ]
    roles = tuple(dict.fromkeys((*ask.roles, *escalated)))
    roles = held.roles if set(roles) == set(held.roles) else roles
    deadline = _deadline(upgrade, node)
    if deadline is None and ask.deadline is not None:
        deadline = held.deadline  # it has passed, and the chart chose to stay
    if set(held.roles) - set(roles):
        held = replace(held, claimed_by=None, claimed_until=None)  # the holder may not be asked any more
    return replace(held, roles=roles, deadline=deadline)


def _deadline(upgrade: InstanceUpgrade, node: StateNode) -> datetime | None:
    event = f"deadline.{node.id}"
    return next((timer.due for timer in upgrade.draft.timers.values() if timer.event == event), None)


def _carried_work(upgrade: InstanceUpgrade) -> dict[str, OpenWork]:
    found = {node.id: _carried(upgrade, node, was) for node, was in upgrade.states() if node.model.run}
    return {state: work for state, work in found.items() if work is not None}


def _carried(upgrade: InstanceUpgrade, node: StateNode, was: StateNode | None) -> OpenWork | None:
    run, ran = node.model.run, was.model.run if was is not None else None
    assert run is not None
    held = upgrade.snapshot.work.get(was.id) if was is not None else None
    if ran is not None and held is None:
        return None  # it is done, and the state was not left
    if node.id in upgrade.rule.restarts:
        return OpenWork(upgrade.identify()) if held is None else OpenWork(held.id, held.attempt + 1)
    if held is None or ran is None:
        upgrade.problems.append(f'{node.id} now runs {run.handler}: say restarts="{node.id}" to begin it')
        return None
    changed = [word for word in PLACED if getattr(run, word) != getattr(ran, word)]
    if changed:
        said = " and ".join(f"{word} {getattr(ran, word)}" for word in changed)
        upgrade.problems.append(
            f'the work of {node.id} was begun with {said}: say restarts="{node.id}" to restart it'
        )
    return held if run.retry == ran.retry else replace(held, failures=_failures(ran, run, held))


def _failures(ran: model.Run, run: model.Run, held: OpenWork) -> dict[str, int]:
    """How often each policy of the new chart has been used up so far: that of the same error codes."""
    counts = {ran.retry[int(index)].on: count for index, count in held.failures.items()}
    return {str(index): counts[policy.on] for index, policy in enumerate(run.retry) if policy.on in counts}


def add_effects(draft: Draft, before: Snapshot, old: Chart, came: Mapping[str, str]) -> None:
    """The effects by which the world follows: what the instance holds now that it did not hold so before."""
    for key, timer in draft.timers.items():
        if before.timers.get(key) != timer:
            draft.effects.append(
                SetTimer(id=draft.identify(), timer=key, due=timer.due, event=timer.event, state=timer.state)
            )
    for key in before.timers.keys() - draft.timers.keys():
        draft.effects.append(CancelTimer(draft.identify(), key))
    _follow_work(draft, before.work)
    asked = {ask.id for ask in draft.asks.values()}
    for ask in before.asks.values():
        if ask.id not in asked:
            draft.effects.append(
                ClosedAsk(id=draft.identify(), ask=ask.id, event=draft.event.name, by=draft.event.by.id)
            )
    for state, ask in draft.asks.items():
        was = came.get(state, "")
        renewed = before.asks.get(was) != ask or was != state or _put(old, was) != _put(draft.chart, state)
        if renewed or audience(ask.roles, before) != audience(ask.roles, draft):
            draft.effects.append(_renewed(draft, draft.chart.nodes[state], ask))


def _follow_work(draft: Draft, before: Mapping[str, OpenWork]) -> None:
    attempts = {work.id: work.attempt for work in before.values()}
    wanted = {work.id for work in draft.work.values()}
    for work in before.values():
        if work.id not in wanted:
            draft.effects.append(CancelWork(draft.identify(), work.id))
    for state, work in draft.work.items():
        run = draft.chart.nodes[state].model.run
        if attempts.get(work.id) != work.attempt and run is not None:
            start_work(draft, work.id, state, run, attempt=work.attempt, due=work.due)


def _put(chart: Chart, state: str) -> tuple[object, ...] | None:
    """How a question is put."""
    node = chart.nodes.get(state)
    ask = node.model.ask if node is not None else None
    return None if node is None or ask is None else (ask.form, ask.shows, node.answers)


def _renewed(draft: Draft, node: StateNode, held: OpenAsk) -> RenewedAsk:
    ask = node.model.ask
    assert ask is not None
    return RenewedAsk(
        id=draft.identify(),
        ask=held.id,
        roles=audience(held.roles, draft),
        deadline=held.deadline,
        opened_at=held.since or draft.since[node.id],
        **question(draft, node, ask),
        claimed_by=held.claimed_by,
        claimed_until=held.claimed_until,
        delegated_to=held.delegated_to,
    )
