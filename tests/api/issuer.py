"""An issuer of tokens for tests: a key set at a real address, and tokens of every kind."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

NAME = "https://issuer.example"
AUDIENCE = "headway"


class Pair:
    """A private key, and its public half as it stands in a key set."""

    def __init__(self, kid: str, algorithm: str, private: Any) -> None:
        self.kid, self.algorithm, self.private = kid, algorithm, private
        kind = jwt.get_algorithm_by_name(algorithm)
        public = kind.to_jwk(private.public_key(), as_dict=True)
        self.public = {**public, "kid": kid, "use": "sig"}


def rsa_pair(kid: str = "one", bits: int = 2048) -> Pair:
    """A key for RS256."""
    return Pair(kid, "RS256", rsa.generate_private_key(65_537, bits))


def ec_pair(kid: str = "curve") -> Pair:
    """A key for ES256."""
    return Pair(kid, "ES256", ec.generate_private_key(ec.SECP256R1()))


def ed_pair(kid: str = "ed") -> Pair:
    """A key for EdDSA."""
    return Pair(kid, "EdDSA", ed25519.Ed25519PrivateKey.generate())


class Issuer:
    """Serves a key set, and signs tokens; `asked` counts how often the set was fetched."""

    def __init__(self, *pairs: Pair) -> None:
        self.pairs = [*pairs]
        self.asked = 0
        self.answer: tuple[int, bytes] | None = None
        self.url = ""

    @property
    def body(self) -> bytes:
        """The key set."""
        return json.dumps({"keys": [pair.public for pair in self.pairs]}).encode()

    def token(
        self, now: float, pair: Pair | None = None, header: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """A token that is good, but for what is said; a claim that is None is left out."""
        own = pair or self.pairs[0]
        good = {
            "iss": NAME,
            "aud": AUDIENCE,
            "sub": "ann",
            "iat": int(now),
            "exp": int(now) + 300,
            "tenant": "acme",
            "roles": ["manager"],
            "scope": "read send",
        }
        told = {name: value for name, value in {**good, **claims}.items() if value is not None}
        return jwt.encode(told, own.private, own.algorithm, {"kid": own.kid, **(header or {})})

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve the key set on a free port of the loopback address."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}/jwks.json"
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                status, body = issuer.answer or (200, issuer.body)
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
