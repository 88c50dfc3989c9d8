"""The floor of the proxy: uvicorn and the aiohttp client, passing bytes through and nothing else.

The same two libraries as our proxy with the same settings, so that a ratio to it is the price of
recording. Run as a process, `python -m openmem.bench.passthrough UPSTREAM_PORT`; it prints its port
and ends when its standard input closes.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import aiohttp
import uvicorn

_HOP_BY_HOP = {
    b"connection",
    b"content-length",
    b"host",
    b"keep-alive",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
_AUTOMATIC = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class _App:
    """A bare ASGI application before one upstream."""

    def __init__(self, upstream: str, client: aiohttp.ClientSession) -> None:
        self._upstream = upstream
        self._client = client

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        parts = []
        while True:
            message = await receive()
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        query = scope["query_string"].decode()
        url = f"{self._upstream}{scope['path']}{'?' + query if query else ''}"
        headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in scope["headers"]
            if name not in _HOP_BY_HOP
        ]
        async with self._client.request(
            scope["method"], url, data=b"".join(parts), headers=headers
        ) as answer:
            kept = [
                (name, value)
                for name, value in answer.raw_headers
                if name.lower() not in (b"connection", b"keep-alive", b"transfer-encoding")
            ]
            await send({"type": "http.response.start", "status": answer.status, "headers": kept})
            async for chunk in answer.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


async def _serve(upstream_port: int) -> None:
    # asyncio turns Nagle's algorithm off only where the socket names TCP itself; a listener of
    # `socket.create_server` does not, and every answer then waits 40 ms for an acknowledgement.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(256)
    client = aiohttp.ClientSession(
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None),
        connector=aiohttp.TCPConnector(limit=0),
        skip_auto_headers=_AUTOMATIC,
    )
    async with client:
        app = _App(f"http://127.0.0.1:{upstream_port}", client)
        config = uvicorn.Config(
            app, lifespan="off", log_level="error", access_log=False, server_header=False
        )
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        server.should_exit = True
        await running


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
