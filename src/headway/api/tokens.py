"""Signed tokens (JWT): the caller that a token names, by the claims that an operator has mapped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, get_args

import jwt

from headway.api.access import Caller, Holder
from headway.api.jwks import Jwks, JwksError
from headway.api.keyring import OWN, SCOPES
from headway.api.problems import Problem
from headway.clock import milliseconds
from headway.codec import Value, encode, require_depth
from headway.errors import InputError
from headway.statechart.identity import require_id
from headway.statechart.people import AUDIENCE, is_person
from headway.statechart.snapshot import Actor, Kind, is_reserved

SAFE = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Only asymmetric signatures: with a shared secret, whoever can verify a token could also sign one."""
SMALLEST_RSA = 2048
MOST_ROLES = 100
NOT_OURS = frozenset({"crit", "b64", "zip", "enc"})
KINDS: tuple[Kind, ...] = get_args(Kind)


class Claims(Value):
    """The claims that name the caller: names, or dotted paths into nested claims.

    A fixed value stands in for a claim that an issuer does not give: `fixed_tenant` for an issuer of one
    tenant, `fixed_kind` for one whose actors are all of a kind. `grants` are the scopes that a value of
    the claim for scopes gives, beside the scopes' own names.
    """

    tenant: str = "tenant"
    actor: str = "sub"
    kind: str = ""
    roles: str = "roles"
    scopes: str = "scope"
    fixed_tenant: str = ""
    fixed_kind: Kind = "person"
    grants: Mapping[str, tuple[str, ...]] = {}


class Issuer(Value):
    """An accepted issuer: its tokens name it and the audience, and are signed by a key of its key set."""

    issuer: str
    audience: str
    jwks: str
    algorithms: tuple[str, ...] = ("RS256", "ES256", "EdDSA")
    leeway: str = "30s"
    allow_private: bool = False
    claims: Claims = Claims()


class Tokens:
    """Verifies the tokens of all accepted issuers."""

    def __init__(self, issuers: Iterable[Issuer], sets: Mapping[str, Jwks] | None = None) -> None:
        """`sets` are key sets by their source, in place of those read as usual. Raises InputError."""
        given = sets or {}
        self._verifiers: dict[str, TokenVerifier] = {}
        for issuer in issuers:
            if issuer.issuer in self._verifiers:
                raise InputError(f"the issuer {issuer.issuer} is named twice")
            own = given.get(issuer.jwks) or Jwks(issuer.jwks, allow_private=issuer.allow_private)
            self._verifiers[issuer.issuer] = TokenVerifier(issuer, own)

    @property
    def sources(self) -> Sequence[Jwks]:
        """The key sets of all issuers."""
        return [reader.keys for reader in self._verifiers.values()]

    async def holder(self, token: str, now: datetime) -> Holder | None:
        """The holder of a token; None if it is not valid, for any reason. Raises Problem 503."""
        try:
            claimed = jwt.decode(token, options={"verify_signature": False})
            require_depth(encode(claimed))
            verifier = self._verifiers.get(_text(claimed.get("iss")))
            return None if verifier is None else await verifier.holder(token, now)
        except JwksError as error:
            raise Problem(
                "unavailable", "tokens cannot be verified now", headers={"Retry-After": "30"}
            ) from error
        except (jwt.PyJWTError, InvalidError, InputError, ValueError, TypeError, RecursionError):
            return None


class InvalidError(Exception):
    """The token is not valid."""


