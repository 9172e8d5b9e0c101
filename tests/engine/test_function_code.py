"""A guard or an action whose code changes under the same chart version is noticed, and never refused."""

import logging
from collections.abc import Callable

import pytest

from headway import Final, State, Statechart, View
from headway.engine.engine import Engine
from headway.statechart.chart import Chart
from headway.statechart.functions import changed_functions, fingerprints
from headway.statechart.upgrade.diff import differences
from headway.store.address import store_at

pytestmark = pytest.mark.mission("ENG-19")

FIRST = "def may(view):\n    return view.context['amount'] > 100 and view.actor.id in {'ann', 'bob'}\n"
SAME = """
def may(view):
    \"\"\"Whether it may go on.\"\"\"
    # a remark
    return (
        view.context["amount"] > 100
        and view.actor.id in {'ann', 'bob'}
    )
"""
OTHER = FIRST.replace("100", "200")
DEFAULTS = "def may(view, limit=5, *, at=None):\n    return limit\n"
OBJECT = "def may(view, limit=object()):\n    return limit\n"
INNER = "def may(view):\n    return any(amount > 100 for amount in view.context['amounts'])\n"


def written(source: str) -> Callable[[View], bool]:
    """A function that a source text defines."""
    names: dict[str, Callable[[View], bool]] = {}
    exec(source, names)  # noqa: S102 - the text stands above
    return names["may"]


def claim(guard: Callable[[View], bool]) -> Chart:
    """A chart with a guard; its document is always the same."""

    class Claim(Statechart, version=1):
        draft = State(initial=True)
        paid = Final()
        pay = draft.to(paid, when=guard)

    return Claim.chart


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        (FIRST, SAME, []),
        (FIRST, OTHER, ["may"]),
        (INNER, INNER, []),
        (INNER, INNER.replace("100", "200"), ["may"]),
        (FIRST, FIRST.replace("'ann'", "'eve'"), ["may"]),
        (FIRST, FIRST.replace(".id", ".kind"), ["may"]),
        (DEFAULTS, DEFAULTS.replace("5", "6"), ["may"]),
        (DEFAULTS, DEFAULTS.replace("None", "'noon'"), ["may"]),
        (OBJECT, OBJECT, []),
    ],
)
def test_code_counts_and_its_form_does_not(before: str, after: str, changed: list[str]) -> None:
    """Comments, formatting and docstrings change nothing; constants, defaults, names and inner code do."""
    old, new = claim(written(before)), claim(written(after))
    assert changed_functions(fingerprints(old), fingerprints(new)) == changed
    told = [(each.subject, each.name, each.meaning) for each in differences(old, new)]
    assert told == [("function", name, "adapts") for name in changed]


def test_functions_without_code_and_other_pythons_are_not_compared() -> None:
    """Nothing is known of a builtin; the same code looks different to another version of Python."""

    class NoFunction:
        """A guard that is no function."""

        __name__ = "may"

        def __call__(self, _view: View) -> bool:
            """Yes."""
            return True

    assert fingerprints(claim(NoFunction())) == {}
    assert changed_functions({"may": "cpython-39:1"}, fingerprints(claim(written(FIRST)))) == []


async def warned(database: str, chart: Chart, caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings of an engine that starts with a chart."""
    caplog.clear()
    async with Engine(store_at(database), [chart]):
        pass
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def test_an_engine_warns_once_of_changed_code(address: str, caplog: pytest.LogCaptureFixture) -> None:
    """The start succeeds; the warning names function and chart, and from then on the new code counts."""
    first, other = claim(written(FIRST)), claim(written(OTHER))
    assert await warned(address, first, caplog) == []
    assert await warned(address, claim(written(SAME)), caplog) == []
    [told] = await warned(address, other, caplog)
    assert told.startswith("the code of may has changed since Claim v1 was last used")
    assert await warned(address, other, caplog) == []
