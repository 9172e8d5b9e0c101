"""The elements of an SCXML document: read from XML with line numbers, and checked against the grammar."""

from __future__ import annotations

from typing import NamedTuple
from xml.parsers import expat

from headway.errors import DefinitionProblem, DocumentError

SCXML = "http://www.w3.org/2005/07/scxml"
OWN = "urn:headway:1"
DEEPEST = 100
MOST_ELEMENTS = 20_000
MOST_TEXT = 1_000_000
MOST_PROBLEMS = 100


class Element:
    """An element of SCXML; of other namespaces it keeps only the names of what Headway itself wrote."""

    __slots__ = ("attributes", "children", "line", "own", "strange", "tag", "text")

    def __init__(self, tag: str, attributes: dict[str, str], own: dict[str, str], line: int) -> None:
        self.tag = tag
        self.attributes = attributes
        self.own = own
        self.line = line
        self.children: list[Element] = []
        self.text = ""
        self.strange = False

    def get(self, attribute: str) -> str | None:
        """The value of an attribute, or None."""
        return self.attributes.get(attribute)

    def all(self, *tags: str) -> list[Element]:
        """The children with one of these tags, in document order."""
        return [child for child in self.children if child.tag in tags]

    def first(self, tag: str) -> Element | None:
        """The first child with this tag, or None."""
        return next((child for child in self.children if child.tag == tag), None)


def read(text: str | bytes) -> Element:
    """The root element of an XML text; raises DocumentError with the line."""
    if not isinstance(text, (str, bytes)):
        raise DocumentError(f"an SCXML document is a text, not {type(text).__name__}")
    if len(text) > MOST_TEXT:
        raise DocumentError(f"the document is longer than {MOST_TEXT} characters")
    reading = _Reading()
    try:
        reading.parser.Parse(text, True)  # noqa: FBT003 - expat takes no keyword: this is the whole text
    except expat.ExpatError as error:
        raise DocumentError(f"line {error.lineno}: {expat.ErrorString(error.code)}") from error
    except (LookupError, ValueError) as error:
        raise DocumentError(f"line {reading.parser.CurrentLineNumber}: {error}") from error
    if reading.root is None:
        raise DocumentError("line 1: the document is not SCXML: its outermost element is <scxml>")
    return reading.root


class _Reading:
    """Builds the tree while expat reads; `skipped` counts the open elements of other namespaces."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self.open: list[Element] = []
        self.skipped = 0
        self.count = 0
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.StartDoctypeDeclHandler = self.doctype

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.count += 1
        if self.count > MOST_ELEMENTS:
            self.refuse(f"the document has more than {MOST_ELEMENTS} elements")
        if len(self.open) + self.skipped >= DEEPEST:
            self.refuse(f"elements are nested more than {DEEPEST} deep")
        namespace, _, tag = name.rpartition(" ")
        if self.skipped or namespace not in {"", SCXML}:
            self.skip(namespace, tag)
            return
        element = Element(tag, {}, {}, self.parser.CurrentLineNumber)
        for key, value in attributes.items():
            place, _, attribute = key.rpartition(" ")
            if place in {"", OWN}:
                (element.own if place else element.attributes)[attribute] = value
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def skip(self, namespace: str, tag: str) -> None:
        self.skipped += 1
        if self.open:
            self.open[-1].strange = True
            if namespace == OWN:
                self.open[-1].own[f"<{tag}>"] = ""

    def end(self, _name: str) -> None:
        if self.skipped:
            self.skipped -= 1
        else:
            self.open.pop()

    def characters(self, text: str) -> None:
        if self.open and not self.skipped:
            self.open[-1].text += text

    def doctype(self, *_declared: object) -> None:
        self.refuse("a document type is refused: it could define entities")

    def refuse(self, message: str) -> None:
        raise DocumentError(f"line {self.parser.CurrentLineNumber}: {message}")


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
