"""A chart as data: what a definition, a JSON document and an SCXML file all become."""

from __future__ import annotations

import re
from typing import Any, Literal

from headway.codec import Value

ROOT = "*"
"""The source of transitions that leave from any live state."""

ANY = "*"
"""The descriptor that every event matches."""

LARGEST_LIMIT = 1_000_000
FIELD = re.compile(r"\{(\w+)\}")
"""A place in a text that is filled from the context."""


class Named(Value, tag="call"):
    """A function registered under a name."""

    name: str


class Formula(Value, tag="expr"):
    """A safe expression (see `expressions`)."""

    text: str


Condition = Named | Formula


class Act(Value, tag_field="do"):
    """The base of all actions; the field `do` names the kind in a document."""


class Call(Act, tag="call"):
    """Call a function; it answers with updates of the context, or with further actions."""

    name: str


class Put(Act, tag="put"):
    """Write literal values into the context."""

    values: dict[str, Any]


class Assign(Act, tag="assign"):
    """Write the value of an expression to a place in the context."""

    location: str
    expr: str | None = None
    value: Any = None


class Stamp(Act, tag="stamp"):
    """Write the time of the step into fields of the context."""

    fields: tuple[str, ...]


class Clear(Act, tag="clear"):
    """Set fields of the context back to nothing."""

    fields: tuple[str, ...]


class Count(Act, tag="count"):
    """Add to a counter of the instance."""

    name: str
    by: int = 1
    expr: str | None = None


class Raise(Act, tag="raise"):
    """Put an event into the internal queue."""

    event: str
    expr: str | None = None


class Param(Value):
    """A named value of a message; the value stands at a location or comes from an expression."""

    name: str
    expr: str | None = None
    location: str | None = None


class Payload(Value):
    """What a message carries: one expression, literal content, or named values."""

    content: Any = None
    expr: str | None = None
    params: tuple[Param, ...] = ()
    names: tuple[str, ...] = ()


class Send(Act, tag="send"):
    """Send an event to oneself or to another instance, now or after a delay (SCXML `send`)."""

    event: str | None = None
    event_expr: str | None = None
    target: str | None = None
    target_expr: str | None = None
    type: str | None = None
    type_expr: str | None = None
    id: str | None = None
    id_location: str | None = None
    delay: int = 0
    delay_expr: str | None = None
    payload: Payload = Payload()


class Cancel(Act, tag="cancel"):
    """Cancel a delayed event by the id it was sent with."""

    id: str | None = None
    id_expr: str | None = None


class Branch(Value):
    """One arm of an If; an arm without condition always applies."""

    when: str | None
    actions: tuple[Action, ...]


class If(Act, tag="if"):
    """Run the actions of the first arm whose condition holds."""

    branches: tuple[Branch, ...]


class ForEach(Act, tag="foreach"):
    """Run actions once for each item of a list."""

    array: str
    item: str
    index: str | None
    actions: tuple[Action, ...]


class Log(Act, tag="log"):
    """Write a line to the log."""

    label: str = ""
    expr: str | None = None


class Publish(Act, tag="publish"):
    """Publish a message after the commit: on a topic, to webhooks or on the live stream."""

    kind: Literal["topic", "webhook", "live"]
    name: str
    fields: tuple[str, ...] = ()
    data: str | None = None


class Spawn(Act, tag="spawn"):
    """Create children: one with literal values, or those a function makes contexts for."""

    chart: str
    values: dict[str, Any] = {}
    make: str | None = None


class Tell(Act, tag="tell"):
    """Send an event to the parent, to all children, or to an instance named by an expression."""

    to: str
    event: str
    fields: tuple[str, ...] = ()


class PutRecord(Act, tag="record"):
    """Store a record beside the instance, under a key made from the context."""

    kind: str
    key: str
    fields: tuple[str, ...] = ()


class Add(Act, tag="add"):
    """Add to a counter shared between instances, under a key made from the context."""

    key: str
    by: int = 1


Action = (
    Call
    | Put
    | Assign
    | Stamp
    | Clear
    | Count
    | Raise
    | Send
    | Cancel
    | If
    | ForEach
    | Log
    | Publish
    | Spawn
    | Tell
    | PutRecord
    | Add
)


class Retry(Value):
    """How often and how late work that failed with these codes is tried again."""

    on: tuple[str, ...] = ()
    times: int | None = 0
    base: int = 1_000
    factor: float = 2.0
    cap: int | None = None
    jitter: float = 0.0


