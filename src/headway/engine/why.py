"""Why an instance stands where it stands: what the chart says, and what the store knows beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from headway.codec import Value
from headway.engine.causes import MOST_LINES, EndCause, Failure, ending_of, last_failure
from headway.engine.facts import Facts, read_facts
from headway.engine.registry import Registry
from headway.statechart.explain import Why, explain
from headway.statechart.snapshot import Snapshot
from headway.store.port import Store
from headway.store.queries import InstanceQuery, LetterQuery, Readable, WorkQuery
from headway.store.rows import WorkRow

MOST_SHOWN = 10
NOT_HANDLED_HERE = (
    "The worker of this process does not handle {0.handler} in queue {0.queue}: it waits until another"
    " process does."
)


class Holding(Value):
    """Work of the instance: which worker has it leased and until when, or when it is due.

    `handled_here` says whether a worker of this process handles it; None if the process has no worker.
    """

    state: str
    handler: str
    queue: str
    attempt: int
    due: datetime
    worker: str | None = None
    leased_until: datetime | None = None
    handled_here: bool | None = None

    def __str__(self) -> str:
        """The text for a person."""
        what = f"{self.handler} (attempt {self.attempt})"
        if self.worker is None:
            waiting = f"{what} waits in queue {self.queue} for a worker, due {self.due.isoformat()}."
            return f"{waiting} {NOT_HANDLED_HERE.format(self)}" if self.handled_here is False else waiting
        until = f" until {self.leased_until.isoformat()}" if self.leased_until else ""
        return f"{what} is leased to {self.worker}{until}."


class Explanation(Value):
    """The answer of `Engine.why`: the chart's reasons, the last error, work, children, messages."""

    why: Why
    failure: Failure | None = None
    ending: EndCause | None = None
    work: tuple[Holding, ...] = ()
    children: tuple[str, ...] = ()
    undelivered: tuple[str, ...] = ()

    @property
    def stuck(self) -> bool:
        """Whether nothing can move it."""
        return self.why.stuck

    def without_operations(self) -> Explanation:
        """The chart's reasons alone, for those who are no operators and may not know of the children."""
        return Explanation(self.why)

    def __str__(self) -> str:
        """The text for a person, most important first."""
        lines = [str(self.why)]
        if self.ending is not None:
            lines.append(str(self.ending))
        if self.failure is not None and (self.ending is None or self.ending.code is None):
            lines.append(str(self.failure))
        lines += map(str, self.work)
        if self.children:
            lines.append(f"These children have not ended: {', '.join(self.children)}.")
        lines += [f"Not delivered: {line}." for line in self.undelivered]
        return "\n".join(lines)


async def explained(
    store: Store,
    charts: Registry,
    tenant: str,
    snapshot: Snapshot,
    *,
    handles: Callable[[str, str], bool] | None = None,
    readable: Readable | None = None,
) -> Explanation:
    """Explain an instance from its chart, the present facts, and the leases of its work.

    `handles` says whether this process handles (queue, handler); None if it has no worker. `readable` says
    which children are listed; None lists all.
    """
    chart = charts.chart(snapshot.chart, snapshot.version)
    facts = await read_facts(store, [Facts(chart, tenant, snapshot, charts.given)])
    key = snapshot.instance
    ids = tuple(open_.id for open_ in snapshot.work.values())
    work = await store.work.page(WorkQuery(tenant=tenant, ids=ids)) if ids else ()
    wanted = InstanceQuery(tenant=tenant, parent=key, ended=False, readable=readable, limit=MOST_SHOWN)
    children = await store.instances.page(wanted) if snapshot.children else ()
    newest = await store.history.newest((tenant, key), MOST_LINES)
    letters = await store.letters.page(LetterQuery(tenant=tenant, instance=key, limit=MOST_SHOWN))
    return Explanation(
        why=explain(chart, snapshot, facts.now, facts=facts.values[0]),
        failure=last_failure(chart, snapshot, newest),
        ending=ending_of(chart, snapshot, newest),
        work=_holdings(work, handles),
        children=tuple(child.id for child in children),
        undelivered=tuple(f"{letter.name} to {letter.destination}, {letter.error}" for letter in letters),
    )


def _holdings(rows: Sequence[WorkRow], handles: Callable[[str, str], bool] | None) -> tuple[Holding, ...]:
    return tuple(
        Holding(
            state=row.state,
            handler=row.handler,
            queue=row.queue,
            attempt=row.attempt,
            due=row.due,
            worker=row.worker,
            leased_until=row.leased_until,
            handled_here=None if handles is None else handles(row.queue, row.handler),
        )
        for row in rows
    )
