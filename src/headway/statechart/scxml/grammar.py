"""Which elements and attributes SCXML has, and where; what a document says beyond that is a problem."""

from __future__ import annotations

from typing import NamedTuple

from headway.errors import DefinitionProblem
from headway.statechart.scxml.xml import Element


class Rule(NamedTuple):
    """What an element may hold; `either` lists attributes that exclude each other, as `a/b`."""

    children: str = ""
    attributes: str = ""
    required: str = ""
    either: str = ""


class Problems(list[DefinitionProblem]):
    """What was found wrong so far; beyond the first hundred nothing is added."""

    def add(self, element: Element, message: str) -> None:
        """Note a problem at the line of an element."""
        if len(self) < MOST_PROBLEMS:
            self.append(DefinitionProblem(message, line=element.line))


MOST_PROBLEMS = 100
ACTIONS = "raise if foreach log assign send cancel"
INSIDE = "onentry onexit transition state parallel history datamodel"
GRAMMAR = {
    "scxml": Rule(
        "state parallel final datamodel initial transition", "initial name version datamodel binding exmode"
    ),
    "state": Rule(f"{INSIDE} initial final", "id initial"),
    "parallel": Rule(INSIDE, "id"),
    "final": Rule("onentry onexit donedata", "id"),
    "history": Rule("transition", "id type"),
    "initial": Rule("transition"),
    "transition": Rule(ACTIONS, "event cond target type"),
    "onentry": Rule(ACTIONS),
    "onexit": Rule(ACTIONS),
    "datamodel": Rule("data"),
    "data": Rule("", "id expr src", "id", either="expr/src"),
    "donedata": Rule("content param"),
    "content": Rule("", "expr"),
    "param": Rule("", "name expr location", "name", "expr/location"),
    "raise": Rule("", "event", "event"),
    "if": Rule(f"{ACTIONS} elseif else", "cond", "cond"),
    "elseif": Rule("", "cond", "cond"),
    "else": Rule(),
    "foreach": Rule(ACTIONS, "array item index", "array item"),
    "log": Rule("", "label expr"),
    "assign": Rule("", "location expr", "location"),
    "send": Rule(
        "content param",
        "event eventexpr target targetexpr type typeexpr id idlocation delay delayexpr namelist",
        either="event/eventexpr target/targetexpr type/typeexpr id/idlocation delay/delayexpr",
    ),
    "cancel": Rule("", "sendid sendidexpr", either="sendid/sendidexpr"),
}
REFUSED = {
    "script": "<script> needs a scripting language; expressions and <assign> do without",
    "invoke": "<invoke> starts another session; a chart spawns children instead",
    "src": "src names another file; a chart that is imported opens none",
}
TEXTS = frozenset({"data", "assign", "content"})
OWN_ATTRIBUTES = frozenset({"version"})


def check(root: Element, problems: Problems) -> None:
    """Note every element and attribute that is not where SCXML has it."""
    if root.tag != "scxml":
        problems.add(root, f"the outermost element is <scxml>, not <{root.tag}>")
    pending = [root]
    while pending:
        element = pending.pop()
        rule = GRAMMAR.get(element.tag)
        if rule is not None:
            _check_attributes(element, rule, problems)
            _check_children(element, rule, problems)
            pending += element.children


def _check_attributes(element: Element, rule: Rule, problems: Problems) -> None:
    known = rule.attributes.split()
    for name in element.attributes:
        if name not in known:
            problems.add(element, REFUSED.get(name) or f"<{element.tag}> has no attribute {name}")
    for name in rule.required.split():
        if name not in element.attributes:
            problems.add(element, f"<{element.tag}> needs the attribute {name}")
    for pair in rule.either.split():
        one, other = pair.split("/")
        if one in element.attributes and other in element.attributes:
            problems.add(element, f"<{element.tag}> has either {one} or {other}, not both")
    for name in element.own.keys() - OWN_ATTRIBUTES:
        problems.add(
            element, f"headway:{name} would be lost: a chart of Headway is read from its JSON document"
        )


def _check_children(element: Element, rule: Rule, problems: Problems) -> None:
    known = rule.children.split()
    for child in element.children:
        if child.tag not in known:
            said = f"<{child.tag}> does not belong into <{element.tag}>"
            problems.add(child, REFUSED.get(child.tag) or said)
    if element.tag not in TEXTS:
        if element.text.strip():
            problems.add(element, f"<{element.tag}> holds no text")
    elif element.strange or element.children:
        problems.add(element, f"XML in <{element.tag}> needs DOM objects; write JSON or text")
    elif element.text.strip() and "expr" in element.attributes:
        problems.add(element, f"<{element.tag}> has either expr or a text, not both")
