"""The reader of a class body: its states and transitions become a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from headway.errors import DefinitionError, shown
from headway.statechart import model
from headway.statechart.authoring.declarations import (
    Ask,
    AtMost,
    Doing,
    Duration,
    Function,
    Making,
    Retry,
    Run,
    SourceLine,
    Upgrade,
)
from headway.statechart.authoring.states import (
    BODY_ROWS,
    AnyLive,
    History,
    RowOptions,
    State,
    Transition,
    Written,
)
from headway.statechart.authoring.values import Values, words_of
from headway.statechart.chart import Chart
from headway.statechart.validation.contents import comes_from_people
from headway.statechart.validation.validate import problems_of

LATE = ("refuse", "record")
DELEGATES = ("asked", "anyone")


class ChartReader(Values):
    """Turns one class body into a model, with the line of each state and row."""

    def __init__(self, cls: type) -> None:
        super().__init__()
        self.cls = cls
        self.lines: dict[str, SourceLine] = {}
        self.asks: dict[str, model.Ask] = {}
        self.timers: Counter[str] = Counter()
        body = [value for base in reversed(cls.__mro__) for value in vars(base).items()]
        named = dict(body)
        self.states = {key: value for key, value in named.items() if isinstance(value, State)}
        found = [value for value in named.values() if isinstance(value, Transition)]
        self.transitions = list(dict.fromkeys(found))
        self.invariants = [
            getattr(value, "__func__", value)
            for value in named.values()
            if hasattr(getattr(value, "__func__", value), "__headway_invariant__")
        ]
        lines = [state.line for state in self.states.values()]
        self.first_line = lines[0] if lines else SourceLine()

    def chart(self, settings: dict[str, Any]) -> Chart:
        """The finished chart; raises DefinitionError."""
        parents = self._parents()
        states = tuple(self._state(state, parents) for state in self._document_order(parents))
        rows = tuple(row for transition in self.transitions for row in self._rows(transition))
        self._unnamed_rows()
        roots = [state for state in self.states.values() if state.name not in parents and state.initial]
        invariants = tuple(model.Named(name=self.function(each, self.first_line)) for each in self.invariants)
        self.typed(model.Model(**settings), self.cls.__name__, self.first_line)
        whole = model.Model(
            **settings,
            initial=tuple(state.name for state in roots),
            states=states,
            transitions=rows,
            schemas={name: kind.schema() for name, kind in sorted(self.types.items())},
            invariants=invariants,
        )
        if not self.mistyped:
            kind = self.types.get(whole.context or "")
            kept = None if kind is None else kind.kept_schema()
            self.problems += problems_of(whole, self.lines, self.first_line, context=kept)
        if self.problems:
            raise DefinitionError(
                str(whole.name), tuple(sorted(dict.fromkeys(self.problems), key=lambda p: (p.file, p.line)))
            )
        return Chart(whole, self.functions, self.types, self.lines)

    def _parents(self) -> dict[str, str]:
        parents: dict[str, str] = {}
        for state in self.states.values():
            for child in state.given:
                if not isinstance(child, State):
                    self.problem(f"a child of {state.name} is not a state: {shown(child)}", state.line)
                elif not child.name or self.states.get(child.name) is not child:
                    self.problem(
                        f"a child of {state.name} has no name: assign it to an attribute first", state.line
                    )
                elif child.name in parents:
                    self.problem(
                        f"{child.name} is a child of both {parents[child.name]} and {state.name}", child.line
                    )
                else:
                    parents[child.name] = state.name
        return parents

    def _document_order(self, parents: Mapping[str, str]) -> list[State]:
        """Each state before its children, children in the order their parent lists them."""
        ordered: dict[str, State] = {}
        pending = [state for state in self.states.values() if state.name not in parents][::-1]
        while pending:
            state = pending.pop()
            if state.name in ordered:
                continue
            ordered[state.name] = state
            pending += [child for child in reversed(state.children) if parents.get(child.name) == state.name]
        return list(ordered.values())

    def _state(self, state: State, parents: Mapping[str, str]) -> model.State:
        self.lines[state.name] = state.line
        self.unknown_words(state.name, state.unknown, words_of(type(state).__init__), state.line)
        kind = "compound" if state.children and state.kind == "atomic" else state.kind
        children = [child for child in state.children if child.kind not in {"shallow", "deep"}]
        initial = [child.name for child in children if child.initial] or [
            child.name for child in children[:1]
        ]
        if isinstance(state, History):
            initial = [] if state.otherwise is None else [self._named(state.otherwise, state.line)]
        ask = self._ask(state.ask, state.line) if state.ask is not None else None
        if ask is not None:
            self.asks[state.name] = ask
        read = model.State(
            id=state.name,
            kind=kind,  # type: ignore[arg-type]  # the classes of `authoring` set no other
            parent=parents.get(state.name),
            initial=tuple(initial) if kind in {"compound", "shallow", "deep"} else (),
            meaning=state.meaning,
            waits_for=state.waits_for,
            where=state.where,
            run=self._run(state),
            ask=ask,
            progress=state.progress,
            says=state.says,
            entry=self._block(state.entry, state.line),
            exit=self._block(state.exit, state.line),
        )
        return self.typed(read, state.name, state.line)

    def _block(
        self, doing: Doing | Sequence[Doing], line: SourceLine
    ) -> tuple[tuple[model.Action, ...], ...]:
        actions = self.actions(doing, line)
        return (actions,) if actions else ()

    def _run(self, state: State) -> model.Run | None:
        line = state.line
        run: object = state.run
        if run is None:
            given = {"timeout": state.timeout, "retry": state.retry or None, "errors": state.errors or None}
            for word, value in given.items():
                if value is not None:
                    self.problem(
                        f"{state.name} has {word}= but no run= (for a time limit write .after(...))", line
                    )
            return None
        if not isinstance(run, (str, Run)):
            self.problem(f"run= must be the name of a handler or a Run(...), not {run!r}", line)
            return None
        if isinstance(run, str):
            run = Run(run, timeout=state.timeout, retry=state.retry, errors=state.errors)
        elif state.timeout or state.retry or state.errors:
            self.problem(
                f"{state.name} has timeout, retry or errors beside a Run(...): put them into the Run", line
            )
        self.term(run, line)
        policies = self._policies(run.retry, line)
        return model.Run(
            handler=run.handler,
            timeout=self.duration(run.timeout, line),
            heartbeat=self.duration(run.heartbeat, line) or 0,
            lease=self.duration(run.lease, line) or 0,
            queue=run.queue,
            priority=run.priority,
            affinity=run.affinity,
            concurrency=self._limit("concurrency", run.concurrency, line),
            rate=self._limit("rate", run.rate, line),
            retry=tuple(self._retry(policy, line) for policy in policies),
            errors=self.names(run.errors, line),
            timeout_code=run.timeout_code,
            lost_code=run.lost_code,
            lost=run.lost,
        )

    def _limit(self, word: str, limit: object, line: SourceLine) -> model.Limit | None:
        if limit is None:
            return None
        if isinstance(limit, str) and word == "concurrency":
            return model.Limit(key=limit)
        if isinstance(limit, AtMost):
            self.term(limit, line)
            return model.Limit(key=limit.of, most=limit.most, per=self.duration(limit.per, line))
        self.problem(f"{word}= must be an AtMost(...), not {shown(limit)}", line)
        return None

    def _policies(self, retry: object, line: SourceLine) -> tuple[Retry, ...]:
        policies = retry if isinstance(retry, (list, tuple)) else (retry,)
        for policy in policies:
            if not isinstance(policy, Retry):
                self.problem(f"retry= must be a Retry(...) or a list of them, not {policy!r}", line)
        return tuple(policy for policy in policies if isinstance(policy, Retry))

    def _retry(self, policy: Retry, line: SourceLine) -> model.Retry:
        self.term(policy, line)
        return model.Retry(
            on=self.names(policy.on, line),
            times=policy.times,
            base=self.duration(policy.base, line) or 0,
            factor=policy.factor,
            cap=self.duration(policy.cap, line),
            jitter=policy.jitter,
        )

    def _ask(self, ask: object, line: SourceLine) -> model.Ask | None:
        if not isinstance(ask, Ask):
            self.problem(f"ask= must be an Ask(...), not {ask!r}", line)
            return None
        self.term(ask, line)
        given: object = ask.escalate
        if not isinstance(given, Mapping):
            self.problem('escalate= maps roles to durations, as {"director": "3d"}', line)
            given = {}
        escalate = [
            model.Escalation(roles=self.names(roles, line), after=self.duration(after, line) or 0)
            for roles, after in given.items()
        ]
        if ask.late not in LATE:
            self.problem(f'late= must be "refuse" or "record", not {shown(ask.late)}', line)
        if ask.delegate not in DELEGATES:
            self.problem(f'delegate= must be "asked" or "anyone", not {shown(ask.delegate)}', line)
        return model.Ask(
            roles=self.names(ask.roles, line),
            form=self.type_name(ask.form, line),
            deadline=self.duration(ask.deadline, line),
            remind=self.duration(ask.remind, line),
            escalate=tuple(escalate),
            late="record" if ask.late == "record" else "refuse",
            delegate="anyone" if ask.delegate == "anyone" else "asked",
            shows=self.names(ask.shows, line),
        )

    def _rows(self, transition: Transition) -> list[model.Transition]:
        return [self._row(transition.name, written) for written in transition.rows]

    def _row(self, name: str, written: Written) -> model.Transition:
        line, options = written.line, written.options
        known = RowOptions.__annotations__
        self.unknown_words(name, options.keys() - known.keys(), known, line)
        self.lines[f"{name}@{written.source.name if written.source else model.ROOT}"] = line
        source = model.ROOT if written.source is None else self._named(written.source, line)
        targets = tuple(self._named(target, line) for target in written.targets)
        events = self._events(name, written, line)
        if written.kind == "to" and not targets:
            self.problem(f"{name} has no target: name one, or write .stay()", line)
        read = model.Transition(
            name=name,
            source=source,
            events=events,
            targets=targets if written.kind == "to" else (),
            lands=targets if written.kind == "computes" else (),
            excludes=tuple(self._named(state, line) for state in listed(options.get("but", ()))),
            internal=bool(options.get("internal", False)),
            after=self._after(written.after, line),
            repeats=written.repeats,
            by=self.names(options.get("by", ()), line) or self._asked(source, events),
            when=self.conditions(options.get("when", ()), line),
            takes=self.type_name(options.get("takes"), line),
            distinct_from=self.names(options.get("distinct_from", ()), line),
            quorum=options.get("quorum", 1),
            countersign=self.names(options.get("countersign", ()), line),
            no_agent=bool(options.get("no_agent", False)),
            actions=self._row_actions(written, line),
            meaning=options.get("meaning", ""),
        )
        return self.typed(read, name, line)

    def _asked(self, source: str, events: tuple[str, ...]) -> tuple[str, ...]:
        """The roles that a state asks, for a row that people fire and that says nothing about who."""
        ask = self.asks.get(source)
        return ask.roles if ask is not None and any(map(comes_from_people, events)) else ()

    def _events(self, name: str, written: Written, line: SourceLine) -> tuple[str, ...]:
        given = self.names(written.options.get("event", ()), line)
        if written.cause == "event" and written.events is None and written.after is None:
            return given or (name,)
        if given:
            self.problem(f"{name} has an event and a trigger: use one of them", line)
        if written.after is not None:
            return (self._timer_event(name, written),)
        if written.cause == "always":
            return ()
        named = self.names(written.events or (), line)
        awaited = written.awaited()
        if not awaited:
            self.problem(f"{name} waits for no event: {_why_none(written)}", line)
        # After a mistake, an event like any other: without one the row would be another mistake.
        return awaited if awaited and len(named) == len(written.events or ()) else (name,)

    def _timer_event(self, name: str, written: Written) -> str:
        """An event for each timer: with a shared one, the first timer would fire the rows of the others."""
        event = f"after.{written.source.name if written.source else 'life'}.{name}"
        self.timers[event] += 1
        # No further dot: `after.a.x` would match `after.a.x.2` too.
        return event if self.timers[event] == 1 else f"{event}-{self.timers[event]}"

    def _row_actions(self, written: Written, line: SourceLine) -> tuple[model.Action, ...]:
        options = written.options
        actions = list(self.actions(options.get("do", ()), line))
        if sets := self.names(options.get("sets", ()), line):
            actions.append(model.Stamp(fields=sets))
        if clears := self.names(options.get("clears", ()), line):
            actions.append(model.Clear(fields=clears))
        actions += [model.Count(name=counter) for counter in self.names(options.get("counts", ()), line)]
        for option, kind in (("emit", "topic"), ("webhook", "webhook"), ("live", "live")):
            for item in listed(options.get(option, ())):
                if isinstance(item, str):
                    actions.append(model.Publish(kind=kind, name=item))  # type: ignore[arg-type]  # from the table above
                else:
                    actions += self.actions(item, line)
        return tuple(actions)

    def upgrades(self, given: Mapping[Any, Any]) -> tuple[model.Upgrade, ...]:
        """How instances of older versions come to this one, by version."""
        return tuple(self._upgrade(version, each) for version, each in given.items())

    def _upgrade(self, version: object, given: object) -> model.Upgrade:
        line = self.first_line
        if type(version) is not int or not isinstance(given, Upgrade):
            self.problem(f"upgrades= must map versions to Upgrade(...), not {shown({version: given})}", line)
            return model.Upgrade(version=0)
        self.term(given, line)
        read = model.Upgrade(
            version=version,
            states={state: self._destination(to, line) for state, to in self._pairs(given.states, line)},
            renames=dict(self._pairs(given.renames, line)),
            context=None if given.context is None else self.function(given.context, line),
            drops=self.names(given.drops, line),
            restarts=self.names(given.restarts, line),
        )
        return self.typed(read, f"the upgrade from version {version}", line)

    def _pairs(self, given: object, line: SourceLine) -> list[tuple[Any, Any]]:
        if isinstance(given, Mapping):
            return list(given.items())
        self.problem(f"states= and renames= of an Upgrade must be mappings, not {shown(given)}", line)
        return []

    def _destination(self, to: Any, line: SourceLine) -> tuple[str, ...] | model.Named:
        return model.Named(name=self.function(to, line)) if callable(to) else self.names(to, line)

    def _after(self, delay: Duration | Function | None, line: SourceLine) -> int | model.Condition | None:
        if callable(delay):
            return model.Named(name=self.function(delay, line))
        return self.duration(delay, line)

    def _named(self, state: object, line: SourceLine) -> str:
        name = getattr(state, "name", "")
        if isinstance(state, AnyLive) or not isinstance(state, State):
            self.problem(f"not a state: {state!r}", line)
        elif self.states.get(name) is not state:
            self.problem(f"the state {name or '(unnamed)'} is not an attribute of {self.cls.__name__}", line)
        return name

    def _unnamed_rows(self) -> None:
        used = {id(row) for transition in self.transitions for row in transition.rows}
        # Bases that are charts were judged when they were made, and other charts may share their states.
        bodies = [vars(base) for base in self.cls.__mro__ if base is self.cls or "chart" not in vars(base)]
        rows = [row for body in bodies for row in body.get(BODY_ROWS, ())]
        states = [each for body in bodies for each in body.values() if isinstance(each, State)]
        rows += [row for state in states for row in state.rows]
        for row in rows:
            if id(row) not in used:
                source = row.source.name if row.source else "any_live"
                self.problem(
                    f"a transition from {source} has no name, or its name was assigned again", row.line
                )


def _why_none(written: Written) -> str:
    if written.cause == "error" and written.events != () and written.source is not None:
        return f"nothing runs in {written.source.name}"
    return "name one, or write .always"


def listed(value: object) -> Sequence[Any]:
    """Several values, or one as if it were several."""
    several = isinstance(value, (list, tuple)) and not isinstance(value, Making)
    return value if several else (value,)  # type: ignore[return-value]  # a list or a tuple
