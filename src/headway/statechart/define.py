"""`Statechart`: a class body becomes a chart, with every mistake found at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from headway.clock import LONGEST, milliseconds
from headway.codec import Value, is_json
from headway.errors import DefinitionError, Problem
from headway.statechart import model
from headway.statechart.authoring import (
    AnyLive,
    Ask,
    Doing,
    Duration,
    Function,
    History,
    Line,
    Making,
    Retry,
    Row,
    Run,
    State,
    Transition,
    Written,
)
from headway.statechart.chart import Chart
from headway.statechart.export import from_document
from headway.statechart.scxml import from_scxml
from headway.statechart.types import DataType
from headway.statechart.validate import problems_of, suggestion


class Statechart:
    """A lifecycle, declared once: states and transitions are attributes of a subclass.

    Raises DefinitionError, when the class is created, with all that is wrong and where.
    """

    chart: ClassVar[Chart]

    def __init_subclass__(
        cls,
        *,
        version: int = 1,
        name: str | None = None,
        context: object = None,
        facts: Sequence[str | model.Fact] = (),
        computed: str | None = None,
        accepts: Mapping[str, str] | None = None,
        staff: Mapping[str, int] | None = None,
        cancel: str | None = None,
        max_depth: int = 5,
        max_children: int | None = None,
    ) -> None:
        """Reads the class body."""
        reader = _Reader(cls)
        chart_name = name or cls.__name__
        settings = {
            "name": chart_name,
            "version": version,
            "meaning": (cls.__doc__ or "").strip(),
            "context": reader.type_name(context, reader.first_line),
            "facts": tuple(fact if isinstance(fact, model.Fact) else model.Fact(name=fact) for fact in facts),
            "computed": computed,
            "accepts": tuple(_acceptance(key, why) for key, why in (accepts or {}).items()),
            "staff": dict(staff or {}),
            "cancel": cancel,
            "max_depth": max_depth,
            "max_children": max_children,
        }
        cls.chart = reader.chart(settings)

    @staticmethod
    def from_document(document: object, functions: Iterable[Any] = ()) -> Chart:
        """The chart of an exported document; functions and types are bound by their names."""
        return from_document(document, functions)

    @staticmethod
    def from_scxml(text: str | bytes) -> Chart:
        """The chart of an SCXML document."""
        return from_scxml(text)


def invariant(promise: str) -> Callable[[Any], Any]:
    """Declares that a condition holds in every state the chart can reach; the explorer proves it.

    It goes on a function of an `Explored`, which may be a static method. Raises TypeError when the
    promise is not said in words.
    """
    if callable(promise):
        raise TypeError('an invariant says what it promises: @invariant("nothing is paid unapproved")')

    def mark(function: Any) -> Any:
        inner = getattr(function, "__func__", function)
        inner.__headway_invariant__ = promise
        inner.__doc__ = inner.__doc__ or promise
        return function

    return mark


def _acceptance(key: str, because: str) -> model.Acceptance:
    finding, _, place = key.partition(":")
    return model.Acceptance(finding=finding.strip(), place=place.strip(), because=because)


def takes_one(function: Function) -> bool:
    """Whether a function can be called with the view alone."""
    try:
        inspect.signature(function).bind(None)
    except (TypeError, ValueError):
        return False
    return True


def _working(state: State) -> list[State]:
    """The states inside a state that run work."""
    inside = [descendant for child in state.children for descendant in (child, *_working(child))]
    return [each for each in inside if each.run is not None]


class _Reader:
    """Turns one class body into a model, keeping functions, types, lines and problems."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.problems: list[Problem] = []
        self.functions: dict[str, Function] = {}
        self.types: dict[str, DataType] = {}
        self.lines: dict[str, Line] = {}
        body = [value for base in reversed(cls.__mro__) for value in vars(base).items()]
        named = dict(body)
        self.states = {key: value for key, value in named.items() if isinstance(value, State)}
        self.transitions = {key: value for key, value in named.items() if isinstance(value, Transition)}
        self.invariants = [
            getattr(value, "__func__", value)
            for value in named.values()
            if hasattr(getattr(value, "__func__", value), "__headway_invariant__")
        ]
        lines = [state.line for state in self.states.values()]
        self.first_line = lines[0] if lines else Line()

    def problem(self, message: str, line: Line) -> None:
        self.problems.append(Problem(message, *line))

    def chart(self, settings: dict[str, Any]) -> Chart:
        """The finished chart; raises DefinitionError."""
        parents = self._parents()
        states = tuple(self._state(state, parents) for state in self._document_order(parents))
        rows = tuple(row for transition in self.transitions.values() for row in self._rows(transition))
        self._unnamed_rows()
        roots = [state for state in self.states.values() if state.name not in parents and state.initial]
        invariants = tuple(model.Named(name=self.function(each, self.first_line)) for each in self.invariants)
        whole = model.Model(
            **settings,
            initial=tuple(state.name for state in roots),
            states=states,
            transitions=rows,
            schemas={name: kind.schema() for name, kind in sorted(self.types.items())},
            invariants=invariants,
        )
        self.problems += problems_of(whole, self.lines, self.first_line)
        if self.problems:
            raise DefinitionError(
                whole.name, tuple(sorted(dict.fromkeys(self.problems), key=lambda p: (p.file, p.line)))
            )
        return Chart(whole, self.functions, self.types, self.lines)

    def _parents(self) -> dict[str, str]:
        parents: dict[str, str] = {}
        for state in self.states.values():
            for child in state.children:
                if not child.name or self.states.get(child.name) is not child:
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
        kind = "compound" if state.children and state.kind == "atomic" else state.kind
        children = [child for child in state.children if child.kind not in {"shallow", "deep"}]
        initial = [child.name for child in children if child.initial] or [
            child.name for child in children[:1]
        ]
        if isinstance(state, History):
            initial = [state.otherwise.name] if state.otherwise else []
        return model.State(
            id=state.name,
            kind=kind,  # type: ignore[arg-type]  # the classes of `authoring` set no other
            parent=parents.get(state.name),
            initial=tuple(initial) if kind in {"compound", "shallow", "deep"} else (),
            meaning=state.meaning,
            waits_for=state.waits_for,
            where=state.where,
            run=self._run(state),
            ask=self._ask(state.ask, state.line) if state.ask else None,
            progress=state.progress,
            says=state.says,
            entry=self._block(state.entry, state.line),
            exit=self._block(state.exit, state.line),
        )

    def _block(self, doing: Doing | Sequence[Doing], line: Line) -> tuple[tuple[model.Action, ...], ...]:
        actions = self.actions(doing, line)
        return (actions,) if actions else ()

    def _run(self, state: State) -> model.Run | None:
        line = state.line
        run: object = state.run
        if run is None:
            for word, value in (("timeout", state.timeout), ("retry", state.retry), ("errors", state.errors)):
                if value:
                    self.problem(
                        f"{state.name} has {word}= but no run= (for a time limit write .after(...))", line
                    )
            return None
        if not isinstance(run, (str, Run)):
            self.problem(f"run= names a handler or is a Run(...), not {run!r}", line)
            return None
        if isinstance(run, str):
            run = Run(run, timeout=state.timeout, retry=state.retry, errors=state.errors)
        elif state.timeout or state.retry or state.errors:
            self.problem(f"{state.name} gives timeout, retry or errors beside a Run: put them into it", line)
        policies = self._policies(run.retry, line)
        return model.Run(
            handler=run.handler,
            timeout=self.duration(run.timeout, line),
            heartbeat=self.duration(run.heartbeat, line) or 0,
            lease=self.duration(run.lease, line) or 0,
            queue=run.queue,
            priority=run.priority,
            affinity=run.affinity,
            concurrency=run.concurrency,
            retry=tuple(self._retry(policy, line) for policy in policies),
            errors=self.names(run.errors, line),
            timeout_code=run.timeout_code,
            lost_code=run.lost_code,
        )

    def _policies(self, retry: object, line: Line) -> tuple[Retry, ...]:
        policies = retry if isinstance(retry, (list, tuple)) else (retry,)
        for policy in policies:
            if not isinstance(policy, Retry):
                self.problem(f"retry= is a Retry(...) or several, not {policy!r}", line)
        return tuple(policy for policy in policies if isinstance(policy, Retry))

    def _retry(self, policy: Retry, line: Line) -> model.Retry:
        return model.Retry(
            on=self.names(policy.on, line),
            times=policy.times,
            base=self.duration(policy.base, line) or 0,
            factor=float(policy.factor),
            cap=self.duration(policy.cap, line),
            jitter=float(policy.jitter),
        )

    def _ask(self, ask: object, line: Line) -> model.Ask | None:
        if not isinstance(ask, Ask):
            self.problem(f"ask= is an Ask(...), not {ask!r}", line)
            return None
        given: object = ask.escalate
        if not isinstance(given, dict):
            self.problem('escalate= says who may answer too, from when on: {"director": "3d"}', line)
            given = {}
        escalate = [
            model.Escalation(roles=(role,), after=self.duration(after, line) or 0)
            for role, after in given.items()
        ]
        return model.Ask(
            roles=self.names(ask.roles, line),
            form=self.type_name(ask.form, line),
            deadline=self.duration(ask.deadline, line),
            remind=self.duration(ask.remind, line),
            escalate=tuple(escalate),
            late=ask.late,  # type: ignore[arg-type]  # judged by `problems_of`
            shows=self.names(ask.shows, line),
        )

    def _rows(self, transition: Transition) -> list[model.Transition]:
        return [self._row(transition.name, written) for written in transition.rows]

    def _row(self, name: str, written: Written) -> model.Transition:
        line, options = written.line, written.options
        for word in options.keys() - Row.__annotations__.keys():
            self.problem(
                f"{name} has {word}=, which says nothing{suggestion(word, Row.__annotations__)}", line
            )
        self.lines[f"{name}@{written.source.name if written.source else model.ROOT}"] = line
        source = model.ROOT if written.source is None else self._named(written.source, line)
        targets = tuple(self._named(target, line) for target in written.targets)
        after = self._after(written.after, line)
        if written.kind == "to" and not targets:
            self.problem(f"{name} goes nowhere: name a target, or write .stay()", line)
        return model.Transition(
            name=name,
            source=source,
            events=self._events(name, written, line),
            targets=targets if written.kind == "to" else (),
            lands=targets if written.kind == "computes" else (),
            excludes=tuple(self._named(state, line) for state in options.get("but", ())),
            internal=bool(options.get("internal", False)),
            after=after,
            repeats=written.repeats,
            by=self.names(options.get("by", ()), line),
            when=self.conditions(options.get("when", ()), line),
            takes=self.type_name(options.get("takes"), line),
            distinct_from=self.names(options.get("distinct_from", ()), line),
            quorum=options.get("quorum", 1),
            countersign=self.names(options.get("countersign", ()), line),
            no_agent=bool(options.get("no_agent", False)),
            actions=self._row_actions(written, line),
            meaning=options.get("meaning", ""),
        )

    def _events(self, name: str, written: Written, line: Line) -> tuple[str, ...]:
        given = self.names(written.options.get("event", ()), line)
        if written.after is not None:
            return (f"after.{written.source.name if written.source else 'life'}.{name}",)
        if written.events is None:
            return given or (name,)
        if given:
            self.problem(f"{name} names an event beside a trigger: use one of them", line)
        state = written.source
        if state is None:
            return written.events
        kind = "work" if state.run is not None else "state"
        working = [state] if state.run is not None or not state.children else _working(state)
        return tuple(
            event.format(state=each.name, kind=kind)
            for event in written.events
            for each in (working if event.startswith("error.work.{state}") else [state])
        )

    def _row_actions(self, written: Written, line: Line) -> tuple[model.Action, ...]:
        options = written.options
        actions = list(self.actions(options.get("do", ()), line))
        if sets := self.names(options.get("sets", ()), line):
            actions.append(model.Stamp(fields=sets))
        if clears := self.names(options.get("clears", ()), line):
            actions.append(model.Clear(fields=clears))
        actions += [model.Count(name=counter) for counter in self.names(options.get("counts", ()), line)]
        for option, kind in (("emit", "topic"), ("webhook", "webhook"), ("live", "live")):
            given: Any = options.get(option, ())
            for item in (given,) if isinstance(given, (str, Making)) else tuple(given):
                if isinstance(item, str):
                    actions.append(model.Publish(kind=kind, name=item))  # type: ignore[arg-type]  # from the table above
                else:
                    actions += self.actions(item, line)
        return tuple(actions)

    def _after(self, delay: Duration | Function | None, line: Line) -> int | model.Condition | None:
        if callable(delay):
            return model.Named(name=self.function(delay, line))
        return self.duration(delay, line)

    def _named(self, state: object, line: Line) -> str:
        name = getattr(state, "name", "")
        if isinstance(state, AnyLive) or not isinstance(state, State):
            self.problem(f"not a state: {state!r}", line)
        elif self.states.get(name) is not state:
            self.problem(f"the state {name or '(unnamed)'} is not an attribute of {self.cls.__name__}", line)
        return name

    def _unnamed_rows(self) -> None:
        used = {id(row) for transition in self.transitions.values() for row in transition.rows}
        for state in self.states.values():
            for row in state.rows:
                if id(row) not in used:
                    self.problem(
                        f"a transition from {state.name} has no name, or its name was assigned again",
                        row.line,
                    )

    def actions(self, doing: object, line: Line) -> tuple[model.Action, ...]:
        """The actions of `do=`: functions by name, declared actions as they are."""
        if isinstance(doing, Making):
            return (doing.action(self.function(doing.function, line) if doing.function else None),)
        if isinstance(doing, model.Put) and not is_json(doing.values):
            self.problem(f"put() takes JSON values, not {doing.values!r}", line)
        if isinstance(doing, Value):
            return (doing,)  # type: ignore[return-value]  # every action is a Value; others fail in Chart
        if isinstance(doing, (list, tuple)):
            return tuple(action for item in doing for action in self.actions(item, line))
        if callable(doing):
            return (model.Call(name=self.function(doing, line)),)
        self.problem(f"not an action: {doing!r}", line)
        return ()

    def conditions(self, when: object, line: Line) -> tuple[model.Condition, ...]:
        """The guards of `when=`: functions by name, strings as expressions."""
        if isinstance(when, str):
            return (model.Formula(text=when),)
        if isinstance(when, (list, tuple)):
            return tuple(condition for item in when for condition in self.conditions(item, line))
        if callable(when):
            return (model.Named(name=self.function(when, line)),)
        self.problem(f"not a guard: {when!r}", line)
        return ()

    def function(self, function: Function, line: Line) -> str:
        """The name a function is registered under."""
        name = getattr(function, "__name__", "")
        if not name or name == "<lambda>":
            self.problem("a guard or action needs a name: write a function, not a lambda", line)
            return "lambda"
        if not takes_one(function):
            self.problem(f"{name} must take one argument, the view", line)
        if self.functions.setdefault(name, function) is not function:
            self.problem(f"two different functions are called {name}", line)
        return name

    def type_name(self, kind: object, line: Line) -> str | None:
        """The name a payload or context type is registered under."""
        if kind is None:
            return None
        try:
            data_type = DataType(kind)
        except TypeError as error:
            self.problem(str(error), line)
            return None
        known = self.types.setdefault(data_type.name, data_type)
        if known.kind is not kind:
            self.problem(f"two different types are called {data_type.name}", line)
        return data_type.name

    def duration(self, duration: Duration | None, line: Line) -> int | None:
        """Milliseconds, or a problem."""
        if duration is None:
            return None
        try:
            return milliseconds(duration)
        except ValueError as error:
            self.problem(str(error), line)
            return LONGEST  # a time like any other, so that one mistake is not told twice

    def names(self, names: object, line: Line) -> tuple[str, ...]:
        """One name or several."""
        many = (names,) if isinstance(names, str) else names
        if isinstance(many, (list, tuple, set, frozenset)) and all(isinstance(name, str) for name in many):
            return tuple(many)
        self.problem(f"not a name, nor several: {names!r}", line)
        return ()
