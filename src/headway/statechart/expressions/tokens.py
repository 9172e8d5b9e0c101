"""Cut the text of an expression into tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from headway.errors import EvaluationError, ExpressionError
from headway.statechart.expressions.values import as_number

MAX_LENGTH = 10_000
_LAST_CODE_POINT = 0x10FFFF


class Token(NamedTuple):
    """One word, sign or literal, and where it starts."""

    kind: str
    text: str
    position: int
    value: object = None


_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n\f\v\u00a0\ufeff]++)
  | (?P<number>0[xX][0-9a-fA-F]++|(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+)
  | (?P<string>'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+")
  | (?P<name>[^\W\d][\w$]*+|\$[\w$]*+)
  | (?P<change>\+\+|--)
  | (?P<sign>===|!==|==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{}|&])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]{1,6}\}|(?:u[0-9a-fA-F]{4})|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_SIMPLE_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "0": "\0",
    "\n": "",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "/": "/",
}
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of `text`, then one of kind `end`; raise ExpressionError at a bad character."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"longer than {MAX_LENGTH} characters", text, MAX_LENGTH)
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup == "change":
            raise ExpressionError(_complaint(text[position]), text, position)
        if match.lastgroup != "space":
            yield _token(match, text)
        position = match.end()
    yield Token("end", "", len(text))


def _complaint(character: str) -> str:
    if character in "'\"":
        return "a string that does not end"
    if character == "=":
        return "an expression cannot assign; write == to compare"
    if character in "+-":
        return f"an expression cannot change a value with {character * 2}"
    return f"unexpected {character!r}"


def _token(match: re.Match[str], text: str) -> Token:
    kind, word, position = match.lastgroup or "", match.group(), match.start()
    if kind == "number":
        following = text[match.end() : match.end() + 1]
        if following == "$" or following.isidentifier() or following.isdecimal():
            raise ExpressionError("a number that runs into a name", text, position)
        return Token(kind, word, position, _number(word, text, position))
    if kind == "string":
        return Token(kind, word, position, _string(word[1:-1], text, position))
    return Token(kind, word, position)


def _number(word: str, text: str, position: int) -> object:
    if len(word) > 1 and word[0] == "0" and word[1].isdecimal():
        raise ExpressionError("a number cannot start with 0", text, position)
    try:
        return as_number(int(word, 16) if word[:2] in {"0x", "0X"} else float(word))
    except EvaluationError as error:
        raise ExpressionError("a number that is too large", text, position) from error


def _string(body: str, text: str, position: int) -> str:
    def replace(match: re.Match[str]) -> str:
        code = match.group(1)
        if code in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[code]
        point = int(code[1:].strip("{}"), 16) if len(code) > 1 else -1
        if not 0 <= point <= _LAST_CODE_POINT:
            raise ExpressionError(f"unknown escape \\{code}", text, position + 1 + match.start())
        return chr(point)

    value = _ESCAPE.sub(replace, body)
    value = _SURROGATE_PAIR.sub(
        lambda pair: pair.group().encode("utf-16", "surrogatepass").decode("utf-16"), value
    )
    if _LONE_SURROGATE.search(value):
        raise ExpressionError("half of a surrogate pair", text, position)
    return value
