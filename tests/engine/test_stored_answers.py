"""Answers as they are stored for request ids: a later version reads what an earlier one wrote."""

import pytest

from headway.engine.orders import Receipt, answer_of, answer_text

pytestmark = pytest.mark.mission("ENG-3")

TEXT = '{"receipt":{"instance":"a","chart":"Job","version":1,"seq":2,"status":"active","states":["here"]%s}}'


@pytest.mark.parametrize(("ended", "member"), [(False, ""), (True, ',"ended":true')])
def test_a_stored_answer_keeps_its_text(*, ended: bool, member: str) -> None:
    """An answer says that the instance has ended, or nothing about it if it lives."""
    receipt = Receipt("a", "Job", 1, 2, "active", ("here",), ended)
    assert answer_text(receipt) == TEXT % member
    assert answer_of(TEXT % member) == receipt
