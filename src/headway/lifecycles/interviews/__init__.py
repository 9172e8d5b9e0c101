"""Interviews: from a request over the plan and the live session to the approved assessment."""
