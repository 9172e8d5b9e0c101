"""Supervised workers, and the jobs they work for."""
