"""The Django application of the documentation, against the real service."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from headway import Final, State, Statechart
from tests.api.serving import serving

pytestmark = pytest.mark.mission("ENG-24")
ROOT = Path(__file__).resolve().parents[2]
SHOWN = """\
draft ['submit']
review
409 ['approve']
404
"""


class Expense(Statechart):
    """An expense that a manager decides."""

    draft = State(initial=True)
    review = State()
    approved = Final()

    submit = draft.to(review)
    approve = review.to(approved, by="manager")


async def test_the_django_application_answers_as_its_page_says(tmp_path: Path) -> None:
    """It creates, shows, sends, refuses and does not find, all through the client."""
    async with serving(f"sqlite:///{tmp_path}/headway.db", [Expense]) as service:
        key = await service.key("read", "send")
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-W",
                "error::DeprecationWarning:__main__",
                "-m",
                "examples.embedding.django_app",
            ),
            cwd=ROOT,
            env={**os.environ, "HEADWAY_URL": service.url, "HEADWAY_KEY": key},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        printed, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert printed.decode() == SHOWN
    page = (ROOT / "docs/how-to/embed-in-django.md").read_text(encoding="utf-8")
    assert SHOWN in page
