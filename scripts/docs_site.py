"""Hooks of MkDocs: pages from the root of the project, the list of decisions, and links that leave docs/.

The pages are written for a code host, where a link may lead to any file. On the site README, CHANGELOG,
CONTRIBUTING and SECURITY are pages of the section "Project"; a link to code becomes its text.
"""

import os
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PROJECT = {
    "README.md": "project/overview.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
}
SOURCES = {page: name for name, page in PROJECT.items()}
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[(?P<text>[^\]\n]*(?:\n[^\]\n]*)?)\]\((?P<path>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put one entry for each decision into the navigation."""
    [project] = [section["Project"] for section in config.nav or [] if "Project" in section]
    decisions = sorted(
        path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs/decisions").glob("0*.md")
    )
    project.append({"Decisions": ["decisions/README.md", *decisions]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the project's root."""
    for name, page in PROJECT.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let each link lead to a page of the site, or be plain text."""
    here = page.file.src_uri
    source = SOURCES.get(here, f"docs/{here}")
    parts, place = [], 0
    for block in BLOCK.finditer(markdown):
        parts += [_linked(markdown[place : block.start()], source, here), block.group()]
        place = block.end()
    return "".join([*parts, _linked(markdown[place:], source, here)])


def _linked(text: str, source: str, here: str) -> str:
    def link(match: re.Match[str]) -> str:
        path = match["path"]
        if not path or "://" in path or path.startswith("mailto:"):
            return match.group()
        target = os.path.normpath(Path(source).parent / path)
        on_site = PROJECT.get(target) or (target.removeprefix("docs/") if _is_page(target) else None)
        if on_site is None:
            return match["text"]
        way = posixpath.relpath(on_site, posixpath.dirname(here) or ".")
        return f"[{match['text']}]({way}{match['anchor'] or ''})"

    return LINK.sub(link, text)


def _is_page(target: str) -> bool:
    return target.startswith("docs/") and (ROOT / target).is_file()
