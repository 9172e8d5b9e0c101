"""The calls of the client: which request each makes, and what it reads in the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headway.client.actions import HttpRequest, Items, Now, Pause, Steps
from headway.client.answers import (
    AllowedEvent,
    AnswerPage,
    AskShown,
    AskWithForm,
    ChartStates,
    Instance,
    InstanceSummary,
    Line,
    NewLink,
    Standing,
    WhyShown,
)
from headway.client.events import LiveEvent, followed
from headway.client.requests import PER_PAGE, given, header_text, quoted, target
from headway.client.work import WorkVerbs
from headway.clock import backoff
from headway.errors import ForbiddenError, InputError, NotFoundError

FIRST_LOOK, LONGEST_LOOK = 0.05, 1.0
"""`until` looks after these seconds: first, and at the longest."""


class Verbs(WorkVerbs):
    """The calls, as steps for a driver. Each raises ClientError, and InputError for what cannot be sent."""

    # Instances.

    def create(
        self,
        chart: str,
        instance: str | None = None,
        context: Mapping[str, Any] | None = None,
        *,
        request_id: str | None = None,
    ) -> Steps[Standing]:
        """Create an instance of the newest version of a chart; without a name it gets one."""
        body = given(chart=chart, id=instance, context=context)
        return self._post(Standing, "/v1/instances", body, request_id=request_id)

    def send(
        self,
        instance: str,
        event: str,
        data: Any = None,
        *,
        reason: str | None = None,
        expected_seq: int | None = None,
        request_id: str | None = None,
    ) -> Steps[Standing]:
        """Send an event; raises EventRefusedError, and CallConflictError if it is not at `expected_seq`."""
        path = f"{_instance(instance)}/events"
        body = given(event=event, data=data, reason=reason)
        return self._post(Standing, path, body, request_id=request_id, expected_seq=expected_seq)

    def cancel(
        self,
        instance: str,
        *,
        reason: str | None = None,
        expected_seq: int | None = None,
        request_id: str | None = None,
    ) -> Steps[Standing]:
        """Cancel an instance and its children, by the event that its chart names; raises as `send` does."""
        path = f"{_instance(instance)}/cancel"
        return self._post(
            Standing, path, given(reason=reason), request_id=request_id, expected_seq=expected_seq
        )

    def get(self, instance: str) -> Steps[Instance]:
        """An instance as it is now; raises NotFoundError."""
        return self._get(Instance, _instance(instance))

    def until(self, instance: str, *states: str, timeout: float | None = None) -> Steps[Instance]:
        """Wait until an instance is in one of the states, or has ended.

        Raises TimeoutError after `timeout` seconds, NotFoundError, and InputError for a state that the chart
        does not have.
        """
        path, looks = _instance(instance), 0
        deadline = None if timeout is None else (yield Now()) + timeout
        while True:
            found = yield from self._get(Instance, path)
            if found.ended or not {found.status, *found.states, *found.since}.isdisjoint(states):
                return found
            if not looks:
                yield from self._check_states(found, states)
            looks += 1
            pause = backoff(looks, base=FIRST_LOOK, cap=LONGEST_LOOK)
            if deadline is not None:
                left = deadline - (yield Now())
                if left <= 0:
                    raise TimeoutError(f"{instance} is still in {' + '.join(found.states)}")
                pause = min(pause, left)
            yield Pause(pause)

    def list(
        self,
        *,
        chart: str | None = None,
        status: str | None = None,
        parent: str | None = None,
        owner: str | None = None,
        ended: bool | None = None,
        per_page: int = PER_PAGE,
    ) -> Items[InstanceSummary]:
        """The instances in the order of their creation; further pages are read as they are needed."""
        wanted = {"chart": chart, "status": status, "parent": parent, "owner": owner, "ended": ended}
        return self._pages(InstanceSummary, "/v1/instances", {**wanted, "limit": per_page})

    def history(self, instance: str, *, per_page: int = PER_PAGE) -> Items[Line]:
        """What has happened to an instance, the oldest first."""
        return self._pages(Line, f"{_instance(instance)}/history", {"limit": per_page})

    def why(self, instance: str) -> Steps[WhyShown]:
        """What an instance waits for, who or what could move it, and what stands in the way."""
        return self._get(WhyShown, f"{_instance(instance)}/why")

    def allowed(self, instance: str) -> Steps[Sequence[AllowedEvent]]:
        """The events that an instance would accept now, from whom, and whether the caller may send them."""
        page = yield from self._get(AnswerPage[AllowedEvent], f"{_instance(instance)}/allowed")
        return page.items

    def follow(
        self,
        *,
        chart: str | None = None,
        instance: str | None = None,
        owner: str | None = None,
        parent: str | None = None,
        after: str | None = None,
    ) -> Items[LiveEvent]:
        """Live events, from after the event with the id `after`, or from now on; they have no end.

        After a lost connection it resumes where it was, without a gap or a repeat.
        """
        wanted = {"chart": chart, "instance": instance, "owner": owner, "parent": parent}
        request = HttpRequest("GET", target("/v1/events", wanted), stream=True)
        begin = None if after is None else header_text("after", after)
        return followed(request, begin, self._retries)

    # Asks.

    def inbox(self, *, per_page: int = PER_PAGE) -> Items[AskShown]:
        """The open asks that the caller may answer, the oldest first."""
        return self._pages(AskShown, "/v1/asks", {"limit": per_page})

    def ask(self, ask: str) -> Steps[AskWithForm]:
        """One ask, open or closed, with its form."""
        return self._get(AskWithForm, _ask(ask))

    def claim(self, ask: str, *, lasts: str | None = None, request_id: str | None = None) -> Steps[Standing]:
        """Claim an ask: nobody else can answer it until it is released or the claim expires (after "15m")."""
        return self._post(Standing, f"{_ask(ask)}/claim", given(lasts=lasts), request_id=request_id)

    def release(self, ask: str, *, request_id: str | None = None) -> Steps[Standing]:
        """Give back an ask that the caller has claimed, or that was delegated to the caller."""
        return self._post(Standing, f"{_ask(ask)}/release", None, request_id=request_id)

    def delegate(self, ask: str, *, to: str, request_id: str | None = None) -> Steps[Standing]:
        """Delegate an ask to a person, who alone may answer it then."""
        return self._post(Standing, f"{_ask(ask)}/delegate", {"to": to}, request_id=request_id)

    def answer(
        self,
        ask: str,
        answer: str = "answer",
        data: Any = None,
        *,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Steps[Standing]:
        """Answer an ask by one of its answers; raises as `send` does."""
        body = given(answer=answer, data=data, reason=reason)
        return self._post(Standing, f"{_ask(ask)}/answer", body, request_id=request_id)

    def link(
        self,
        ask: str,
        *,
        person: str,
        roles: Sequence[str] = (),
        lasts: str | None = None,
        request_id: str | None = None,
    ) -> Steps[NewLink]:
        """A signed token by which one person answers one ask once, without login. Needs the scope `admin`."""
        body = given(person=person, roles=[*roles], lasts=lasts)
        return self._post(NewLink, f"{_ask(ask)}/link", body, request_id=request_id)

    def _check_states(self, found: Instance, states: Sequence[str]) -> Steps[None]:
        """Raises InputError for a state that the chart does not have: the wait would have no end."""
        try:
            chart = yield from self._get(ChartStates, f"/v1/charts/{quoted(found.chart)}")
        except (ForbiddenError, NotFoundError):
            return  # the credential reads no charts
        known = {state["id"] for state in chart.states}
        unknown = [state for state in states if state not in known]
        if unknown and chart.version == found.version:
            raise InputError(f"chart {found.chart} has no state {', '.join(unknown)}")


def _instance(name: str) -> str:
    return f"/v1/instances/{quoted(name)}"


def _ask(name: str) -> str:
    return f"/v1/asks/{quoted(name)}"
