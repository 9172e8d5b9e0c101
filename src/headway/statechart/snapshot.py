"""What an instance is between two events: one immutable value, and the events that change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from headway.codec import Plain, to_data
from headway.statechart.identity import require_id, require_role

Kind = Literal["person", "agent", "service", "system"]


class Actor(Plain, kw_only=False):
    """Who sends an event: a person, an agent, a service or the system, with roles.

    With `own` they reach only the instances that are theirs: those they own, or that name them.
    """

    id: str
    kind: Kind = "person"
    roles: frozenset[str] = frozenset()
    own: bool = False


SYSTEM = Actor(id="system", kind="system", roles=frozenset({"system"}))


INSTANCE = "instance:"
"""What the id of an instance begins with that sends an event to another one."""


def is_reserved(actor: Actor) -> bool:
    """Whether only the engine may act as this actor: nobody gets a key, a token or a link for it."""
    name = actor.id.strip().casefold()
    return actor.kind == "system" or name == SYSTEM.id or name.startswith(INSTANCE)


def person(id: str, *roles: str) -> Actor:  # noqa: A002 - the word callers expect
    """A person with roles; raises InputError for ids and roles that could be taken for others."""
    return actor_of(id, "person", roles)


def agent(id: str, *roles: str) -> Actor:  # noqa: A002 - the word callers expect
    """An actor of kind `agent`: a program that decides by itself; raises InputError as `person` does."""
    return actor_of(id, "agent", roles)


def actor_of(id: str, kind: Kind, roles: Iterable[str]) -> Actor:  # noqa: A002 - the word callers expect
    """An actor whose id and roles come from outside; raises InputError if they could be taken for others."""
    require_id("the id of an actor", id)
    for role in roles:
        require_role(role)
    return Actor(id=id, kind=kind, roles=frozenset(roles))


class Event(Plain, kw_only=False):
    """Something that happened: a name, what it carries, who sent it, and what it answers.

    `ref` names the open timer, ask or work item this event belongs to, `attempt` the attempt of
    the work. An event whose `ref` is no longer open is refused.
    """

    name: str
    data: Any = None
    by: Actor = SYSTEM
    ref: str | None = None
    attempt: int = 0
    reason: str | None = None


class Timer(Plain):
    """An event that comes by itself at a time, unless the state it was set in is left first."""

    due: datetime
    event: str
    state: str | None = None
    data: Any = None
    sent_as: str | None = None


class OpenWork(Plain):
    """The work of an active state: which attempt is due or running, and how often which policy failed.

    `lost` is how many attempts ended because their host was lost: these are no failures.
    """

    id: str
    attempt: int = 1
    failures: dict[str, int] = {}
    due: datetime | None = None
    lost: int = 0


class OpenAsk(Plain):
    """The question of an active state: who may answer, and until when.

    A claim keeps others from answering until it runs out; a delegation leaves it to one person alone.
    `delegated_by` are those in whose place that person may answer, the one who was asked first.
    `since` is when it was put, if that was later than its state was entered.
    """

    id: str
    roles: tuple[str, ...]
    deadline: datetime | None = None
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    delegated_to: str | None = None
    since: datetime | None = None
    delegated_by: tuple[Actor, ...] = ()


class Snapshot(Plain):
    """An instance between two events."""

    chart: str
    version: int
    instance: str
    seq: int = 0
    states: tuple[str, ...] = ()
    context: dict[str, Any] = {}
    since: dict[str, datetime] = {}
    timers: dict[str, Timer] = {}
    work: dict[str, OpenWork] = {}
    asks: dict[str, OpenAsk] = {}
    memory: dict[str, tuple[str, ...]] = {}
    acted: dict[str, tuple[str, ...]] = {}
    votes: dict[str, dict[str, str]] = {}
    counters: dict[str, int] = {}
    children: dict[str, int] = {}
    progress: float = 0.0
    seed: int = 0
    depth: int = 0
    parent: str | None = None
    ended: bool = False
    output: Any = None
    creator: str | None = None
    owner: str | None = None

    @property
    def state(self) -> str:
        """The active atomic states as one word: `filling`, or `form+upload` in parallel regions."""
        return "+".join(self.states)

    @property
    def reached(self) -> datetime | None:
        """When the active atomic states were reached, the last of them; None before the start."""
        return reached(self.states, self.since)


def reached(states: tuple[str, ...], since: Mapping[str, datetime]) -> datetime | None:
    """When the last of these states was entered; None if no time is known of any of them."""
    if len(states) == 1:
        return since.get(states[0])
    return max((since[state] for state in states if state in since), default=None)


class Row(Plain):
    """One line of the history: states before and after, event, sender, time and reason.

    `since` is when the states `before` were reached, if this line left them: one that only acts has none.
    """

    seq: int
    index: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    event: str
    transition: str
    actor: str
    at: datetime
    reason: str | None = None
    attempt: int = 0
    data: Any = None
    since: datetime | None = None


def timer_fired(timer: str, *, reason: str | None = None) -> Event:
    """The event that a due timer sends."""
    return Event(name="timer", ref=timer, reason=reason)


def work_done(work: str, attempt: int, result: object = None, by: Actor = SYSTEM) -> Event:
    """The event of a worker that has finished."""
    return Event(name="work.done", ref=work, attempt=attempt, data=result, by=by)


def work_failed(
    work: str, attempt: int, code: str, message: str = "", *, by: Actor = SYSTEM, **details: object
) -> Event:
    """The event of a worker that has failed with an error code, and with what else it knows."""
    data = {**details, "code": code, "message": message}
    return Event(name="work.failed", ref=work, attempt=attempt, data=data, by=by)


def work_lost(work: str, attempt: int, by: Actor = SYSTEM, *, message: str = "the worker was lost") -> Event:
    """The event of an attempt whose worker gives no sign any more: the chart says which error that is."""
    data = {"cause": "lost", "message": message}
    return Event(name="work.failed", ref=work, attempt=attempt, data=data, by=by)


def work_timed_out(work: str, attempt: int, by: Actor = SYSTEM) -> Event:
    """The event of an attempt that took too long: the chart says which error that is."""
    data = {"cause": "timeout", "message": "the attempt took longer than its timeout"}
    return Event(name="work.failed", ref=work, attempt=attempt, data=data, by=by)


def work_progress(work: str, attempt: int, fraction: float, **data: object) -> Event:
    """The event of a worker that has come this far (0 to 1)."""
    return Event(name="work.progress", ref=work, attempt=attempt, data={"fraction": fraction, **data})


CLAIM, RELEASE, DELEGATE = "ask.claim", "ask.release", "ask.delegate"
"""The events by which somebody claims an ask, gives it back, or delegates it."""


class AskClaim(Plain, forbid_unknown_fields=False):
    """The payload of a claim: for how many milliseconds nobody else may answer.

    It says for how long, not until when: a repeat of the request must be the same request.
    """

    lasts: int


class AskDelegation(Plain, forbid_unknown_fields=False):
    """The payload of a delegation: the id of the person who may answer."""

    to: str


def claim_ask(ask: str, lasts: timedelta, by: Actor) -> Event:
    """The event that claims an ask: until `lasts` has passed, nobody else may answer it."""
    claim = AskClaim(lasts=lasts // timedelta(milliseconds=1))
    return Event(name=CLAIM, ref=ask, data=to_data(claim), by=by)


def release_ask(ask: str, by: Actor) -> Event:
    """The event of somebody who gives an ask back that they claimed, or that was delegated to them."""
    return Event(name=RELEASE, ref=ask, by=by)


def delegate_ask(ask: str, to: str, by: Actor) -> Event:
    """The event of somebody who delegates an ask to another person, named by id."""
    return Event(name=DELEGATE, ref=ask, data=to_data(AskDelegation(to=to)), by=by)


def child_changed(child: str, before: str | None, after: str | None, errors: int = 0) -> Event:
    """The event by which a child reports a change of status to its parent (None: is new, is gone)."""
    return Event(name="child.changed", ref=child, data={"from": before, "to": after, "errors": errors})


def children_changed(counts: Mapping[str, int], errors: int = 0) -> Event:
    """The event that reports to a parent by how much its counts of children by status changed."""
    return Event(name="child.changed", ref="children", data={"counts": counts, "errors": errors})
