"""The example of task runs does what it says."""

import io

import pytest
from rich.console import Console

from examples.task_runs import pipeline
from examples.task_runs.__main__ import main


@pytest.mark.mission("TSK-WF", "TSK-F2", "TSK-F3", "TSK-F5", "TSK-HOOK")
async def test_the_document_pipeline_fails_is_restarted_and_completes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """200 processes in three phases: a lost page fails it, busy and hanging ones are tried again."""
    monkeypatch.setattr(pipeline, "lost", {*pipeline.lost})
    monkeypatch.setattr("examples.task_runs.__main__.lost", pipeline.lost)
    text = io.StringIO()
    await main(Console(file=text, width=120))
    told = text.getvalue()
    assert "The run is Failed" in told
    assert "doc-8 page 8: Failed, restarted 0 ×" in told
    assert "The run is Completed: 200 Completed; 4 errors." in told
    assert "doc-4 page 4: Completed, restarted 1 ×" in told
    assert all(document in told.rpartition("Result")[2] for document in pipeline.PAGES)
