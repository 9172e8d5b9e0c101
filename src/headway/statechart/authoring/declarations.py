"""The terms a state is written with: its work, its retries, its ask, and the types they share.

Nothing here raises for a wrong value or an unknown word: they are kept as written and judged by `reader`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, Never, Self

from headway.statechart import model

Duration = str | float | timedelta
Function = Callable[..., Any]
Guard = Function | str
Many = str | Collection[str]


class Making(NamedTuple):
    """An action that needs a function; it is complete when the function has its name."""

    action: Callable[[str | None], model.Action]
    function: Function | None


Doing = Function | model.Action | Making | tuple[model.Action, ...]
Telling = str | Making


class SourceLine(NamedTuple):
    """Where in a file something was written."""

    file: str = ""
    number: int = 0


def line_here(depth: int = 2) -> SourceLine:
    """Where the caller of the caller stands, or one further out."""
    frame = sys._getframe(depth)  # noqa: SLF001 - the only way to know the author's line
    return SourceLine(frame.f_code.co_filename, frame.f_lineno)


class Declaration:
    """What keeps the words that it does not know, for the reader to complain of."""

    unknown: Mapping[str, Never]


class Retry(Declaration):
    """How work that failed is tried again: `Retry(times=5, base="2s", factor=2, cap="1m", jitter=0.3)`.

    `on` limits it to some error codes; the first retry that names a code, or none, applies.
    """

    def __init__(
        self,
        times: int | None = 2,
        *,
        on: Many = (),
        base: Duration = "1s",
        factor: float = 2.0,
        cap: Duration | None = None,
        jitter: float = 0.0,
        **unknown: Never,
    ) -> None:
        self.unknown = unknown
        self.times, self.on, self.base, self.factor, self.cap, self.jitter = (
            times,
            on,
            base,
            factor,
            cap,
            jitter,
        )

    @classmethod
    def never(cls, *codes: str) -> Self:
        """These codes are permanent: they are not tried again."""
        return cls(0, on=codes)


class AtMost(Declaration):
    """A limit for all work of one key: `AtMost(2, of="crawl:{domain}")`, `AtMost(10, of="api", per="1m")`.

    `{field}` in the key is filled from the context, and `AtMost("{field}", of=...)` takes the number from
    there. Without `per` it limits how many run at once, with `per` how many begin within that time.
    """

    def __init__(self, most: int | str, *, of: str, per: Duration | None = None, **unknown: Never) -> None:
        self.unknown = unknown
        self.most, self.of, self.per = most, of, per


class Run(Declaration):
    """Work with its limits: `Run("pay", timeout="60s", retry=Retry(3), errors=("declined",))`.

    `lost` is how often it is tried again because its host was lost, whatever errors it had. Unless it is
    given, that is 20 times where a retry covers `lost_code`, and never where none does.
    """

    def __init__(
        self,
        handler: str,
        *,
        timeout: Duration | None = None,
        retry: Retry | Sequence[Retry] = (),
        errors: Many = (),
        heartbeat: Duration = "10s",
        lease: Duration = "90s",
        queue: str = "default",
        priority: int = 0,
        affinity: str | None = None,
        concurrency: str | AtMost | None = None,
        rate: AtMost | None = None,
        timeout_code: str = "timeout",
        lost_code: str = "lost",
        lost: int | None = None,
        **unknown: Never,
    ) -> None:
        self.unknown = unknown
        self.handler, self.timeout, self.retry, self.errors = handler, timeout, retry, errors
        self.heartbeat, self.lease, self.queue, self.priority = heartbeat, lease, queue, priority
        self.affinity, self.concurrency, self.rate = affinity, concurrency, rate
        self.timeout_code, self.lost_code, self.lost = timeout_code, lost_code, lost


class Ask(Declaration):
    """A question to people: `Ask("manager", form=Verdict, deadline="2d", remind="1d", late="refuse")`.

    Transitions from the asking state that say no `by` are for the roles that are asked. With
    `delegate="anyone"` somebody without these roles may answer in the place of who delegated it to them.
    """

    def __init__(
        self,
        *roles: str,
        form: object = None,
        deadline: Duration | None = None,
        remind: Duration | None = None,
        escalate: Mapping[str | tuple[str, ...], Duration] | None = None,
        late: str = "refuse",
        delegate: str = "asked",
        shows: Many = (),
        **unknown: Never,
    ) -> None:
        self.unknown = unknown
        self.roles, self.form, self.deadline, self.remind = roles, form, deadline, remind
        self.escalate, self.late, self.delegate, self.shows = escalate or {}, late, delegate, shows


class Upgrade(Declaration):
    """How living instances of an older version come to a new one: `Upgrade(states={"review": "check"})`.

    `states` says where an instance goes whose state is no longer there: to a state, to several (one in each
    region), or to what a function of its snapshot answers. `renames` are new names of transitions and
    events. `context` is a function of the snapshot that answers with updates of the context, `drops` are
    fields that are deleted. In the states that `restarts` names, work starts again.
    """

    def __init__(
        self,
        *,
        states: Mapping[str, str | Sequence[str] | Function] | None = None,
        renames: Mapping[str, str] | None = None,
        context: Function | None = None,
        drops: Many = (),
        restarts: Many = (),
        **unknown: Never,
    ) -> None:
        self.unknown = unknown
        self.states, self.renames, self.context = states or {}, renames or {}, context
        self.drops, self.restarts = drops, restarts


def several(value: Many) -> tuple[str, ...]:
    """One name or several; those of a set in order, so that a chart is the same in every process."""
    if isinstance(value, str):
        return (value,)
    return tuple(sorted(value) if isinstance(value, (set, frozenset)) else value)