class TokenVerifier:
    """Verifies the tokens of one issuer."""

    def __init__(self, issuer: Issuer, keys: Jwks) -> None:
        unsafe = {*issuer.algorithms} - {*SAFE}
        if unsafe or not issuer.algorithms:
            raise InputError(
                f"algorithms must be among {', '.join(SAFE)}; given: {', '.join(sorted(unsafe)) or 'none'}"
            )
        if not issuer.issuer or not issuer.audience:
            raise InputError("tokens need an issuer and an audience")
        if issuer.claims.fixed_kind == "system":
            raise InputError("fixed_kind is person, agent or service: system is reserved for the engine")
        self._issuer, self.keys = issuer, keys
        self._leeway = milliseconds(issuer.leeway) / 1_000

    async def holder(self, token: str, now: datetime) -> Holder:
        """The holder of a token; raises InvalidError, PyJWTError, JwksError, and errors of wrong types."""
        header = jwt.get_unverified_header(token)
        algorithm = _text(header.get("alg"))
        if algorithm not in self._issuer.algorithms or NOT_OURS & {*header}:
            raise InvalidError
        key = await self._key(header.get("kid"), algorithm)
        claims = jwt.decode(
            token,
            key.key,
            algorithms=[algorithm],
            audience=self._issuer.audience,
            issuer=self._issuer.issuer,
            options={
                "require": ["exp", "iss", "aud"],
                "verify_exp": False,  # times are checked by the store's clock, see below
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
        seconds = self._lasts(claims, now.timestamp())
        return Holder(self._caller(claims), seconds)

    async def _key(self, kid: object, algorithm: str) -> jwt.PyJWK:
        """The key that a token names; for an unknown one the key set is read again."""
        for unknown in (False, True):
            fitting = [each for each in await self.keys.keys(unknown=unknown) if _fits(each, kid, algorithm)]
            if fitting and (kid is not None or len(fitting) == 1):
                return _loaded(fitting[0], algorithm)
        raise InvalidError

    def _lasts(self, claims: Mapping[str, Any], now: float) -> float:
        """The seconds until a token expires; raises InvalidError if it has expired, or is not valid yet."""
        expires = _number(claims["exp"]) + self._leeway
        begins = max((_number(claims[name]) for name in ("nbf", "iat") if name in claims), default=now)
        if expires <= now or begins - self._leeway > now:
            raise InvalidError
        return expires - now

    def _caller(self, claims: Mapping[str, Any]) -> Caller:
        named = self._issuer.claims
        tenant = named.fixed_tenant or _name(_claim(claims, named.tenant))
        kind = _claim(claims, named.kind) if named.kind else named.fixed_kind
        if kind not in KINDS:
            raise InvalidError
        scopes = self._scopes(_words(_claim(claims, named.scopes)))
        own = OWN in scopes  # it restricts all other scopes of the token
        roles = frozenset(_words(_claim(claims, named.roles)))
        actor = Actor(_name(_claim(claims, named.actor)), kind, roles, own)
        if is_reserved(actor) or any(is_person(role) or role.startswith(AUDIENCE) for role in roles):
            raise InvalidError
        who = sha256(f"{self._issuer.issuer}\n{tenant}\n{actor.id}".encode()).hexdigest()[:16]
        return Caller(tenant, actor, frozenset({OWN}) if own else scopes, f"token:{who}")

    def _scopes(self, words: Iterable[str]) -> frozenset[str]:
        grants = self._issuer.claims.grants
        return frozenset(scope for word in words for scope in grants.get(word, (word,)) if scope in SCOPES)


def _fits(key: Mapping[str, Any], kid: object, algorithm: str) -> bool:
    return (
        (kid is None or key.get("kid") == kid)
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
    )


def _loaded(key: Mapping[str, Any], algorithm: str) -> jwt.PyJWK:
    loaded = jwt.PyJWK(dict(key), algorithm)
    if getattr(loaded.key, "key_size", SMALLEST_RSA) < SMALLEST_RSA and key.get("kty") == "RSA":
        raise InvalidError
    return loaded


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """The claim with a name, or at the end of a path; None if there is none."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _name(value: object) -> str:
    try:
        require_id("a name", value)
    except InputError as error:
        raise InvalidError from error
    return str(value)


def _words(value: object) -> Sequence[str]:
    """A list of words, or words with blanks between them, as OAuth writes scopes."""
    words = value.split() if isinstance(value, str) else value or ()
    if not isinstance(words, (list, tuple)) or len(words) > MOST_ROLES:
        raise InvalidError
    return [_name(word) for word in words]


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InvalidError
    return float(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
