"""Workflow runs, their task runs and the processes of these; every status is computed from timestamps."""
