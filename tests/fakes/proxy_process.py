"""Our proxy as a process of its own, to be killed: `python -m tests.fakes.proxy_process UPSTREAM`.

Prints its port and the recorder's process id; ends when its standard input closes. Without
`--record` it only passes through; with `--bare` it is the bench's floor instead.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import uvicorn

from openmem.base.paths import Paths
from openmem.context.proxy.app import make_app, server_options
from openmem.context.proxy.settings import ProxySettings


async def serve(upstream: str, *, is_recording: bool) -> None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    app = make_app(
        ProxySettings(
            paths=Paths(dict(os.environ)),
            routes={"claude-code": upstream},
            bare_upstream=upstream,
            is_recording=is_recording,
        )
    )
    config = uvicorn.Config(app, **server_options(), log_level="error")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    print(listener.getsockname()[1], app.status()["recorder_pid"], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.should_exit = True
    await running


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], is_recording="--record" in sys.argv))
