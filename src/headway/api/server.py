"""Runs the service on a socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import uvicorn

from headway.api.connections import HttpConnection, ServerConnections, WebSocketConnection
from headway.api.direct import DirectConnection
from headway.api.route import Front

DRAIN_SECONDS = 0.2
"""How long answers say `Connection: close` before the port closes, so that no request is lost."""
MOMENT = 0.02
"""In which those who have left are seen to be gone: when nobody is there, nobody is waited for."""


@asynccontextmanager
async def serving(app: Front, listening: socket.socket, *, patience: float = 30.0) -> AsyncIterator[None]:
    """Serve on a socket for the length of a block; at its end finish what is under way, if patience lasts."""
    keeper = ServerConnections(app.limits, asyncio.get_running_loop().time)
    connection = type("Served", (DirectConnection,), {"keeper": keeper, "front": app})
    server = uvicorn.Server(
        _config(app, connection, type("ServedSocket", (WebSocketConnection,), {"keeper": keeper}), patience)
    )
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup(sockets=[listening])
    running = [asyncio.create_task(server.main_loop()), asyncio.create_task(keeper.keep_sweeping())]
    try:
        yield
    finally:
        app.stop()
        keeper.draining = True
        await asyncio.sleep(MOMENT)
        is_quiet = keeper.all_gone.is_set()
        if not is_quiet:
            await asyncio.sleep(DRAIN_SECONDS)
        await _let_in_the_last(server, listening)
        if not is_quiet or not keeper.all_gone.is_set():
            await asyncio.sleep(DRAIN_SECONDS)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await server.shutdown(sockets=[listening])


async def _let_in_the_last(server: uvicorn.Server, listening: socket.socket) -> None:
    """Close a listening socket after accepting its pending connections, which would otherwise be reset."""
    door = listening.dup()
    for each in server.servers:
        each.close()
    knocked = []
    with door, suppress(BlockingIOError):
        door.setblocking(False)  # noqa: FBT003 - its only parameter
        while True:
            knocked.append(door.accept()[0])
    loop, config = asyncio.get_running_loop(), server.config
    for connection in knocked:
        await loop.connect_accepted_socket(
            lambda: config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=server.server_state, app_state=server.lifespan.state
            ),
            connection,
        )


def _config(
    app: Front, connection: type[HttpConnection], websocket: type[WebSocketConnection], patience: float
) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=connection,
        ws=websocket,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=round(app.limits.keep_alive_seconds),
        timeout_graceful_shutdown=round(patience),
        ws_max_size=app.limits.body,
        ws_per_message_deflate=False,  # it would compress each event again for each reader
    )
