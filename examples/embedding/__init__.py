"""Headway inside an application of another framework."""
