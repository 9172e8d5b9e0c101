"""Names with places to fill in: `tasks:{userId}` is another channel for each user."""

from __future__ import annotations

import re
from typing import Any

from headway.errors import InputError, PermanentError
from headway.outbox.destination import Message

FIELD = re.compile(r"\{([^{}]*)\}")
PATH = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*")
OWN = ("tenant", "instance", "name", "kind", "id")
"""What every message has; these names are never looked for in its data."""
OF_THE_INSTANCE = frozenset({"tenant", "instance"})
LONGEST_VALUE = 200


class Template:
    """A text with fields in braces: what a message has itself, or a path into its data.

    A field that is not in the data is looked for in the data of the event within. `is_one_per_instance`: all
    messages of an instance give the same text. With the field `{tenant}` no two tenants give the same text:
    up to it no value may hold what stands between its field and the next one. Raises InputError when the text
    is no template.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        parts = FIELD.split(text)
        self._texts, self._paths = parts[::2], parts[1::2]
        self.has_fields = bool(self._paths)
        self._looks_inside = any(path not in OWN for path in self._paths)
        self.is_one_per_instance = all(path in OF_THE_INSTANCE for path in self._paths)
        if not text or any("{" in part or "}" in part for part in self._texts):
            raise InputError(f"not a template: {text!r}")
        for path in self._paths:
            if not PATH.fullmatch(path):
                raise InputError(f"not a field of a message: {{{path}}}")
        upto_tenant = self._paths.index("tenant") + 1 if "tenant" in self._paths else 0
        self._ends = self._texts[1:-1][:upto_tenant]
        if "" in self._ends:
            raise InputError(f"tenants would be mixed up where nothing stands between two fields: {text!r}")

    def fill(self, message: Message) -> str:
        """The text for a message; raises PermanentError when the message has nothing for a field."""
        if not self.has_fields:
            return self.text
        data = message.data if self._looks_inside else None
        values = [_value(message, data, path) for path in self._paths]
        for path, value, end in zip(self._paths, values, self._ends, strict=False):
            if (value + end).find(end) != len(value):
                raise PermanentError(f"the message's {path} holds {end!r}, where it ends in {self.text!r}")
        filled = (part for pair in zip(values, self._texts[1:], strict=True) for part in pair)
        return "".join((self._texts[0], *filled))


def _value(message: Message, data: Any, path: str) -> str:
    if path in OWN:
        return str(getattr(message, path))
    inner = data.get("data") if isinstance(data, dict) else None
    for where in (data, inner):
        found = _at(where, path.split("."))
        if isinstance(found, (str, int)) and not isinstance(found, bool) and found != "":
            text = str(found)
            if len(text) > LONGEST_VALUE or not text.isprintable():
                raise PermanentError(f"the message's {path} cannot be part of a name")
            return text
    raise PermanentError(f"the message has no {path}")


def _at(data: Any, path: list[str]) -> Any:
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data
