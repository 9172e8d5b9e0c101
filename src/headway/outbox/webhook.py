"""Webhooks over HTTP, signed as Standard Webhooks describes, to checked addresses only."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from urllib.parse import quote

try:
    import httpx
except ModuleNotFoundError as error:
    raise ModuleNotFoundError('webhooks need httpx: pip install "headway[webhooks]"') from error

from headway.clock import SystemClock, milliseconds
from headway.codec import encode, verbatim
from headway.engine.orders import CURRENT
from headway.errors import BusyError, DeliveryError, PermanentError
from headway.outbox.addresses import Resolve, is_public, resolve
from headway.outbox.destination import DeliveryPolicy
from headway.outbox.endpoint import Endpoint, signature_headers
from headway.outbox.message import Message

AT_ONCE = 32
CONNECT_SECONDS = 5.0
COMMENT_SECONDS = 1.0
LONGEST_COMMENT = 4_096
SHOWN_COMMENT = 200
MOST_ADDRESSES = 4
GONE = 410
BUSY = frozenset({429, 503})
NOT_REACHED = (httpx.ConnectError, httpx.ConnectTimeout)


class Webhook:
    """Posts each message to an endpoint.

    The host name is looked up before each delivery and refused if any of its addresses is private; the
    connection goes to the very address that was checked. No redirects, proxies or cookies are used, and at
    most a few kilobytes of an answer are read.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        look_up: Resolve = resolve,
        tls: ssl.SSLContext | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = f"webhook:{quote(endpoint.tenant)}:{endpoint.id}"
        self.filter = endpoint.filter
        self.policy = DeliveryPolicy("now", AT_ONCE, endpoint.backoff, timeout=None)
        self.endpoint = endpoint
        self._monotonic = monotonic
        self._known: tuple[datetime, float] | None = None
        self._look_up = look_up
        self._tls = tls
        self._transport: httpx.AsyncHTTPTransport | None = None

    def keep_time(self, now: datetime) -> None:
        """Set the current time, by the clock on which all nodes agree."""
        self._known = (now, self._monotonic())

    def _now(self) -> datetime:
        """The time that was set plus what has passed since; else this machine's time."""
        if self._known is None:
            return SystemClock().now()
        time, since = self._known
        return time + timedelta(seconds=self._monotonic() - since)

    async def deliver(self, message: Message) -> None:
        """Post a message; raises DeliveryError, BusyError or PermanentError if it is not accepted."""
        host, seconds = self.endpoint.address.host, milliseconds(self.endpoint.timeout) / 1_000
        transport = self._opened()
        try:
            async with asyncio.timeout(seconds):
                response = await self._post(transport, message)
        except TimeoutError:
            raise DeliveryError(f"{host} has not answered within {seconds:g} s") from None
        except (httpx.HTTPError, OSError) as error:
            raise DeliveryError(f"{host}: {type(error).__name__}: {error}") from None
        try:
            comment = await _comment(response)
        finally:
            await response.aclose()
        self._judge(response, comment)

    async def close(self) -> None:
        """Close the connections."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()

    def _opened(self) -> httpx.AsyncHTTPTransport:
        """The connections, which several deliveries share."""
        if self._transport is None:
            self._transport = httpx.AsyncHTTPTransport(
                verify=self._tls or trusted(),
                trust_env=False,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=AT_ONCE),
            )
        return self._transport

    async def _post(self, transport: httpx.AsyncHTTPTransport, message: Message) -> httpx.Response:
        body = body_of(message)
        headers = {
            "user-agent": "headway",
            **self.endpoint.headers,
            "host": self.endpoint.address.authority,
            "content-type": "application/json",
            "content-length": str(len(body)),
            **signature_headers(self.endpoint.keys, message.id, self._now(), body),
        }
        if trace := CURRENT.get() or message.trace:
            headers["traceparent"] = trace
        failure: Exception = OSError("the host name has no address")
        for address in await self._addresses():
            try:
                return await transport.handle_async_request(self._request(address, headers, body))
            except NOT_REACHED as error:
                failure = error
        raise failure

    async def _addresses(self) -> Sequence[str]:
        """The addresses of the host, all of them checked."""
        place = self.endpoint.address
        addresses = await self._look_up(place.host, place.port)
        if not self.endpoint.allow_private:
            private = [address for address in addresses if not is_public(address)]
            if private:
                raise DeliveryError(f"{place.host} has a private address, which the endpoint does not allow")
        return addresses[:MOST_ADDRESSES]

    def _request(self, address: str, headers: dict[str, str], body: bytes) -> httpx.Request:
        """A request to an address; Host and certificate are those of the name."""
        place = self.endpoint.address
        shown = f"[{address}]" if ":" in address else address
        return httpx.Request(
            "POST",
            f"{place.scheme}://{shown}:{place.port}{place.target}",
            headers=headers,
            content=body,
            extensions={"sni_hostname": place.host.rstrip("."), "timeout": {"connect": CONNECT_SECONDS}},
        )

    def _judge(self, response: httpx.Response, comment: str) -> None:
        """Raise for every answer that is not a success."""
        if response.is_success:
            return
        status, host = response.status_code, self.endpoint.address.host
        said = f"{host} answered {status}" + (f": {comment}" if comment else "")
        if status == GONE:
            raise PermanentError(said)
        if status in BUSY:
            raise BusyError(said, after=_seconds(response.headers.get("retry-after"), self._now()))
        raise DeliveryError(said)


@cache
def trusted() -> ssl.SSLContext:
    """The trusted certificate authorities, read once for all endpoints."""
    return httpx.create_ssl_context()


def body_of(message: Message) -> bytes:
    """The body: the same bytes at every attempt."""
    return encode(
        {
            "type": message.name,
            "timestamp": message.at,
            "data": verbatim(message.text),
            "instance": message.instance,
            "tenant": message.tenant,
        }
    )


async def _comment(response: httpx.Response) -> str:
    """The beginning of an answer: for people, and so that the connection can be reused.

    A slow answer is not waited for: its status is known.
    """
    read = b""
    with suppress(TimeoutError, httpx.HTTPError, OSError):
        async with asyncio.timeout(COMMENT_SECONDS):
            async for part in response.aiter_raw():
                read += part[:LONGEST_COMMENT]
                if len(read) >= LONGEST_COMMENT:
                    break
    return read[:SHOWN_COMMENT].decode(errors="replace")


def _seconds(retry_after: str | None, now: datetime) -> float:
    """The pause that a receiver asks for with Retry-After, in seconds; it may be a date."""
    if retry_after is None:
        return 0
    if retry_after.isdecimal() and len(retry_after) <= 9:  # noqa: PLR2004 - more digits are no waiting time
        return float(retry_after)
    try:
        return max(0.0, (parsedate_to_datetime(retry_after) - now).total_seconds())
    except (ValueError, TypeError):
        return 0
