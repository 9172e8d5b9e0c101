"""Bugs to be found: what a step calls for is decided, and then not written, or not as it was decided."""

from typing import Any

from headway.codec import replace
from headway.engine import batch, commit
from headway.statechart import effects
from headway.statechart.upgrade import instance
from headway.worker import retention
from tests.simulate.bugs import Bug, Patch, nothing


def loses(effect: type) -> Bug:
    """No row of an effect is ever written."""

    def bug(patch: Patch) -> None:
        patch.setitem(commit.WRITERS, effect, nothing)

    bug.__name__ = f"loses_{effect.__name__}"
    return bug


def one_message_is_lost(patch: Patch) -> None:
    """That an order is ready is told to nobody."""
    write = commit.WRITERS[effects.PublishMessage]

    def choosy(written: Any, effect: Any) -> None:
        if effect.name != "order.ready":
            write(written, effect)

    patch.setitem(commit.WRITERS, effects.PublishMessage, choosy)


def messages_are_written_twice(patch: Patch) -> None:
    """A message stands there once more, under another id."""
    write = commit.WRITERS[effects.PublishMessage]

    def twice(written: Any, effect: Any) -> None:
        write(written, effect)
        write(written, replace(effect, id=f"{effect.id}+"))

    patch.setitem(commit.WRITERS, effects.PublishMessage, twice)


def counters_that_nobody_reads_are_lost(patch: Patch) -> None:
    """A counter that no guard looks at is never written, not even for the first time."""
    count = batch.Batch._count

    def choosy(self: Any, counter: Any, by: int) -> None:
        if counter[1].startswith("instances:") or counter in self.counters:
            count(self, counter, by)

    patch.setattr(batch.Batch, "_count", choosy)


def a_cancellation_stays_with_the_parent(patch: Patch) -> None:
    """Children are not told that their parent was cancelled."""
    patch.setattr(batch, "write_cascade", nothing)


def sums_have_no_errors(patch: Patch) -> None:
    """Children that report together report no errors."""
    plus = batch.ChildReports.plus
    patch.setattr(batch.ChildReports, "plus", lambda self, report: plus(self, replace(report, errors=0)))


def errors_are_never_taken_back(patch: Patch) -> None:
    """A parent hears of errors that are new, and not of those that are no more."""
    report = batch.Batch._report

    def hopeless(self: Any, child: Any, told: Any) -> Any:
        return report(self, child, replace(told, errors=max(told.errors, 0)))

    patch.setattr(batch.Batch, "_report", hopeless)


def a_sum_that_is_not_taken_stays(patch: Patch) -> None:
    """What children did together is not undone before each is told by itself."""

    def decide_all(self: Any) -> Any:
        keys = {order.key for order in self.orders}
        requests = {(order.key[0], order.request_id) for order in self.orders if order.request_id}
        yield from self._load(instances=keys, requests=requests)
        try:
            yield from self._decide_each()
            yield from self._roll_up(self._roll_up_alone)
        except batch.TogetherError:
            self.gathers = False
            yield from self._decide_each()

    patch.setattr(batch.Batch, "_decide_all", decide_all)


def what_people_saw_is_not_noted(patch: Patch) -> None:
    """A journal does not keep what was asked."""
    patch.setattr(commit, "_note", nothing)


def an_upgrade_forgets_who_acted(patch: Patch) -> None:
    """Whoever did something in the old version may do what they may not in the new one."""
    patch.setattr(instance, "_acted", lambda _passage, _further: {})


def questions_are_written_bare(patch: Patch) -> None:
    """The row of a question does not say until when, how, and about what."""
    write = commit.WRITERS[effects.OpenedAsk]

    def bare(written: Any, effect: Any) -> None:
        write(written, replace(effect, deadline=None, answers=(), shows={}))

    patch.setitem(commit.WRITERS, effects.OpenedAsk, bare)


def questions_show_nothing(patch: Patch) -> None:
    """The row of a question says all but what it is about."""
    write = commit.WRITERS[effects.OpenedAsk]

    def blank(written: Any, effect: Any) -> None:
        write(written, replace(effect, shows={}))

    patch.setitem(commit.WRITERS, effects.OpenedAsk, blank)


def an_upgrade_leaves_the_question(patch: Patch) -> None:
    """A question that is put in other words has the row it had."""
    patch.setitem(commit.WRITERS, effects.RenewedAsk, commit._change_ask)


def the_living_are_deleted(patch: Patch) -> None:
    """Pruning takes those along that have not ended."""
    prunings = retention.Pruning._prunings

    def greedy(self: Any, now: Any) -> Any:
        async def prune() -> int:
            tables = self.engine.store.tables
            old = [key for key, row in tables.instances.items() if row.updated_at < retention._ago(now, "4s")]
            for key in old:
                del tables.instances[key]
            return len(old)

        return [*prunings(self, now), ("instances", prune)] if self._periods() else prunings(self, now)

    patch.setattr(retention.Pruning, "_prunings", greedy)


LOSSES: list[Bug] = [
    *map(
        loses,
        (
            effects.PublishMessage,
            effects.Deliver,
            effects.StoreRecord,
            effects.RemindAsk,
            effects.EscalateAsk,
            effects.RenewedAsk,
            effects.ChangedAsk,
        ),
    ),
    one_message_is_lost,
    messages_are_written_twice,
    counters_that_nobody_reads_are_lost,
    a_cancellation_stays_with_the_parent,
    sums_have_no_errors,
    errors_are_never_taken_back,
    a_sum_that_is_not_taken_stays,
    what_people_saw_is_not_noted,
    an_upgrade_forgets_who_acted,
    questions_are_written_bare,
    questions_show_nothing,
    an_upgrade_leaves_the_question,
    the_living_are_deleted,
]
