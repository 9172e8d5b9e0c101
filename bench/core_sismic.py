"""The charts of the core suite in sismic, in its own YAML."""

from collections.abc import Sequence
from typing import Any

from sismic.interpreter import Interpreter
from sismic.io import import_from_yaml

from bench.core_course import LIMIT

_HEAD = f"""
statechart:
  name: course
  preamble: |
    n = 0
    limit = {LIMIT}
"""

_FLAT = """
  root state:
    name: root
    initial: s0
    states:
      - {name: s0, transitions: [{event: go, target: s1, guard: n < limit}]}
      - {name: s1, transitions: [{event: go, target: s2, action: n = n + 1}]}
      - {name: s2, transitions: [{event: go, target: s3}]}
      - {name: s3, transitions: [{event: go, target: s4}]}
      - {name: s4, transitions: [{event: go, target: s5}]}
      - {name: s5, transitions: [{event: go, target: s0}]}
"""

_NESTED = """
  root state:
    name: root
    initial: work
    states:
      - name: work
        initial: a
        transitions: [{event: leave, target: away}]
        states:
          - name: a
            initial: a1
            states:
              - {name: a1, transitions: [{event: next, target: a2}]}
              - {name: a2, transitions: [{event: cross, target: b1, guard: n < limit}]}
          - name: b
            initial: b1
            transitions: [{event: up, target: a}]
            states:
              - {name: b1, transitions: [{event: next, target: b2}]}
              - {name: b2}
      - name: away
        initial: c
        states:
          - name: c
            initial: c1
            states:
              - {name: c1, transitions: [{event: back, target: a1, action: n = n + 1}]}
"""

_PARALLEL = """
  root state:
    name: root
    initial: both
    states:
      - name: both
        initial: regions
        transitions: [{event: leave, target: out, action: n = n + 1}]
        states:
          - name: regions
            parallel states:
              - name: left
                initial: l1
                states:
                  - {name: l1, transitions: [{event: flip, target: l2}]}
                  - {name: l2, transitions: [{event: flip, target: l1}]}
              - name: right
                initial: r1
                states:
                  - {name: r1, transitions: [{event: flop, target: r2, guard: n < limit}]}
                  - {name: r2, transitions: [{event: flop, target: r1}]}
          - {name: h, type: deep history, memory: regions}
      - {name: out, transitions: [{event: back, target: h}]}
"""


class SismicMachine:
    """An interpreter driven through `queue(event).execute_once()`, one macro step per event."""

    def __init__(self, chart: str) -> None:
        self._chart: Any = import_from_yaml(_HEAD + chart)
        # Contracts are off: no chart here has any, and this is the faster way.
        self._interpreter: Any = Interpreter(self._chart, ignore_contract=True)
        self._interpreter.execute()

    def run(self, events: Sequence[str], cycles: int) -> None:
        """Send the events in order, that many times over."""
        queue, execute_once = self._interpreter.queue, self._interpreter.execute_once
        for _ in range(cycles):
            for event in events:
                queue(event)
                execute_once()

    def leafs(self) -> frozenset[str]:
        """The names of the active states that have no children."""
        active = self._interpreter.configuration
        return frozenset(name for name in active if not self._chart.children_for(name))

    def count(self) -> int:
        """The counter in the interpreter's context."""
        return int(self._interpreter.context["n"])


def flat() -> SismicMachine:
    """The ring of six."""
    return SismicMachine(_FLAT)


def nested() -> SismicMachine:
    """Three levels."""
    return SismicMachine(_NESTED)


def parallel() -> SismicMachine:
    """Two regions with a deep history."""
    return SismicMachine(_PARALLEL)
