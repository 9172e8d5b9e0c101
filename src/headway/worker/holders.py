"""The names under which workers hold their leases: no two workers have the same."""

from __future__ import annotations


def escaped(name: str) -> str:
    """A name without a slash, from which no other name is made."""
    return name.replace("%", "%25").replace("/", "%2F")


def remote_holder(actor: str, worker: str) -> str:
    """The name of a remote worker: an actor and the name that the worker gives itself, as `actor/worker`."""
    return f"{escaped(actor)}/{escaped(worker)}"
