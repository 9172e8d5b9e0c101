"""Bounded exhaustive exploration of a chart."""
