"""Checks a built wheel and sdist: what must be inside is there, what must not is not.

python -m scripts.check_package dist
"""

import sys
import tarfile
import zipfile
from pathlib import Path

NEEDED = (
    "headway/cli/starter/refunds/chart.py.txt",
    "headway/py.typed",
    "headway/statechart/chart.schema.json",
    "headway/store/migrations/sqlite/0001_first.up.sql",
    "headway/store/migrations/postgres/0001_first.up.sql",
)
FOREIGN = ("tests/", "docs/", "bench/", "chaos/", "scripts/", "examples/")


def problems_of(names: list[str]) -> list[str]:
    """What is wrong with the files of a wheel, one sentence each."""
    missing = [f"{name} is missing" for name in NEEDED if name not in names]
    licence = any(name.endswith("/licenses/LICENSE") for name in names)
    foreign = [f"{name} does not belong into the wheel" for name in names if name.startswith(FOREIGN)]
    caches = [f"{name} is a cache" for name in names if "__pycache__" in name]
    return [*missing, *([] if licence else ["LICENSE is missing"]), *foreign, *caches]


def main(folder: Path) -> int:
    """Check the one wheel and the one sdist of a folder."""
    [wheel], [sdist] = [*folder.glob("*.whl")], [*folder.glob("*.tar.gz")]
    names = zipfile.ZipFile(wheel).namelist()
    problems = problems_of(names)
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    problems += [
        f"{name} is missing in {sdist.name}" for name in ("README.md", "LICENSE") if name not in inside
    ]
    sys.stdout.write(
        "\n".join(problems) + "\n" if problems else f"{wheel.name}: {len(names)} files, as it should be\n"
    )
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
