"""Real crashes: processes under load on one database, killed, frozen and starved, and then audited.

`python -m chaos` is the long run, `tests/chaos` the short one.
"""
