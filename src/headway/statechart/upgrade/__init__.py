"""Move an instance from one version of its chart to another."""
