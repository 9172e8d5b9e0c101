"""Writes docs/reference/problems.md from the table of problems."""

from pathlib import Path

from headway.api.problem_kinds import KINDS, Kind

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/problems.md"
INTRODUCTION = """\
# Problems: errors of the HTTP API

Every error of the service is a problem document ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)) of the
type `application/problem+json`. Its `code` is stable: programs may rely on it. Its `type`,
`/problems/<code>`, is a page of the running service with the text below.

| Member | Meaning |
|---|---|
| `type` | Where the kind of problem is explained: `/problems/<code>` |
| `title` | The kind of problem in a few words |
| `status` | The status of the answer |
| `detail` | What happened in this case |
| `instance` | The path of the request |
| `code` | The kind of problem, for programs |
| `errors` | With `invalid`: each `place` and what is wrong there (`message`) |
| `event`, `states` | When a chart has refused an event: what was sent, and where the instance stands |
| `allowed` | What it would take: `event`, `by`, `targets` |
| `objections` | Which transition said no and why: `transition`, `code`, `reason`, `guard` |
| `seq` | With `version`: the version the instance has |
| `scope` | With `forbidden`: the scope that is missing |
| `limit` | With `too_many_streams` and `too_many_handshakes`: which limit is reached |
| `key` | With `secret_told`: the id of the API key that was made or rotated |
| `maybe_committed` | With `unavailable`: whether the change may have been made all the same |

This page is written by `scripts/problems_page.py`.
"""


def page() -> str:
    """The whole page."""
    rows = [f"| [`{code}`](#{code}) | {kind.status} | {kind.title} |" for code, kind in KINDS.items()]
    table = "\n".join(["| Code | Status | Title |", "|---|---|---|", *rows])
    return "\n".join([INTRODUCTION, table, *(_section(code, kind) for code, kind in KINDS.items())])


def _section(code: str, kind: Kind) -> str:
    first = f"Status {kind.status}: {kind.title.rstrip('?')}."
    return f"\n## {code}\n\n{first}\n\n{kind.meaning}\n\n**What helps.** {kind.remedy}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
