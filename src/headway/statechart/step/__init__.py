"""Decide one event: pure, total, deterministic."""
