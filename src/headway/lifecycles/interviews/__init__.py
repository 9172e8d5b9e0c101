"""Interviews: the request, the plan, the live session and the approved assessment."""

from headway.lifecycles.interviews.chart import Interview

__all__ = ["Interview"]
