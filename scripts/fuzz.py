"""Run the tests that search at random, round after round, each with another seed, until one fails."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from random import SystemRandom

LARGEST_SEED = 2**31
SEARCHES = "hypothesis or fuzz"
"""The tests that search: those of Hypothesis have its marker, the others have their own."""


def main() -> int:
    """Answers with the exit code of the first round that fails, or 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="start no round after so many minutes")
    parser.add_argument("--seed", type=int, help="run the one round that has this seed")
    parser.add_argument("tests", nargs="*", default=["tests"], help="where to look for tests")
    options = parser.parse_args()
    until = time.monotonic() + options.minutes * 60
    rounds = 0
    while not rounds or (options.seed is None and time.monotonic() < until):
        seed = SystemRandom().randrange(LARGEST_SEED) if options.seed is None else options.seed
        rounds += 1
        say(f"round {rounds}, seed {seed}")
        code = _round(seed, options.tests)
        if code:
            say(f"Found with seed {seed}. To repeat it: make fuzz SEED={seed}")
            return code
    say(f"{rounds} rounds, nothing found")
    return 0


def say(line: str) -> None:
    """Write a line at once: a round takes minutes."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _round(seed: int, tests: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-n", "2", "-x", "-m", SEARCHES]
    command += [f"--hypothesis-seed={seed}", "-p", "no:cacheprovider", *tests]
    # S603: the command is made of this file's own words and the paths of its caller.
    return subprocess.run(command, env={**os.environ, "HEADWAY_FUZZ": str(seed)}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
