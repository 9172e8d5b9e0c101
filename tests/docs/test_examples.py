"""What the documentation shows is true: examples run and print what is shown, links lead somewhere."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, SKIP, Page, blocks, dead_links

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def examples() -> Iterator[object]:
    """Every page, and every skipped example with its reason."""
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        yield pytest.param(page, id=name)
        for block in blocks(page.read_text(encoding="utf-8")):
            if skip := SKIP.fullmatch(block.note):
                yield pytest.param(page, id=f"{name}:{block.line}", marks=pytest.mark.skip(skip["reason"]))


@pytest.mark.parametrize("page", [*examples()])
def test_examples_run_and_print_what_is_shown(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader who types what a page shows gets what the page shows."""
    monkeypatch.chdir(tmp_path)
    runner = Page(page, tmp_path)
    monkeypatch.setitem(sys.modules, runner.module.__name__, runner.module)
    runner.run()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file and a heading that exist."""
    assert list(dead_links(page)) == []


def run(folder: Path, text: str) -> None:
    """Run the examples of a page with this text."""
    page = folder / "page.md"
    page.write_text(text)
    Page(page, folder).run()


TRUE = [
    "```python\nprint(1)\n```\n\n<!-- output -->\n\n```text\n1\n```",
    "```python\na = 1\n```\n```python\nassert a == 1\n```",
    "<!-- file: one.py -->\n```python\nprint(1)\n```\n```console\n$ python one.py\n1\n$ rm -r away\n```",
    "```console\n$ python -c 'print(\"a b c\")'\na ... c\n```",
    "<!-- from: tests/docs/pages.py -->\n```python\nROOT = Path(__file__).resolve().parents[2]\n```",
    "<!-- example: skip because it never ends -->\n```python\n1 / 0\n```",
]
FALSE = [
    "<!-- from: tests/docs/pages.py -->\n```python\nROOT = Path.cwd()\n```",
    "```python\nprint(1)\n```\n\n<!-- output -->\n\n```text\n2\n```",
    "```python\nassert False\n```",
    "```console\n$ python -c 'print(1)'\n2\n```",
    "```console\n$ python -c 'raise SystemExit(1)'\n```",
    "<!-- example: skip -->\n```python\n1\n```",
    "- item\n\n  ```python\n  1\n  ```",
]


@pytest.mark.parametrize("text", TRUE)
def test_a_true_page_passes(tmp_path: Path, text: str) -> None:
    """The runner accepts what happens as shown."""
    run(tmp_path, text)


@pytest.mark.parametrize("text", FALSE)
def test_a_false_page_fails(tmp_path: Path, text: str) -> None:
    """The runner refuses a page that shows something else than what happens, or hides that it was not run."""
    with pytest.raises(AssertionError):
        run(tmp_path, text)


def test_an_error_points_to_its_line_of_the_page(tmp_path: Path) -> None:
    """A reader of a failure sees the line of the page, not of the block."""
    with pytest.raises(ZeroDivisionError) as error:
        run(tmp_path, "# Title\n\n```python\na = 0\n1 / a\n```")
    assert error.traceback[-1].lineno + 1 == 5


def test_dead_links_are_found(tmp_path: Path) -> None:
    """Files and headings are looked up; examples and other sites are left alone."""
    page = tmp_path / "page.md"
    page.write_text(
        "# One, two\n[a](#one-two) [b](#three) [c](page.md#one-two) [d](away.md) [e](https://example.org)\n"
        "```text\n[f](away.md)\n```\n",
    )
    assert list(dead_links(page)) == ["#three", "away.md"]
