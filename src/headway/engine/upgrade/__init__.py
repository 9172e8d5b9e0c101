"""Rehearse, apply and undo upgrades of living instances."""
