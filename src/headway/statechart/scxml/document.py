"""Charts from SCXML 1.0 documents, with the safe expressions of Headway as their data model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headway.clock import milliseconds
from headway.errors import DefinitionError
from headway.statechart import model
from headway.statechart.authoring.declarations import SourceLine
from headway.statechart.chart import Chart
from headway.statechart.expressions.expressions import EvaluationError, inline_value
from headway.statechart.scxml.elements import Element, Problems, check, read
from headway.statechart.validation.validate import problems_of

STATES = ("state", "parallel", "final", "history")
ENTERED = ("state", "parallel", "final")
DATA_MODELS = frozenset({None, "ecmascript", "headway", "null"})
NAMELESS = "scxml"
MOST_TARGETS = 16
_NO_LETTER = re.compile(r"\W+")

Maker = Callable[[Element, Problems], model.Action]


def from_scxml(text: str | bytes, files: Mapping[str, str] | None = None) -> Chart:
    """The chart of an SCXML document; `files` holds the texts that `<data src>` names.

    Raises DocumentError for what is not XML, DefinitionError with all problems and their lines for
    what is not a chart. Nothing is executed, and no other file is opened. An expression that is not
    in the language fails when it is reached, with the event error.execution, as SCXML wants it.
    """
    root = read(text)
    reading = _Document(root, files or {})
    whole = reading.whole()
    problems = [*reading.problems, *problems_of(whole, reading.lines, SourceLine(number=root.line))]
    if problems:
        raise DefinitionError(whole.name, tuple(sorted(problems, key=lambda problem: problem.line)))
    return Chart(whole, lines=reading.lines)


class _Document:
    """A document on its way to a model: what was found, and what is wrong with it."""

    def __init__(self, root: Element, files: Mapping[str, str]) -> None:
        self.root = root
        self.files = files
        self.problems = Problems()
        self.lines: dict[str, SourceLine] = {}
        self.states: list[model.State] = []
        self.rows: list[model.Transition] = []
        self.names: dict[str, int] = {}
        self.data: list[model.Datum] = []
        self.late = root.get("binding") == "late"

    def whole(self) -> model.Model:
        """The model; it can run only when no problems were noted."""
        root = self.root
        check(root, self.problems)
        self._check_root()
        _name_the_nameless(root)
        data = self._data_of(root)
        for child in root.all(*ENTERED):
            self._state(child, None)
        for transition in root.all("transition"):
            self._transition(transition, model.ROOT)
        targets, actions = self._initial_of(root)
        return model.Model(
            name=root.get("name") or NAMELESS,
            version=self._version(),
            initial=targets,
            initial_actions=actions,
            states=tuple(self.states),
            transitions=tuple(self.rows),
            data=data if self.late else tuple(self.data),
            late_binding=self.late,
            dialect="scxml",
        )

    def _check_root(self) -> None:
        root = self.root
        if root.get("datamodel") not in DATA_MODELS:
            self.problems.add(
                root, f"the data model {root.get('datamodel')} is not known: use ecmascript or null"
            )
        if root.get("binding") not in {None, "early", "late"}:
            self.problems.add(root, f"binding is early or late, not {root.get('binding')}")
        if not root.all(*ENTERED):
            self.problems.add(root, "a chart has at least one state")

    def _version(self) -> int:
        said = self.root.own.get("version", "1")
        if re.fullmatch("[1-9][0-9]{0,8}", said):
            return int(said)
        self.problems.add(self.root, f"headway:version is a whole number from 1, not {said}")
        return 1

    def _state(self, element: Element, parent: str | None) -> None:
        name = element.attributes["id"]
        self.lines.setdefault(name, SourceLine(number=element.line))
        if not name or len(name.split()) != 1 or name == model.ROOT:
            self.problems.add(element, f"{name!r} is no id: an id is one word")
        targets, actions = self._initial_of(element)
        self.states.append(
            model.State(
                id=name,
                kind=self._kind(element),
                parent=parent,
                initial=targets,
                initial_actions=actions,
                entry=self._blocks(element, "onentry"),
                exit=self._blocks(element, "onexit"),
                output=self._output(element),
                data=self._data_of(element),
            )
        )
        if element.tag != "history":
            for transition in element.all("transition"):
                self._transition(transition, name)
        for child in element.all(*STATES):
            self._state(child, name)

    def _kind(self, element: Element) -> Any:
        if element.tag == "history":
            said = element.get("type") or "shallow"
            if said not in {"shallow", "deep"}:
                self.problems.add(element, f"the type of <history> is shallow or deep, not {said}")
                return "shallow"
            return said
        if element.tag == "state":
            return "compound" if element.all(*ENTERED) else "atomic"
        return element.tag

    def _initial_of(self, element: Element) -> tuple[tuple[str, ...], tuple[model.Action, ...]]:
        """Where a state begins, and what is done on the way there."""
        if element.tag == "history":
            return self._default(element)
        inside = element.all(*ENTERED)
        holder = element.first("initial")
        said = self._targets(element, "initial")
        if (said or holder is not None) and (not inside or (said and holder is not None)):
            reason = "either as attribute or as element" if inside else "only with states inside"
            self.problems.add(element, f"<{element.tag}> has an initial state {reason}")
        if holder is not None:
            return self._default(holder)
        if element.tag not in {"state", "scxml"}:
            return (), ()
        return said or tuple(child.attributes["id"] for child in inside[:1]), ()

    def _default(self, holder: Element) -> tuple[tuple[str, ...], tuple[model.Action, ...]]:
        transitions = holder.all("transition")
        targets = [self._targets(each, "target") for each in transitions]
        if len(transitions) != 1 or not targets[0]:
            self.problems.add(holder, f"<{holder.tag}> has one <transition> with a target")
            return (), ()
        if "event" in transitions[0].attributes or "cond" in transitions[0].attributes:
            self.problems.add(holder, f"the <transition> of <{holder.tag}> has neither event nor cond")
        return targets[0], actions_of(transitions[0].children, self.problems)

    def _blocks(self, element: Element, tag: str) -> tuple[tuple[model.Action, ...], ...]:
        blocks = (actions_of(each.children, self.problems) for each in element.all(tag))
        return tuple(block for block in blocks if block)

    def _output(self, element: Element) -> model.Payload | None:
        done = element.first("donedata")
        return None if done is None else payload_of(done, self.problems)

    def _data_of(self, element: Element) -> tuple[model.Datum, ...]:
        """The variables of a state, its own with late binding, else those of the whole chart."""
        found = []
        for each in (data for holder in element.all("datamodel") for data in holder.all("data")):
            name, expr = each.get("id") or "", each.get("expr")
            if not name.isidentifier() or name.startswith("_"):
                self.problems.add(each, f"{name!r} is no name for a variable")
            found.append(model.Datum(id=name, expr=expr, value=self._first_value(each)))
        self.data += found
        return tuple(found) if self.late else ()

    def _first_value(self, data: Element) -> Any:
        """The value of a variable that stands in the document, or in a file that came with it."""
        named = data.get("src")
        if named is None:
            return text_value(data, self.problems)
        if named not in self.files:
            self.problems.add(data, f"src names another file, {named!r}, which did not come with the chart")
        return value_of(self.files.get(named, ""), data, self.problems)

    def _transition(self, element: Element, source: str) -> None:
        events = tuple(dict.fromkeys((element.get("event") or "").split()))
        cond, kind = element.get("cond"), element.get("type")
        if kind not in {None, "internal", "external"}:
            self.problems.add(element, f"the type of <transition> is internal or external, not {kind}")
        name = self._free_name(events[0] if events else "always")
        self.lines[f"{name}@{source}"] = SourceLine(number=element.line)
        self.rows.append(
            model.Transition(
                name=name,
                source=source,
                events=events,
                targets=self._targets(element, "target"),
                internal=kind == "internal",
                when=() if cond is None else (model.Formula(text=cond),),
                actions=actions_of(element.children, self.problems),
            )
        )

    def _targets(self, element: Element, attribute: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys((element.get(attribute) or "").split()))
        if len(names) > MOST_TARGETS:
            self.problems.add(element, f"<{element.tag}> has more than {MOST_TARGETS} states as {attribute}")
        return names[:MOST_TARGETS]

    def _free_name(self, event: str) -> str:
        """A name from the event, such as `submit` or `submit_2`: the same for the same document."""
        word = name = _NO_LETTER.sub("_", event).strip("_") or "any"
        while name in self.names:
            self.names[word] += 1
            name = f"{word}_{self.names[word]}"
        self.names[name] = 1
        return name


def _name_the_nameless(root: Element) -> None:
    """States without id get one that no other state has."""
    found = root.all(*ENTERED)
    for element in found:
        found += element.all(*STATES)
    taken = {element.get("id") for element in found}
    count = 0
    for element in found:
        while element.get("id") is None:
            count += 1
            if f"{element.tag}{count}" not in taken:
                element.attributes["id"] = f"{element.tag}{count}"


def actions_of(elements: Iterable[Element], problems: Problems) -> tuple[model.Action, ...]:
    """The actions of a block, in order."""
    return tuple(CONTENT[each.tag](each, problems) for each in elements if each.tag in CONTENT)


def text_value(element: Element, problems: Problems) -> Any:
    """What the text inside an element means; None when there is none."""
    if "expr" in element.attributes:
        return None
    return value_of(element.text, element, problems)


def value_of(text: str, element: Element, problems: Problems) -> Any:
    """What a text means: JSON, else the text itself; None when it is empty."""
    if not text.strip():
        return None
    try:
        value = inline_value(text)
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (EvaluationError, ValueError) as error:
        problems.add(element, f"the text of <{element.tag}>: {error}")
        return None
    return value


def payload_of(element: Element, problems: Problems) -> model.Payload:
    """What a send or a final state carries."""
    content = element.first("content")
    return model.Payload(
        content=None if content is None else text_value(content, problems),
        expr=None if content is None else content.get("expr"),
        params=tuple(_param(each) for each in element.all("param")),
        names=tuple((element.get("namelist") or "").split()),
    )


def _param(element: Element) -> model.Param:
    name, expr, location = (element.get(key) for key in ("name", "expr", "location"))
    return model.Param(name=name or "", expr=expr, location=location)


def _raise(element: Element, _problems: Problems) -> model.Raise:
    return model.Raise(event=element.get("event") or "")


def _if(element: Element, problems: Problems) -> model.If:
    arms: list[tuple[str | None, list[Element]]] = [(element.get("cond") or "", [])]
    for child in element.children:
        if child.tag == "elseif":
            arms.append((child.get("cond") or "", []))
        elif child.tag == "else":
            arms.append((None, []))
        else:
            arms[-1][1].append(child)
    if any(when is None for when, _ in arms[:-1]):
        problems.add(element, "<else> is the last part of an <if>")
    return model.If(
        branches=tuple(model.Branch(when=when, actions=actions_of(inner, problems)) for when, inner in arms)
    )


def _foreach(element: Element, problems: Problems) -> model.ForEach:
    array, item = element.get("array") or "", element.get("item") or ""
    actions = actions_of(element.children, problems)
    return model.ForEach(array=array, item=item, index=element.get("index"), actions=actions)


def _log(element: Element, _problems: Problems) -> model.Log:
    return model.Log(label=element.get("label") or "", expr=element.get("expr"))


def _assign(element: Element, problems: Problems) -> model.Assign:
    value = text_value(element, problems)
    return model.Assign(location=element.get("location") or "", expr=element.get("expr"), value=value)


def _send(element: Element, problems: Problems) -> model.Send:
    payload = payload_of(element, problems)
    if (payload.params or payload.names) and element.first("content") is not None:
        problems.add(element, "<send> has either <content> or named values, not both")
    return model.Send(
        event=element.get("event"),
        event_expr=element.get("eventexpr"),
        target=element.get("target"),
        target_expr=element.get("targetexpr"),
        type=element.get("type"),
        type_expr=element.get("typeexpr"),
        id=element.get("id"),
        id_location=element.get("idlocation"),
        delay=_delay(element, problems),
        delay_expr=element.get("delayexpr"),
        payload=payload,
    )


def _delay(element: Element, problems: Problems) -> int:
    try:
        return milliseconds(element.attributes.get("delay", "0s"))
    except ValueError as error:
        problems.add(element, f"the delay of <send> is {error}")
        return 0


def _cancel(element: Element, problems: Problems) -> model.Cancel:
    if not element.attributes:
        problems.add(element, "<cancel> needs sendid or sendidexpr")
    return model.Cancel(id=element.get("sendid"), id_expr=element.get("sendidexpr"))


CONTENT: dict[str, Maker] = {
    "raise": _raise,
    "if": _if,
    "foreach": _foreach,
    "log": _log,
    "assign": _assign,
    "send": _send,
    "cancel": _cancel,
}
