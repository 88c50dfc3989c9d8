"""The control socket of a worker: hooks and the command line ask, one line each way.

Idea: one place in the warm process answers what would cost a hook its start-up. Invariant: a
request is bounded in size, time and number before anything looks at it, and a faulty one ends its
own connection and nothing else. Trap: the socket file is replaced by renaming, so that a new
worker takes over without a moment in which there is none; and only the worker whose file it still
is removes it.
Source: docs/reference/supervision.md, "Control socket".
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from openmem.base.errors import Refused
from openmem.base.io import ensure_private_dir, is_private_folder
from openmem.host.control import REQUEST_LIMIT_BYTES
from openmem.host.logbook import Logbook

Json = dict[str, object]
READ_SECONDS = 5.0
CALLS_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer, and descriptors that go with it (closed here once they are sent)."""

    body: Mapping[str, object]
    descriptors: tuple[int, ...] = ()


Handler = Callable[[Json], Awaitable[Reply]]


class ControlServer:
    """Serves `handlers` by the name in `op` on a Unix socket at `path`."""

    def __init__(self, path: str, handlers: Mapping[str, Handler], log: Logbook) -> None:
        self.path = path
        self.handlers = handlers
        self.log = log
        self._server: asyncio.Server | None = None
        self._inode: tuple[int, int] | None = None
        self._calls = 0

    async def open(self) -> None:
        """Listen. Refused when the folder belongs to somebody else; OSError when it cannot."""
        folder = ensure_private_dir(os.path.dirname(self.path))
        if not is_private_folder(folder):
            raise Refused(f"{folder} is not a private folder of this user.")
        temporary = f"{folder}/c.{os.getpid()}"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            try:
                listener.bind(temporary)
            except FileNotFoundError:  # a worker that ended has just taken the empty folder away
                ensure_private_dir(folder)
                listener.bind(temporary)
            os.chmod(temporary, 0o600)
            status = os.stat(temporary)
            self._server = await asyncio.start_unix_server(
                self._serve, sock=listener, limit=REQUEST_LIMIT_BYTES
            )
            os.replace(temporary, self.path)
        except BaseException:
            listener.close()
            raise
        self._inode = (status.st_dev, status.st_ino)

    def close(self) -> None:
        """Stop listening, and remove the file if it is still this worker's."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        try:
            status = os.stat(self.path)
            if (status.st_dev, status.st_ino) == self._inode:
                os.unlink(self.path)
        except OSError:
            pass  # gone already, with its folder or taken over

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._calls += 1
        try:
            if self._calls > CALLS_AT_ONCE:
                reply = _refusal("busy")
            else:
                reply = await self._answer(reader)
            await _send(writer, reply)
        except (OSError, TimeoutError):
            pass  # the caller went away; nobody is waiting for the answer
        finally:
            self._calls -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> Reply:
        try:
            line = await asyncio.wait_for(reader.readline(), READ_SECONDS)
        except ValueError:  # what the stream raises for a line over its limit
            return _refusal("too-large")
        except TimeoutError:
            return _refusal("too-slow")
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            return _refusal("not-json")
        if not isinstance(request, dict) or not isinstance(request.get("op"), str):
            return _refusal("no-op")
        handler = self.handlers.get(request["op"])
        if handler is None:
            return _refusal("unknown-op")
        try:
            return await handler(request)
        except Exception as error:  # noqa: BLE001 - one call must not end the worker; it is logged
            self.log.fault(f"control {request['op']}", error)
            return _refusal("fault")


def _refusal(reason: str) -> Reply:
    return Reply(body={"ok": False, "error": reason})


async def _send(writer: asyncio.StreamWriter, reply: Reply) -> None:
    data = json.dumps(reply.body).encode() + b"\n"
    if reply.descriptors:
        connection = writer.get_extra_info("socket").dup()
        try:
            connection.settimeout(READ_SECONDS)
            socket.send_fds(connection, [data], list(reply.descriptors))
        finally:
            connection.close()
            for descriptor in reply.descriptors:
                os.close(descriptor)
        return
    writer.write(data)
    await asyncio.wait_for(writer.drain(), READ_SECONDS)
