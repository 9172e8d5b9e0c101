"""Benchmarks: Headway beside its peers, on the same charts, in the same run."""
