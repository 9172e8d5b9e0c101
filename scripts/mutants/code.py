"""Mutants of Python code: small changes of meaning that a good test notices.

Not drawn, because no test can or should notice them: docstrings, texts and log lines, annotations, assertions
(they tell the type checker what construction guarantees), `__repr__`, and the plain numbers in `TUNING`.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from scripts.mutants.sql import changes_of

OPERATORS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
TUNING = {
    "how much is read, kept or done at once, with the same result in the end": (
        "PAGE PAGES LIMIT WINDOW WINDOWS LINES SAMPLE REMEMBERED KEPT SCANNED CONNECTIONS LOCKS FEW GO"
    ),
    "bounds against misuse, far from what is usual: that they hold is tested, not their last digit": (
        "MOST LONGEST LARGEST SHORTEST SMALLEST HIGHEST DEEPEST HIGH"
    ),
    "how long and how often something is tried or looked at again, unless an event tells it sooner": (
        "PAUSE REST LOOK LOOKS CHECKED ATTEMPTS TRIES SWEEP SOON LATER MOMENT PATIENCE"
    ),
}
"""Words in names of plain numbers that are not changed, by the reason why no promise depends on them."""
TUNING_WORDS = frozenset(" ".join(TUNING.values()).split())
DURATION_WORDS = frozenset({"FOR", "AFTER"})
"""`KEPT_FOR` is a promise, `TIMES_KEPT` is not."""
EXAMPLES = "/examples.py"
"""Values outside of functions in such a file are texts for readers."""
LOGS = ("LOG", "log", "logger")
ARITHMETIC = (ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
TEXTS = (ast.JoinedStr, ast.List, ast.ListComp, ast.Tuple)
DROPPED = (ast.Expr, ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Delete)


class Mutant(NamedTuple):
    """A change to one place of a file; `function` is the function it is in, if any."""

    path: str
    line: int
    kind: str
    start: int
    end: int
    new: str
    function: str | None

    def applied(self, source: str) -> str:
        """The file with the change."""
        data = source.encode()
        return (data[: self.start] + self.new.encode() + data[self.end :]).decode()


def mutants_of(path: str, source: str) -> list[Mutant]:
    """All mutants of a file, in its order; each is a program that Python can read."""
    finder = Finder(path, source)
    finder.visit(ast.parse(source))
    found = [each for each in finder.found if each.function is not None or not path.endswith(EXAMPLES)]
    return [each for each in found if _is_program(each.applied(source))]


def _is_program(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


class Finder(ast.NodeVisitor):
    """Walks through a file and notes what could be changed."""

    def __init__(self, path: str, source: str) -> None:
        self._path, self._data = path, source.encode()
        self._starts = [0]
        for line in self._data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._scope: list[str] = []
        self._functions = 0
        self.found: list[Mutant] = []

    # Where it looks.

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A function, without what is only for the type checker or the reader."""
        if node.name == "__repr__":
            return
        self._scope.append(node.name)
        self._functions += 1
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        self._visit_body(node.body)
        self._functions -= 1
        self._scope.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - ast's name

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A class."""
        self._scope.append(node.name)
        self._visit_body(node.body)
        self._scope.pop()

    def visit_Module(self, node: ast.Module) -> None:
        """A file."""
        self._visit_body(node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Not the annotation."""
        if node.value is not None:
            self._visit_value(node.target, node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Another number unless it is for tuning; what an object keeps can be forgotten.

        Not forgotten is the first value of an attribute: either it is replaced before anything reads it, or
        there is no such attribute.
        """
        is_first = self._scope[-1:] == ["__init__"] and isinstance(node.value, ast.Constant)
        has_place = any(isinstance(each, ast.Attribute | ast.Subscript) for each in node.targets)
        if self._functions and has_place and not is_first:
            self._put(node, "assignment dropped", "pass")
        self._visit_value(node.targets[0], node.value)

    def visit_keyword(self, node: ast.keyword) -> None:
        """Not the longest text that a request may hold: a bound against misuse, as in `TUNING`."""
        if node.arg != "max_length":
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Not at all."""

    def _visit_body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                self.visit(statement)

    def _visit_value(self, target: ast.expr, value: ast.expr) -> None:
        """A number with a name of its own is doubled: one more would tell nothing about a duration."""
        if self._functions or not _is_plain_number(value):
            self.visit(value)
        elif isinstance(target, ast.Name) and not _is_tuning(target.id):
            text = self._text(value)
            self._put(value, "number doubled", "1" if text == "0" else f"2 * ({text})")

    def visit(self, node: ast.AST) -> None:
        """Note what can be done to a node, then look inside."""
        if isinstance(node, DROPPED):
            if _is_log(node):
                return
            if self._functions and not _is_base_call(node):
                self._put(node, f"{type(node).__name__.lower()} dropped", "pass")
        if isinstance(node, ast.Raise):
            return  # what is left are the words of the error
        super().visit(node)

    # What it changes.

    def visit_Compare(self, node: ast.Compare) -> None:
        """The other side of a boundary, or the contrary."""
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            old, new = OPERATORS[type(operator)]
            self._between((left, right), old, new, "comparison changed")
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """The other word, or a condition less."""
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            if len(node.values) == 2:  # noqa: PLR2004 - with more, the other word changes what belongs together
                self._between((left, right), old, new, f"{old} changed")
            self._note(self._span(left)[1], self._span(right)[1], "condition dropped", "")
        first, second = node.values[:2]
        self._note(self._span(first)[0], self._span(second)[0], "condition dropped", "")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """What it says without `not`."""
        if isinstance(node.op, ast.Not):
            self._put(node, "not removed", f"({self._text(node.operand)})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Less instead of more."""
        signs = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+")}
        sides = (node.left, node.right)
        is_text = any(
            isinstance(each, TEXTS) or isinstance(getattr(each, "value", None), str | bytes) for each in sides
        )
        if type(node.op) in signs and not is_text:
            self._between(sides, *signs[type(node.op)], "arithmetic changed")
        self.generic_visit(node)

    def visit_If(self, node: ast.If | ast.While | ast.IfExp) -> None:
        """The contrary, unless the condition decides about log lines alone."""
        if isinstance(node, ast.If) and not node.orelse and all(map(_is_log, node.body)):
            return
        if not isinstance(node.test, ast.Constant):
            self._put(node.test, "condition negated", f"(not ({self._text(node.test)}))")
        self.generic_visit(node)

    visit_IfExp = visit_If  # noqa: N815 - ast's name

    def visit_Return(self, node: ast.Return) -> None:
        """Nothing is returned."""
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._put(node, "return None", "return None")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Another number, the contrary, or another statement of SQL."""
        if isinstance(node.value, bool):
            self._put(node, "constant changed", str(not node.value))
        elif isinstance(node.value, int):
            # The mode of a file is written with octal digits: everybody may write to it.
            new = node.value | 0o022 if self._text(node).startswith("0o") else node.value + 1
            self._put(node, "constant changed", str(new))
        elif isinstance(node.value, str):
            self._change_sql(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Another statement of SQL."""
        self._change_sql(node)

    def _change_sql(self, node: ast.expr) -> None:
        start, end = self._span(node)
        for at, until, new in changes_of(self._data[start:end].decode()):
            head = len(self._data[start:end].decode()[:at].encode())
            size = len(self._data[start:end].decode()[at:until].encode())
            self._note(start + head, start + head + size, "SQL changed", new)

    # Places in the file.

    def _span(self, node: ast.AST) -> tuple[int, int]:
        line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
        last, end = node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        return self._starts[line - 1] + column, self._starts[last - 1] + end

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._data[start:end].decode()

    def _put(self, node: ast.AST, kind: str, new: str) -> None:
        self._note(*self._span(node), kind, new)

    def _between(self, sides: tuple[ast.AST, ast.AST], old: str, new: str, kind: str) -> None:
        start, end = self._span(sides[0])[1], self._span(sides[1])[0]
        at = self._data[start:end].find(old.encode())
        if at >= 0:
            self._note(start + at, start + at + len(old.encode()), kind, new)

    def _note(self, start: int, end: int, kind: str, new: str) -> None:
        line = self._data[:start].count(b"\n") + 1
        function = ".".join(self._scope) if self._functions else None
        self.found.append(Mutant(self._path, line, kind, start, end, new, function))


def _is_tuning(name: str) -> bool:
    words = set(name.upper().split("_"))
    return DURATION_WORDS.isdisjoint(words) and not TUNING_WORDS.isdisjoint(words)


def _is_plain_number(value: ast.expr) -> bool:
    """Whether a value is written with numbers alone, such as `24 * 3600`."""
    return all(
        type(each.value) in {int, float} if isinstance(each, ast.Constant) else isinstance(each, ARITHMETIC)
        for each in ast.walk(value)
    )


def _is_log(node: ast.AST) -> bool:
    """Whether a statement writes a log line."""
    call = getattr(node, "value", None)
    call = call.value if isinstance(call, ast.Await) else call
    if not isinstance(call, ast.Call):
        return False
    named = call.func
    while isinstance(named, ast.Attribute):
        named = named.value
    return isinstance(named, ast.Name) and named.id in LOGS


def _is_base_call(node: ast.AST) -> bool:
    """Whether a statement calls `super().__init__()`: without it nothing works."""
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith("super().__init__")
