"""Tokens of an issuer: who they are for, and every way in which one can be false."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from headway.api.access import LONGEST_CREDENTIAL, Access
from headway.api.jwks import FRESH_FOR, PAUSE, Jwks, JwksError
from headway.api.problems import Problem
from headway.api.tokens import Claims, Issuer, Tokens
from headway.errors import InputError
from headway.store.sqlite.store import SqliteStore
from headway.testing import FakeClock
from tests.api.issuer import AUDIENCE, NAME, Pair, ec_pair, ed_pair, rsa_pair
from tests.api.issuer import Issuer as LocalIssuer
from tests.api.serving import client_of, serving

pytestmark = pytest.mark.mission("ENG-14")

PAIR, OTHER, CURVE, ED = rsa_pair(), rsa_pair("other"), ec_pair(), ed_pair()
ORGANISATION: dict[str, Any] = {"https://issuer.example/org": "acme"}
Forge = Callable[[LocalIssuer, float], str]


class World:
    """An issuer, the store's clock, and who is let in."""

    def __init__(self, issuer: LocalIssuer, store: SqliteStore, clock: FakeClock) -> None:
        self.issuer, self.store, self.clock = issuer, store, clock
        self.jwks = Jwks(issuer.url, allow_private=True, monotonic=self.seconds)
        self.access = self.door()

    def seconds(self) -> float:
        """The clock as seconds."""
        return self.clock.now().timestamp()

    def door(self, claims: Claims | None = None, **terms: Any) -> Access:
        """Access by tokens of the issuer."""
        own = Issuer(NAME, AUDIENCE, self.issuer.url, claims=claims or Claims(), allow_private=True, **terms)
        tokens = Tokens([own], {self.issuer.url: self.jwks})
        return Access(self.store, tokens=tokens, monotonic=self.seconds)

    def token(self, pair: Pair | None = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token that is good now, but for what is said."""
        return self.issuer.token(self.seconds(), pair, header, **claims)

    async def refused(self, token: str, access: Access | None = None) -> int:
        """With which status a token is refused."""
        with pytest.raises(Problem) as problem:
            await (access or self.access).caller(f"Bearer {token}")
        return problem.value.status


@pytest.fixture
def world(runner: asyncio.Runner) -> Iterator[World]:
    """A running issuer with keys of three kinds."""
    issuer, clock = LocalIssuer(PAIR, CURVE, ED), FakeClock()
    store = SqliteStore(":memory:", clock)
    runner.run(store.open())
    with issuer.serving():
        yield World(issuer, store, clock)
    runner.run(store.close())


@pytest.mark.parametrize("pair", [PAIR, CURVE, ED], ids=["RS256", "ES256", "EdDSA"])
async def test_a_token_says_who_calls(world: World, pair: Pair) -> None:
    """Tenant, actor, roles and scopes come from its claims; the key set is fetched once."""
    for _ in range(3):
        caller = await world.access.caller(f"Bearer {world.token(pair)}")
        assert (caller.tenant, caller.actor.id, caller.actor.kind) == ("acme", "ann", "person")
        assert (caller.actor.roles, caller.scopes) == (frozenset({"manager"}), frozenset({"read", "send"}))
    assert world.issuer.asked == 1


def unsigned(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    """A token of any parts."""
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def claims_of(token: str) -> dict[str, Any]:
    """What a token claims."""
    claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return claims


def signed_by_public_key(issuer: LocalIssuer, now: float) -> str:
    """The old trick: the public key as the secret of HS256."""
    pem = PAIR.private.public_key().public_bytes(*_pem())
    token = unsigned({"alg": "HS256", "kid": PAIR.kid, "typ": "JWT"}, claims_of(issuer.token(now)))
    body = token.rpartition(".")[0]
    signature = hmac.new(pem, body.encode(), hashlib.sha256).digest()
    return f"{body}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def _pem() -> Any:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415 - only here

    return Encoding.PEM, PublicFormat.SubjectPublicKeyInfo


def tampered(issuer: LocalIssuer, now: float) -> str:
    """Good claims replaced by better ones, with the signature left as it was."""
    header, _, signature = issuer.token(now).split(".")
    claims = {**claims_of(issuer.token(now)), "scope": "admin"}
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"{header}.{body}.{signature}"


FORGED: dict[str, Forge] = {
    "alg none": lambda own, now: unsigned({"alg": "none", "kid": "one"}, claims_of(own.token(now))),
    "alg None": lambda own, now: unsigned({"alg": "None", "kid": "one"}, claims_of(own.token(now))),
    "alg list": lambda own, now: unsigned({"alg": ["RS256"], "kid": "one"}, claims_of(own.token(now))),
    "no alg": lambda own, now: unsigned({"kid": "one"}, claims_of(own.token(now))),
    "public key as secret": signed_by_public_key,
    "tampered": tampered,
    "another's key, own kid": lambda own, now: own.token(now, Pair("one", "RS256", OTHER.private)),
    "unknown kid": lambda own, now: own.token(now, OTHER),
    "kid of another kind": lambda own, now: own.token(now, Pair("curve", "RS256", PAIR.private)),
    "kid is a path": lambda own, now: own.token(now, header={"kid": "../../etc/passwd"}),
    "own key inside": lambda own, now: own.token(
        now, Pair("x", "RS256", OTHER.private), {"jwk": OTHER.public, "jku": "http://127.0.0.1/"}
    ),
    "crit": lambda own, now: own.token(now, header={"crit": ["b64"], "b64": False}),
    "expired": lambda own, now: own.token(now, exp=int(now) - 31),
    "no expiry": lambda own, now: own.token(now, exp=None),
    "expiry is text": lambda own, now: unsigned(
        {"alg": "RS256", "kid": "one"}, {**claims_of(own.token(now)), "exp": "never"}
    ),
    "expiry is infinite": lambda own, now: own.token(now, exp=float("inf")),
    "not yet": lambda own, now: own.token(now, nbf=int(now) + 31),
    "from the future": lambda own, now: own.token(now, iat=int(now) + 31),
    "other audience": lambda own, now: own.token(now, aud="another service"),
    "no audience": lambda own, now: own.token(now, aud=None),
    "other issuer": lambda own, now: own.token(now, iss="https://evil.example"),
    "no issuer": lambda own, now: own.token(now, iss=None),
    "issuer is a list": lambda _own, _now: unsigned({"alg": "RS256"}, {"iss": [NAME]}),
    "no tenant": lambda own, now: own.token(now, tenant=None),
    "tenant is a list": lambda own, now: own.token(now, tenant=["acme", "other"]),
    "empty tenant": lambda own, now: own.token(now, tenant=""),
    "tenant with NUL": lambda own, now: own.token(now, tenant="acme\x00"),
    "tenant with a space behind it": lambda own, now: own.token(now, tenant="acme "),
    "subject with a space behind it": lambda own, now: own.token(now, sub="ann "),
    "subject with a line break": lambda own, now: own.token(now, sub="ann\n"),
    "subject with a zero-width space": lambda own, now: own.token(now, sub="a\u200bnn"),
    "subject in another Unicode form": lambda own, now: own.token(now, sub="\uff41nn"),
    "role with a space before it": lambda own, now: own.token(now, roles=[" manager"]),
    "no subject": lambda own, now: own.token(now, sub=None),
    "roles are a number": lambda own, now: own.token(now, roles=7),
    "roles hold a list": lambda own, now: own.token(now, roles=[["admin"]]),
    "too many roles": lambda own, now: own.token(now, roles=["r"] * 101),
    "the engine's subject": lambda own, now: own.token(now, sub="system"),
    "an instance's subject": lambda own, now: own.token(now, sub="instance:e1"),
    "nonsense": lambda _own, _now: "a.b.c",
    "two parts": lambda own, now: own.token(now).rpartition(".")[0],
    "four parts": lambda own, now: own.token(now) + ".x",
    "deep": lambda _own, _now: base64.urlsafe_b64encode(b"[" * 4_000).decode() + ".e30.x",
    "deep claim": lambda own, now: own.token(now, roles=json.loads("[" * 101 + "]" * 101), scope="read"),
    "deep claim that nobody reads": lambda own, now: own.token(now, x=json.loads("[" * 101 + "]" * 101)),
    "huge": lambda own, now: own.token(now, roles=["r" * LONGEST_CREDENTIAL]),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
async def test_a_false_token_is_refused(world: World, forge: Forge) -> None:
    """With the one answer that all wrong credentials get, and a good one is still good after it."""
    assert await world.refused(forge(world.issuer, world.seconds())) == 401
    assert (await world.access.caller(f"Bearer {world.token()}")).actor.id == "ann"


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
async def test_a_weak_key_is_not_believed(world: World) -> None:
    """A set may hold keys that nobody should use: short ones, secret ones, those for other uses."""
    weak = rsa_pair("weak", 1024)
    world.issuer.pairs = [weak]
    assert await world.refused(world.issuer.token(world.seconds(), weak)) == 401
    for wrong in ({"use": "enc"}, {"alg": "RS512"}, {"kty": "oct", "k": "c2VjcmV0"}):
        pair = rsa_pair("strange")
        pair.public = {**pair.public, **wrong}
        world.issuer.pairs = [pair]
        world.clock.advance(PAUSE)
        assert await world.refused(world.token(pair)) == 401


async def test_clocks_may_differ_by_the_leeway(world: World) -> None:
    """Half a minute late or early is on time; the token is not kept longer than it is good."""
    late = world.token(exp=int(world.seconds()) - 29)
    await world.access.caller(f"Bearer {late}")
    await world.access.caller(f"Bearer {world.token(nbf=int(world.seconds()) + 29)}")
    world.clock.advance("1s")
    assert await world.refused(late) == 401


async def test_a_tenant_is_the_tokens_own(world: World) -> None:
    """What one tenant's token may see is what its claim says, whatever else is asked for."""
    for tenant in ("acme", "other"):
        caller = await world.access.caller(f"Bearer {world.token(tenant=tenant)}")
        assert caller.tenant == tenant
    fixed = world.door(Claims(fixed_tenant="theirs"))
    assert (await fixed.caller(f"Bearer {world.token(tenant='acme')}")).tenant == "theirs"


async def test_claims_are_mapped_as_the_operator_says(world: World) -> None:
    """Names, paths into claims, kinds, and grants of scopes by what an issuer calls them."""
    claims = Claims(
        tenant="https://issuer.example/org",
        actor="email",
        kind="typ.kind",
        roles="realm_access.roles",
        scopes="groups",
        grants={"ops": ("read", "operate"), "boss": ("admin",), "read": ()},
    )
    token = world.token(
        **ORGANISATION,
        email="ann@example.com",
        typ={"kind": "agent"},
        realm_access={"roles": ["manager", "auditor"]},
        groups=["ops", "read", "unknown"],
    )
    caller = await world.door(claims).caller(f"Bearer {token}")
    assert (caller.tenant, caller.actor.id, caller.actor.kind) == ("acme", "ann@example.com", "agent")
    assert caller.actor.roles == frozenset({"manager", "auditor"})
    assert caller.scopes == frozenset({"read", "operate"})
    unknown = world.token(**ORGANISATION, email="a", typ={"kind": "god"}, groups=[])
    assert await world.refused(unknown, world.door(claims)) == 401


async def test_scopes_that_nobody_grants_are_none(world: World) -> None:
    """A token without scopes is somebody, who may do nothing."""
    caller = await world.access.caller(f"Bearer {world.token(scope='openid email')}")
    assert caller.scopes == frozenset()
    assert not caller.may("read")


async def test_a_new_key_of_the_issuer_is_found(world: World) -> None:
    """An unknown key makes the set be fetched, but not more than twice a minute, whoever asks."""
    await world.access.caller(f"Bearer {world.token()}")
    world.issuer.pairs.append(OTHER)
    world.clock.advance(PAUSE)
    await world.access.caller(f"Bearer {world.token(OTHER)}")
    assert world.issuer.asked == 2
    forged = [world.refused(world.token(OTHER, {"kid": f"k{number}"})) for number in range(20)]
    assert set(await asyncio.gather(*forged)) == {401}
    assert world.issuer.asked == 2


async def test_a_key_that_the_issuer_has_dropped_is_refused(world: World) -> None:
    """Within ten minutes, when the set is fetched anew."""
    world.issuer.pairs = [OTHER, PAIR]
    await world.access.caller(f"Bearer {world.token(PAIR)}")
    world.issuer.pairs = [OTHER]
    world.clock.advance(FRESH_FOR)
    assert await world.refused(world.token(PAIR)) == 401


@pytest.mark.parametrize(
    "answer",
    [
        (500, b""),
        (302, b""),
        (200, b"<html>"),
        (200, b'{"keys": 7}'),
        (200, b'{"keys": []}' + b" " * 300_000),
    ],
    ids=["error", "redirect", "not JSON", "no list", "huge"],
)
async def test_a_source_that_fails_leaves_what_is_known(world: World, answer: tuple[int, bytes]) -> None:
    """Known keys stay good while their source is out of order; without any, the service says so."""
    world.issuer.answer = answer
    assert await world.refused(world.token()) == 503
    world.issuer.answer = None
    world.clock.advance(PAUSE)
    await world.access.caller(f"Bearer {world.token()}")
    world.issuer.answer = answer
    world.clock.advance(FRESH_FOR)
    assert (await world.access.caller(f"Bearer {world.token()}")).actor.id == "ann"


async def test_a_key_set_may_stand_in_a_file(world: World, tmp_path: Path) -> None:
    """A file is as good as an address, and is read again when a key is unknown."""
    file = tmp_path / "jwks.json"
    file.write_bytes(world.issuer.body)
    tokens = Tokens(
        [Issuer(NAME, AUDIENCE, str(file))], {str(file): Jwks(str(file), monotonic=world.seconds)}
    )
    access = Access(world.store, tokens=tokens, monotonic=world.seconds)
    assert (await access.caller(f"Bearer {world.token()}")).actor.id == "ann"
    world.issuer.pairs.append(OTHER)
    file.write_bytes(world.issuer.body)
    world.clock.advance(PAUSE)
    assert (await access.caller(f"Bearer {world.token(OTHER)}")).actor.id == "ann"


@pytest.mark.parametrize(
    "wrong",
    [
        {"algorithms": ("none",)},
        {"algorithms": ("HS256",)},
        {"algorithms": ("RS256", "HS512")},
        {"algorithms": ()},
        {"issuer": ""},
        {"audience": ""},
        {"jwks": "http://issuer.example/jwks"},
        {"jwks": "https://127.0.0.1/jwks"},
        {"jwks": "https://user:secret@issuer.example/jwks"},
        {"jwks": "ftp://issuer.example/jwks"},
    ],
    ids=str,
)
def test_terms_that_would_let_anybody_in_are_refused(wrong: dict[str, Any]) -> None:
    """Algorithms that verify without a private key, and sources that anybody could be."""
    terms = {"issuer": NAME, "audience": AUDIENCE, "jwks": "https://issuer.example/jwks", **wrong}
    with pytest.raises(InputError):
        Tokens([Issuer(**terms)])


async def test_a_name_that_leads_inside_is_not_followed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A public name with a private address is refused when it is looked up, unless the operator allows it."""

    async def inside(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    with pytest.raises(JwksError):
        await Jwks("https://issuer.example/jwks", look_up=inside).keys()
    assert world.issuer.asked == 0
    assert "a private one, which is not allowed" in caplog.text


async def test_a_token_opens_the_service(database: str) -> None:
    """Over the real server: its tenant's own with its scopes, and nothing with a forged one."""
    issuer = LocalIssuer(CURVE)
    with issuer.serving():
        tokens = Tokens([Issuer(NAME, AUDIENCE, issuer.url, allow_private=True)])
        async with serving(database, tokens=tokens) as service:
            now = (await service.node.engine.store.now()).timestamp()
            async with client_of(service.url, issuer.token(now, tenant="acme")) as client:
                made = await client.post("/v1/instances", json={"chart": "Counter", "id": "one"})
                assert made.status_code == 201
                assert (await client.get("/v1/keys")).status_code == 403
            [line] = await service.node.tenant("acme").history("one")
            assert line.actor == "ann"
            async with client_of(service.url, issuer.token(now, tenant="other")) as client:
                assert (await client.get("/v1/instances/one")).status_code == 404
            async with client_of(service.url, tampered(issuer, now)) as client:
                answer = await client.get("/v1/charts")
                assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
