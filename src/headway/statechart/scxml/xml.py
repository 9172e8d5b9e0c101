"""XML read as a plain tree with line numbers; nothing outside the text is ever opened."""

from __future__ import annotations

from xml.parsers import expat

from headway.errors import DocumentError

SCXML = "http://www.w3.org/2005/07/scxml"
OWN = "urn:headway:1"
DEEPEST = 100
MOST_ELEMENTS = 20_000
MOST_TEXT = 1_000_000


class Element:
    """An element of SCXML; of other namespaces only what Headway itself wrote is told, by name."""

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
