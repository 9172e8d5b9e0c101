"""A pipeline for documents: read each page, look for what matters, and sum each document up."""

import asyncio
from collections import defaultdict
from typing import Any

from headway.lifecycles.task_runs import (
    Process,
    ProcessTask,
    Runner,
    Runners,
    RunTask,
    TransientError,
    task_runs,
)

PAGES = {f"doc-{number}": 10 - number % 2 for number in range(10)}
"""Ten documents with 95 pages: 95 processes to read them, 95 to mark them, and 10 to sum up are 200."""
READ, MARK, SUM = 1, 2, 3
FLICKERING = {"doc-2 page 3", "doc-5 page 7", "doc-7 page 1"}
"""Pages whose scanner is busy at the first attempt."""
HANGING = "doc-4 page 4"
"""A page that takes far too long, once."""
lost = {"doc-8 page 8"}
"""Pages that are not there, until somebody finds them."""

runners = Runners()


@runners("documents")
class Documents(Runner):
    """Three phases: pages are read, then marked, then the documents summed up."""

    timeout_seconds = 0.5

    async def prepare(self, run: RunTask) -> None:
        """Phase one: a process for each page."""
        for document, pages in PAGES.items():
            for page in range(1, pages + 1):
                run.add(Process(f"{document} page {page}", config={"document": document, "page": page}))

    async def run(self, process: ProcessTask) -> list[Any]:
        """Do what the phase asks for."""
        return await PHASES[process.phase](process)

    async def after_all_completed(self, run: RunTask) -> list[Any] | None:
        """Name the processes of the next phase; after the last, bring out the sums."""
        if run.phase == READ:
            async for page in run.processes(READ):
                run.add(Process(page.name, page.artifacts))
        elif run.phase == MARK:
            marks: dict[str, list[Any]] = defaultdict(list)
            async for page in run.processes(MARK):
                marks[page.artifacts[0]["document"]] += page.artifacts
            run.add(*(Process(document, found) for document, found in sorted(marks.items())))
        else:
            return [item async for each in run.processes(SUM) for item in each.artifacts]
        return None


async def read(process: ProcessTask) -> list[Any]:
    """The text of a page."""
    if process.name in FLICKERING and process.restarts == 0:
        raise TransientError("the scanner is busy", "overloaded")
    if process.name == HANGING and process.restarts == 0:
        await asyncio.Event().wait()
    if process.name in lost:
        raise FileNotFoundError(f"there is no {process.name}")
    return [{"document": process.config["document"], "words": 200 + 17 * process.config["page"] % 90}]


async def mark(process: ProcessTask) -> list[Any]:
    """What matters on a page."""
    (page,) = process.input_artifacts
    return [{**page, "marks": page["words"] % 7}]


async def sum_up(process: ProcessTask) -> list[Any]:
    """A document as one line of the result."""
    pages = process.input_artifacts
    words, marks = (sum(page[name] for page in pages) for name in ("words", "marks"))
    return [{"document": process.name, "pages": len(pages), "words": words, "marks": marks}]


PHASES = {READ: read, MARK: mark, SUM: sum_up}

lifecycle = task_runs(runners)
