"""`python -m bench.task_runs NAME COUNT PLACE`: let a peer fan out to tasks that do nothing."""

import json
import logging
import sys
from importlib import import_module

if __name__ == "__main__":
    name, count, place = sys.argv[1:]
    # What is measured is not how much a peer writes about each job.
    logging.disable(logging.WARNING)
    seconds = import_module(f"bench.task_runs.{name}_fanout").fan_out(int(count), place)
    print(json.dumps({"seconds": seconds}))
