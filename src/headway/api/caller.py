"""Who calls: one tenant, one actor with roles for the charts, and scopes for the routes."""

from __future__ import annotations

from typing import Literal, get_args

from headway.codec import Value
from headway.statechart.snapshot import Actor

Scope = Literal["read", "send", "work", "operate", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
ADMIN: Scope = "admin"


class Caller(Value):
    """What a valid credential says. `credential` names it in logs and limits, and gives nothing away."""

    tenant: str
    actor: Actor
    scopes: frozenset[str]
    credential: str

    def may(self, scope: str) -> bool:
        """Whether a scope is among the caller's; `admin` implies all."""
        return scope in self.scopes or ADMIN in self.scopes
