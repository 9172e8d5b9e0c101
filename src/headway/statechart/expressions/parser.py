"""Parse an expression into immutable nodes.

Operators of one level become one flat node, however many there are, so that the depth of a tree is
bounded by the depth of nesting and not by the length of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from headway.errors import ExpressionError
from headway.statechart.expressions.tokens import Token, tokens

MAX_NESTING: Final = 60


Item = TypeVar("Item")


class ExpressionNode:
    """A part of a parsed expression."""

    __slots__ = ()

    def parts(self) -> tuple[ExpressionNode, ...]:
        """Return the nodes inside this one."""
        return ()


@dataclass(frozen=True, slots=True)
class Literal(ExpressionNode):
    """A value that stands in the text."""

    value: object


@dataclass(frozen=True, slots=True)
class Name(ExpressionNode):
    """A name to look up."""

    name: str


@dataclass(frozen=True, slots=True)
class ListOf(ExpressionNode):
    """A list display."""

    items: tuple[ExpressionNode, ...]

    def parts(self) -> tuple[ExpressionNode, ...]:
        """Return the nodes inside this one."""
        return self.items


@dataclass(frozen=True, slots=True)
class ObjectOf(ExpressionNode):
    """An object display."""

    pairs: tuple[tuple[str, ExpressionNode], ...]

    def parts(self) -> tuple[ExpressionNode, ...]:
        """Return the nodes inside this one."""
        return tuple(value for _, value in self.pairs)


@dataclass(frozen=True, slots=True)
class Method(ExpressionNode):
    """A step of a path that calls one of the known methods."""

    name: str
    arguments: tuple[ExpressionNode, ...]

    def parts(self) -> tuple[ExpressionNode, ...]:
        """Return the nodes inside this one."""
        return self.arguments


@dataclass(frozen=True, slots=True)
class Path(ExpressionNode):
    """A value and the keys and methods that follow it; `.k` is the literal key 'k'."""

    start: ExpressionNode
    steps: tuple[ExpressionNode, ...]

    def parts(self) -> tuple[ExpressionNode, ...]:
        """Return the nodes inside this one."""
        return (self.start, *self.steps)


@dataclass(frozen=True, slots=True)
class Unary(ExpressionNode):
    """One operator before one operand."""

    operator: str
    operand: ExpressionNode

    def parts(self) -> tuple[ExpressionNode, ...]:
        """Return the nodes inside this one."""
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class Chain(ExpressionNode):
    """Operators of one level, applied from left to right."""

    first: ExpressionNode
    rest: tuple[tuple[str, ExpressionNode], ...]

    def parts(self) -> tuple[ExpressionNode, ...]:
        """Return the nodes inside this one."""
        return (self.first, *(operand for _, operand in self.rest))


@dataclass(frozen=True, slots=True)
class Logical(ExpressionNode):
    """Operands joined by `&&` or by `||`."""

    operator: str
    operands: tuple[ExpressionNode, ...]

    def parts(self) -> tuple[ExpressionNode, ...]:
        """Return the nodes inside this one."""
        return self.operands


@dataclass(frozen=True, slots=True)
class Conditional(ExpressionNode):
    """`test ? yes : no`."""

    test: ExpressionNode
    yes: ExpressionNode
    no: ExpressionNode

    def parts(self) -> tuple[ExpressionNode, ...]:
        """Return the nodes inside this one."""
        return (self.test, self.yes, self.no)


@dataclass(frozen=True, slots=True)
class FunctionCall(ExpressionNode):
    """A call of one of the known functions."""

    name: str
    arguments: tuple[ExpressionNode, ...]

    def parts(self) -> tuple[ExpressionNode, ...]:
        """Return the nodes inside this one."""
        return self.arguments


CONSTANTS: Final[Mapping[str, object]] = {
    "true": True,
    "false": False,
    "null": None,
    "undefined": None,
    "True": True,
    "False": False,
    "None": None,
}
_MANY = 1_000
# Each function or method that can be called, and how few and how many arguments it takes.
CALLABLE: Final[Mapping[str, tuple[int, int]]] = {
    "In": (1, 1),
    "len": (1, 1),
    "JSON.stringify": (1, 1),
    "Math.abs": (1, 1),
    "Math.ceil": (1, 1),
    "Math.floor": (1, 1),
    "Math.max": (1, _MANY),
    "Math.min": (1, _MANY),
    "Math.pow": (2, 2),
    ".concat": (0, _MANY),
}
_CONDITION, _OR, _AND, _BIT_OR, _BIT_AND, _EQUALITY, _RELATION, _SUM, _PRODUCT, _UNARY = range(10)
_LEVELS: Final[Mapping[str, int]] = {
    "||": _OR,
    "&&": _AND,
    "|": _BIT_OR,
    "&": _BIT_AND,
    **dict.fromkeys(("==", "===", "!=", "!=="), _EQUALITY),
    **dict.fromkeys(("<", "<=", ">", ">=", "in", "not in", "instanceof"), _RELATION),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _PRODUCT),
}
_PREFIXES: Final[Mapping[str, tuple[str, int]]] = {
    "!": ("!", _UNARY),
    "-": ("-", _UNARY),
    "+": ("+", _UNARY),
    "typeof": ("typeof", _UNARY),
    "not": ("!", _BIT_OR),
}
_SPELLINGS: Final[Mapping[str, str]] = {"and": "&&", "or": "||"}
# fmt: off
_RESERVED: Final = frozenset({
    "and", "or", "not", "in", "typeof", "instanceof", "await", "break", "case", "catch", "class",
    "const", "continue", "debugger", "default", "delete", "do", "else", "enum", "export", "extends",
    "finally", "for", "function", "if", "import", "let", "new", "return", "super", "switch", "this",
    "throw", "try", "var", "void", "while", "with", "yield",
})
# fmt: on


def parse_node(text: str) -> ExpressionNode:
    """Parse a whole text; raise ExpressionError when it is not one expression."""
    return _Parser(text).whole()


def walk(node: ExpressionNode) -> Iterator[ExpressionNode]:
    """Yield a node and all the nodes inside it."""
    pending = [node]
    while pending:
        part = pending.pop()
        yield part
        pending.extend(part.parts())


class _Parser:
    """One pass over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(tokens(text))
        self.index = 0
        self.nesting = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def error(self, message: str, token: Token | None = None) -> ExpressionError:
        return ExpressionError(message, self.text, (token or self.token).position)

    def whole(self) -> ExpressionNode:
        node = self.expression()
        if self.token.kind != "end":
            raise self.error(f"unexpected {self.token.text!r}")
        return node

    def accept(self, sign: str) -> bool:
        found = self.token.kind == "sign" and self.token.text == sign
        self.index += found
        return found

    def expect(self, sign: str) -> None:
        if not self.accept(sign):
            found = "the end" if self.token.kind == "end" else repr(self.token.text)
            raise self.error(f"expected {sign!r}, not {found}")

    def expression(self, level: int = _CONDITION) -> ExpressionNode:
        """Parse operators that bind at least as tightly as `level`."""
        if self.nesting >= MAX_NESTING:
            raise self.error(f"nested deeper than {MAX_NESTING}")
        self.nesting += 1
        node = self.prefixed()
        while (found := self.operator())[1] >= max(level, _OR):
            node = self.binary(node, *found)
        if level == _CONDITION and self.accept("?"):
            yes = self.expression()
            self.expect(":")
            node = Conditional(node, yes, self.expression())
        self.nesting -= 1
        return node

    def operator(self) -> tuple[str, int]:
        """Return the binary operator that comes next, and its level, or -1 when none does."""
        token = self.token
        if token.kind not in {"sign", "name"}:
            return "", -1
        word = _SPELLINGS.get(token.text, token.text)
        if word == "not" and self.tokens[self.index + 1].text == "in":
            word = "not in"
        return word, _LEVELS.get(word, -1)

    def binary(self, left: ExpressionNode, operator: str, level: int) -> ExpressionNode:
        """Parse all that follows `left` on one level, without growing to the left."""
        rest = [self.operand(operator, level)]
        while (found := self.operator())[1] == level:
            rest.append(self.operand(*found))
        if level in {_OR, _AND}:
            return Logical(operator, (left, *(operand for _, operand in rest)))
        return Chain(left, tuple(rest))

    def operand(self, operator: str, level: int) -> tuple[str, ExpressionNode]:
        self.index += 2 if operator == "not in" else 1
        if operator != "instanceof":
            return operator, self.expression(level + 1)
        if self.token.text != "Array":
            raise self.error("instanceof knows only Array")
        self.index += 1
        return operator, Literal("Array")

    def prefixed(self) -> ExpressionNode:
        token = self.token
        prefix = _PREFIXES.get(token.text) if token.kind in {"sign", "name"} else None
        if prefix is None:
            return self.path()
        self.index += 1
        return Unary(prefix[0], self.expression(prefix[1]))

    def path(self) -> ExpressionNode:
        start, steps = self.primary(), list[ExpressionNode]()
        while True:
            if self.accept("."):
                steps.append(Literal(self.word()))
            elif self.accept("["):
                steps.append(self.expression())
                self.expect("]")
            elif self.accept("("):
                name = self.callee(start, steps)
                if name.startswith("."):
                    steps[-1] = Method(name, self.arguments(name))
                else:
                    start, steps = FunctionCall(name, self.arguments(name)), []
            else:
                return Path(start, tuple(steps)) if steps else start

    def word(self) -> str:
        token = self.token
        if token.kind != "name":
            raise self.error("expected a name after '.'")
        self.index += 1
        return token.text

    def callee(self, start: ExpressionNode, steps: list[ExpressionNode]) -> str:
        """Return the name of the function, or with a dot of the method, that a path has led to."""
        name = ""
        if not steps:
            name = start.name if isinstance(start, Name) else ""
        elif isinstance(last := steps[-1], Literal):
            name = f"{start.name}.{last.value}" if isinstance(start, Name) and len(steps) == 1 else ""
            name = name if name in CALLABLE else f".{last.value}"
        if name not in CALLABLE:
            raise self.error("only the functions of the language can be called", self.tokens[self.index - 1])
        return name

    def arguments(self, name: str) -> tuple[ExpressionNode, ...]:
        opening = self.tokens[self.index - 1]
        found = self.items(")", self.expression)
        fewest, most = CALLABLE[name]
        if not fewest <= len(found) <= most:
            raise self.error(f"{name} does not take {len(found)} arguments", opening)
        return found

    def items(self, closing: str, item: Callable[[], Item]) -> tuple[Item, ...]:
        """Parse items up to `closing`, with a comma between them and perhaps one at the end."""
        found: list[Item] = []
        while not self.accept(closing):
            if found:
                self.expect(",")
                if self.accept(closing):
                    break
            found.append(item())
        return tuple(found)

    def primary(self) -> ExpressionNode:
        token = self.token
        if token.kind in {"number", "string"}:
            self.index += 1
            return Literal(token.value)
        if token.kind == "name":
            return self.name()
        if self.accept("("):
            node = self.expression()
            self.expect(")")
            return node
        if self.accept("["):
            return ListOf(self.items("]", self.expression))
        if self.accept("{"):
            return ObjectOf(self.items("}", self.pair))
        raise self.error(
            "expected a value, not the end" if token.kind == "end" else f"unexpected {token.text!r}"
        )

    def name(self) -> ExpressionNode:
        token = self.token
        if token.text in _RESERVED:
            raise self.error(f"{token.text!r} is not part of the language")
        self.index += 1
        if token.text in CONSTANTS:
            return Literal(CONSTANTS[token.text])
        return Name(token.text)

    def pair(self) -> tuple[str, ExpressionNode]:
        token = self.token
        if token.kind not in {"name", "string"}:
            raise self.error("expected a key")
        self.index += 1
        self.expect(":")
        return (str(token.value) if token.kind == "string" else token.text), self.expression()
