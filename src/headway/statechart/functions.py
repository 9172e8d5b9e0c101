"""Fingerprints of the functions that a chart names: whether the code of a guard or an action has changed.

A fingerprint covers the compiled code and plain default values of parameters, so comments, formatting and
docstrings do not count. It does not cover what the function calls. Compiled code differs between versions of
Python: those are not compared.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from types import CodeType, FunctionType

from headway.codec import decode, encode
from headway.errors import InputError
from headway.statechart.chart import Chart

PYTHON = f"{sys.implementation.cache_tag}:"
"""What a fingerprint begins with."""
PLAIN = (str, int, float, bool, bytes, type(None))


def fingerprints(chart: Chart) -> dict[str, str]:
    """The fingerprint of each function, by name; one without compiled code, such as a builtin, has none."""
    found = {name: _plain(function) for name, function in sorted(chart.functions.items())}
    return {name: _fingerprint(plain) for name, plain in found.items() if plain is not None}


def changed_functions(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The names of the functions that both have with different code of one version of Python."""
    return [
        name
        for name, new in sorted(after.items())
        if (old := before.get(name, new)) != new and old.startswith(PYTHON) and new.startswith(PYTHON)
    ]


def stored(text: str) -> dict[str, str]:
    """Fingerprints as they are stored; none where they cannot be read."""
    try:
        return decode(dict[str, str], text)
    except InputError:
        return {}


def _plain(function: object) -> FunctionType | None:
    unwrapped = inspect.unwrap(function) if callable(function) else function
    plain = getattr(unwrapped, "__func__", unwrapped)
    return plain if isinstance(plain, FunctionType) else None


def _fingerprint(function: FunctionType) -> str:
    parts = [*_parts(function.__code__), *_defaults(function)]
    return f"{PYTHON}{sha256(encode(parts)).hexdigest()[:16]}"


def _defaults(function: FunctionType) -> Iterator[str]:
    """Default values that look the same in each process; others, such as objects, are left out."""
    named: list[tuple[object, object]] = [*enumerate(function.__defaults__ or ())]
    named += (function.__kwdefaults__ or {}).items()
    yield from (f"{name}={value!r}" for name, value in named if type(value) in PLAIN)


def _parts(code: CodeType) -> Iterator[str]:
    """What the code does: its parameters, and its instructions with the names and constants they use."""
    yield repr((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags))
    for instruction in dis.get_instructions(code):
        yield instruction.opname
        value = instruction.argval
        if isinstance(value, CodeType):
            yield from _parts(value)
        else:  # a set has no order of its own
            yield repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)
