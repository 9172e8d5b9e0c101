"""The page of problems is the table of problems, and the table knows every error there is."""

import typing

import pytest

from headway import Refusal, errors
from headway.api.problem_kinds import KINDS
from headway.api.problems import CODES, Problem, problem_of
from headway.statechart.refusal import Code
from scripts.problems_page import PAGE, page

pytestmark = pytest.mark.mission("ENG-2")
ERRORS = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.HeadwayError)
]
OF_CALLERS = [kind for kind in ERRORS if issubclass(kind, (errors.EngineError, errors.StoreError))]


def test_the_page_is_what_the_table_says() -> None:
    """`scripts/problems_page.py` writes the page as it stands."""
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("code", typing.get_args(Code))
def test_every_refusal_of_a_chart_is_a_problem(code: Code) -> None:
    """Each code of a refusal has its status, its title and its page."""
    problem = problem_of(Refusal(code=code, message="no", event="go", states=("here",)))
    assert (problem.code, problem.detail, problem.extra["states"]) == (code, "no", ["here"])
    assert problem.status == KINDS[code].status


@pytest.mark.parametrize("kind", OF_CALLERS, ids=lambda kind: kind.__name__)
def test_no_error_of_the_engine_or_the_store_is_told_as_a_failure(kind: type[errors.HeadwayError]) -> None:
    """What a caller or a database can cause has a code of its own or of its parent, never `internal`."""
    code = next(CODES[each] for each in kind.__mro__ if each in CODES)
    assert code in KINDS
    assert code != "internal"


def test_what_broke_is_not_told() -> None:
    """An error that nobody foresaw leaves without its text, which may hold a secret."""
    problem = problem_of(RuntimeError("password=hunter2"))
    assert (problem.status, problem.code) == (500, "internal")
    assert b"hunter2" not in problem.document("/")


@pytest.mark.parametrize("code", KINDS)
def test_a_problem_is_a_whole_document(code: str) -> None:
    """Each kind has a status of an error, a title, a meaning and a remedy."""
    kind, problem = KINDS[code], Problem(code)
    assert 400 <= kind.status < 600
    assert kind.title
    assert kind.meaning
    assert kind.remedy
    assert problem.document("/x").startswith(b'{"type":"/problems/%s"' % code.encode())
