"""`python -m bench.peers NAME COUNT PLACE`: let a peer drain jobs that do nothing, and tell how long."""

import json
import logging
import sys
from importlib import import_module

if __name__ == "__main__":
    name, count, place = sys.argv[1:]
    # A peer writes several lines for each job when it is let; what is measured is not its logging.
    logging.disable(logging.WARNING)
    seconds = import_module(f"bench.peers.{name}_drain").drain(int(count), place)
    print(json.dumps({"seconds": seconds}))
