"""Stands in for `openmem/host/wiring.py` in a copied installation: a small application.

`/who` answers with process id, mode and version; `/stream?n=5&ms=20` sends n lines; `/die` ends
the process in the middle of an answer; `/hang` blocks the event loop for ever.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from urllib.parse import parse_qs

from openmem import __version__
from openmem.base.paths import Paths
from openmem.host.front import Hosted, Receive, Scope, Send


def hosted(
    paths: Paths, environ: dict[str, str], *, is_recording: bool, bare_upstream: str
) -> Hosted:
    """Return the small application."""
    fault = f"{paths.state_dir}/fault"
    if os.path.exists(fault) and is_recording:
        os._exit(7)
    who = {"pid": os.getpid(), "recording": is_recording, "version": __version__}
    who["upstream"] = bare_upstream
    who["environ"] = dict(environ)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        query = {k: int(v[0]) for k, v in parse_qs(scope["query_string"].decode()).items()}
        path = scope["path"]
        if path == "/die":
            await _start(send)
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
            os._exit(9)
        if path == "/hang":
            time.sleep(600)
        if path == "/fail":
            raise ValueError("a secret of the request")
        if path == "/stream":
            await _start(send)
            for index in range(query["n"]):
                body = f"{index}\n".encode()
                await send({"type": "http.response.body", "body": body, "more_body": True})
                await asyncio.sleep(query["ms"] / 1000)
            await send({"type": "http.response.body", "body": f"end {os.getpid()}\n".encode()})
            return
        await _start(send)
        await send({"type": "http.response.body", "body": json.dumps(who).encode()})

    return Hosted(application=application, upstream={"claude-code": "http://127.0.0.1:1"})


async def _start(send: Send) -> None:
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