class Limit(Value):
    """How much work of one key there may be: so much at once, or so much within a time (milliseconds).

    `most` is a number, or a template that the context fills with one.
    """

    key: str
    most: int | str = 1
    per: int | None = None


class Run(Value):
    """The work of a state: which handler runs, within which limits, and what happens when it fails."""

    handler: str
    timeout: int | None = None
    heartbeat: int = 10_000
    lease: int = 90_000
    queue: str = "default"
    priority: int = 0
    affinity: str | None = None
    concurrency: Limit | None = None
    rate: Limit | None = None
    retry: tuple[Retry, ...] = ()
    errors: tuple[str, ...] = ()
    timeout_code: str = "timeout"
    lost_code: str = "lost"
    lost: int | None = None


class Escalation(Value):
    """From when on others may answer too."""

    after: int
    roles: tuple[str, ...]


class Ask(Value):
    """The question a state puts to a person."""

    roles: tuple[str, ...]
    form: str | None = None
    deadline: int | None = None
    remind: int | None = None
    escalate: tuple[Escalation, ...] = ()
    late: Literal["refuse", "record"] = "refuse"
    delegate: Literal["asked", "anyone"] = "asked"
    shows: tuple[str, ...] = ()


class State(Value):
    """A state, its place in the tree and what happens while it lasts."""

    id: str
    kind: Literal["atomic", "compound", "parallel", "final", "shallow", "deep"] = "atomic"
    parent: str | None = None
    initial: tuple[str, ...] = ()
    meaning: str = ""
    waits_for: str = ""
    where: str | None = None
    run: Run | None = None
    ask: Ask | None = None
    progress: tuple[int, int] | None = None
    says: str = ""
    entry: tuple[tuple[Action, ...], ...] = ()
    exit: tuple[tuple[Action, ...], ...] = ()
    initial_actions: tuple[Action, ...] = ()
    output: Payload | None = None
    data: tuple[Datum, ...] = ()


class Datum(Value):
    """A variable of the data model and its first value."""

    id: str
    expr: str | None = None
    value: Any = None


class Transition(Value):
    """One row of the transition table."""

    name: str
    source: str
    events: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    lands: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    internal: bool = False
    after: int | Condition | None = None
    repeats: bool = False
    by: tuple[str, ...] = ()
    when: tuple[Condition, ...] = ()
    takes: str | None = None
    distinct_from: tuple[str, ...] = ()
    quorum: int = 1
    countersign: tuple[str, ...] = ()
    no_agent: bool = False
    actions: tuple[Action, ...] = ()
    meaning: str = ""


class Fact(Value):
    """Something a guard needs to know that the instance does not hold; the engine reads it."""

    name: str
    kind: Literal["given", "counter", "record", "instances"] = "given"
    key: str = ""
    meaning: str = ""
    example: Any = None


class Acceptance(Value):
    """A finding of the checker that the author accepts, and why."""

    finding: str
    place: str
    because: str


class Upgrade(Value):
    """How living instances of an older version come to this one; what it does not name stays as it is.

    Functions get the instance's snapshot: the one for a state answers with where to, `context` with updates.
    """

    version: int
    states: dict[str, tuple[str, ...] | Named] = {}
    renames: dict[str, str] = {}
    context: str | None = None
    drops: tuple[str, ...] = ()
    restarts: tuple[str, ...] = ()


class Model(Value):
    """A whole chart."""

    name: str
    version: int = 1
    meaning: str = ""
    initial: tuple[str, ...] = ()
    initial_actions: tuple[Action, ...] = ()
    states: tuple[State, ...] = ()
    transitions: tuple[Transition, ...] = ()
    context: str | None = None
    data: tuple[Datum, ...] = ()
    late_binding: bool = False
    schemas: dict[str, Any] = {}
    facts: tuple[Fact, ...] = ()
    computed: Literal["first", "exclusive"] | None = None
    invariants: tuple[Named, ...] = ()
    accepts: tuple[Acceptance, ...] = ()
    staff: dict[str, int] = {}
    cancel: str | None = None
    owner: str = ""
    read_by: tuple[str, ...] = ()
    max_depth: int = 5
    max_children: int | None = None
    children: Literal["each", "together"] = "each"
    dialect: Literal["headway", "scxml"] = "headway"
    upgrades: tuple[Upgrade, ...] = ()
