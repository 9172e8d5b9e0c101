"""`Settings`: the settings of a process, and the source of each value."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from headway.clock import milliseconds
from headway.codec import Value, from_data
from headway.errors import InputError, shown

__all__ = ["Settings", "load"]

FILE = "headway.toml"
PREFIX = "HEADWAY_"
ELSEWHERE = frozenset({"HEADWAY_CONFIG", "HEADWAY_KEY", "HEADWAY_MANY", "HEADWAY_URL"})
"""Variables that are not settings: the path of the settings file, and those of clients and tests."""
LARGEST_PORT = 65_535
MASK = "••••••"


class Hook(Value):
    """A webhook endpoint of a tenant, in a table `[[webhooks]]`."""

    id: str
    url: str
    secret: str
    tenant: str = "default"
    events: tuple[str, ...] = ("*",)
    allow_private: bool = False


class Settings(Value):
    """The settings of a process."""

    database: str = "sqlite:///headway.db"
    host: str = "127.0.0.1"
    port: int = 8000
    app: str = ""
    lifecycles: tuple[str, ...] = ()
    tenant: str = "default"
    node: str = ""
    queues: tuple[str, ...] = ("default",)
    capacity: int = 100
    grace: str = "30s"
    drain: str = "0s"
    link_secrets: tuple[str, ...] = ()
    issuers: tuple[dict[str, Any], ...] = ()
    rate: int = 1_000
    streams: int = 0
    tenant_streams: int = 0
    key_streams: int = 0
    handshakes: int = 0
    address_handshakes: int = 0
    keep_messages: str = "7d"
    keep_instances: str = ""
    redis: str = ""
    webhooks: tuple[Hook, ...] = ()
    metrics_token: str = ""
    metrics_tenants: int = 20
    log: Literal["auto", "json", "text"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_transitions: bool = False
    otlp: str = ""


ABOUT = {
    "database": "The database: sqlite:///file.db or postgresql://user@host/name.",
    "host": "The address to listen on. Any address but loopback is open to the network.",
    "port": "The port to listen on; 0 picks a free one.",
    "app": "Your own lifecycle: module:name of a Lifecycle, a chart, a list of charts, or a function that"
    " returns one of these.",
    "lifecycles": "The registered lifecycles to run, besides app.",
    "tenant": "The tenant that commands act for.",
    "node": "A fixed name, by which a restarted process takes back its own leases and work at once.",
    "queues": "The queues that the worker takes work from.",
    "capacity": "How many handlers run at the same time.",
    "grace": "How long running handlers and requests may take to finish when the process is stopped.",
    "drain": "How long a stopping process keeps serving after /ready fails (for load balancers).",
    "link_secrets": "Secrets of the links by which people answer without a login; the first signs new links.",
    "issuers": "Accepted token issuers, each a table with issuer, audience and jwks (a URL or a file).",
    "rate": "Calls per second for a key that has no rate of its own.",
    "streams": "How many streams (live events, waiting claims) one process serves at once; 0: half of its"
    " connections.",
    "tenant_streams": "How many of these streams one tenant may have; 0: half of streams.",
    "key_streams": "How many of these streams one key or token may have; 0: half of tenant_streams.",
    "handshakes": "How many WebSockets may be open before their handshake; 0: an eighth of the connections.",
    "address_handshakes": "How many of these WebSockets one IP address may have; 0: half of handshakes.",
    "keep_messages": "How long messages are kept after every destination has them.",
    "keep_instances": "How long ended instances and their history are kept; empty: for ever.",
    "redis": "A Redis server that mirrors the state of all instances: redis://host:6379/0.",
    "webhooks": "The webhook endpoints.",
    "metrics_token": "Bearer token for the metrics of all tenants; a key with scope operate reads its own.",
    "metrics_tenants": "How many tenants have metrics of their own; all others are counted together.",
    "log": "The format of log lines: json, text, or auto (text on a terminal).",
    "log_level": "The lowest level that is logged.",
    "log_transitions": "Whether each transition is logged.",
    "otlp": "Base URL of the OpenTelemetry collector for traces, such as http://127.0.0.1:4318.",
}
SECRET = frozenset({"link_secrets", "metrics_token"})
COUNTS = ("streams", "tenant_streams", "key_streams", "handshakes", "address_handshakes")
DURATIONS = ("grace", "drain", "keep_messages")
TYPES: Mapping[str, Any] = get_type_hints(Settings)


class SettingValue(NamedTuple):
    """The value of a setting, and its source."""

    name: str
    value: Any
    source: str

    @property
    def masked(self) -> Any:
        """The value with secrets masked."""
        return _masked(self.name, self.value)


class Configuration(Value):
    """The settings, and the source of each value that is not the default."""

    settings: Settings
    sources: Mapping[str, str]

    def values(self) -> Iterator[SettingValue]:
        """Each setting with its source."""
        for name in TYPES:
            yield SettingValue(name, getattr(self.settings, name), self.sources.get(name, "default"))


def load(
    options: Mapping[str, Any] | None = None,
    *,
    file: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Configuration:
    """Defaults, then headway.toml, then HEADWAY_* variables, then options that are not None; the last wins.

    Raises InputError that names the place and the key, and what was probably meant.
    """
    variables = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name, value, source in (
        *_from_file(file or variables.get("HEADWAY_CONFIG")),
        *_from_environment(variables),
        *_from_options(options or {}),
    ):
        values[name], sources[name] = value, source
    return Configuration(from_data(Settings, values), sources)


def _from_file(named: str | None) -> Iterator[SettingValue]:
    path = Path(named or FILE)
    if named is None and not path.exists():
        return
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from error
    for name, value in found.items():
        _must_exist(name, str(path), TYPES)
        yield SettingValue(name, _checked(name, value, f"{path}: {name}"), str(path))


def _from_environment(variables: Mapping[str, str]) -> Iterator[SettingValue]:
    known = {f"{PREFIX}{name.upper()}": name for name in TYPES if TYPES[name] in READERS or _choices(name)}
    for variable, text in sorted(variables.items()):
        if not variable.startswith(PREFIX) or variable in ELSEWHERE:
            continue
        _must_exist(variable, "environment", known)
        name = known[variable]
        value = READERS.get(TYPES[name], str)(text)
        yield SettingValue(name, _checked(name, value, variable), variable)


def _from_options(options: Mapping[str, Any]) -> Iterator[SettingValue]:
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is not None:
            yield SettingValue(name, _checked(name, value, option), option)


def _must_exist(name: str, place: str, known: Mapping[str, Any]) -> None:
    if name not in known:
        near = get_close_matches(name, known, 1, 0.6)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(known))}"
        raise InputError(f"{place}: there is no setting {name}{hint}")


def _checked(name: str, value: Any, place: str) -> Any:
    """The value as its setting takes it; raises InputError that does not repeat a secret."""
    kind = TYPES[name]
    said = "" if name in SECRET else f", not {shown(value)}"
    choices = _choices(name)
    if choices and value not in choices:
        raise InputError(f"{place} must be {' or '.join(choices)}{said}")
    if kind in WORDS and not IS[kind](value):
        raise InputError(f"{place} must be {WORDS[kind]}{said}")
    if kind not in WORDS and not choices:
        value = _tables(kind, value, place)
    for test, expected in RULES.get(name, ()):
        if not test(value):
            raise InputError(f"{place} must be {expected}{said}")
    return tuple(value) if isinstance(value, list) else value


def _tables(kind: Any, value: Any, place: str) -> Any:
    try:
        return from_data(kind, value)
    except InputError as error:
        raise InputError(f"{place} is {error}") from None


def _choices(name: str) -> tuple[str, ...]:
    return get_args(TYPES[name]) if get_origin(TYPES[name]) is Literal else ()


def _is_duration(text: str) -> bool:
    try:
        milliseconds(text)
    except ValueError:
        return False
    return True


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _masked(name: str, value: Any) -> Any:
    if name == "webhooks":
        return tuple({**_plain(hook), "url": MASK, "secret": MASK} for hook in value)
    if name in SECRET:
        return (MASK,) * len(value) if isinstance(value, tuple) else MASK if value else ""
    if isinstance(value, str) and "://" in value:
        return _without_password(value)
    return value


def _plain(hook: Hook) -> dict[str, Any]:
    return {name: getattr(hook, name) for name in Hook.__struct_fields__}


def _without_password(address: str) -> str:
    scheme, _, rest = address.partition("://")
    place, slash, path = rest.partition("/")
    user, at, host = place.rpartition("@")
    name, colon, _ = user.partition(":")
    return f"{scheme}://{name}{f':{MASK}' if colon else ''}{at}{host}{slash}{path}"


def _flag(text: str) -> Any:
    return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}.get(
        text.strip().lower(), text
    )


def _number(text: str) -> Any:
    return int(text) if text.strip().lstrip("-").isdecimal() else text


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


LIST = tuple[str, ...]
WORDS: dict[Any, str] = {str: "text", int: "a whole number", bool: "true or false", LIST: "a list of texts"}
IS: dict[Any, Callable[[Any], bool]] = {
    str: lambda value: isinstance(value, str),
    int: lambda value: isinstance(value, int) and not isinstance(value, bool),
    bool: lambda value: isinstance(value, bool),
    LIST: lambda value: isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value),
}
READERS: dict[Any, Callable[[str], Any]] = {str: str, int: _number, bool: _flag, LIST: _words}
"""How a value is read from the text of a variable; lists are separated by commas."""

Rule = tuple[Callable[[Any], bool], str]
RULES: dict[str, tuple[Rule, ...]] = {
    "port": ((lambda port: 0 <= port <= LARGEST_PORT, "a port, 0 to 65535"),),
    **dict.fromkeys(("capacity", "rate"), ((lambda number: number >= 1, "1 or more"),)),
    **dict.fromkeys(("metrics_tenants", *COUNTS), ((lambda number: number >= 0, "0 or more"),)),
    "queues": ((bool, "one queue at least"),),
    **dict.fromkeys(DURATIONS, ((_is_duration, "a duration such as 30s, 5m or 7d"),)),
    "keep_instances": ((lambda text: not text or _is_duration(text), "empty, or a duration such as 90d"),),
    "otlp": (
        (lambda text: not text or _is_web_address(text), "empty, or a URL such as http://127.0.0.1:4318"),
    ),
}
