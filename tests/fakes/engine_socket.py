"""A container engine on a Unix socket and a `docker` program, both played from one state.

Idea: the engine's HTTP answers and the program's words agree, because both read the same small
file; what the program is asked to do changes it. Tests say what is wrong: no engine, an old
compose, rootless, a container that ends again and again.
"""

from __future__ import annotations

import json
import os
import shutil
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

DEFAULT: dict[str, Any] = {
    "compose": "2.39.1",  # "" for none; "1.29.2" stands for docker-compose 1
    "security": [],
    "root": "/",
    "services": {},  # project → service → {"Status", "Health", "RestartCount", "ExitCode"}
    "on_up": {"Status": "running", "Health": "healthy"},
    "images": {},  # reference → digest, of what was fetched
    "volumes": [],
    "pull_error": "",
    "is_slow": False,  # the fetching of an image does not come to an end
    "up_error": "",
    "asked": [],  # every command line of the program
}

_PROGRAM = """\
#!{python}
import json, sys
state_path = {state!r}
def load():
    with open(state_path) as file:
        return json.load(file)
def save(state):
    with open(state_path, "w") as file:
        json.dump(state, file)
argv = sys.argv[1:]
state = load()
state["asked"].append(argv)
save(state)
if argv[:2] == ["context", "inspect"]:
    print("unix://" + {socket!r})
    sys.exit(0)
if argv[:1] == ["compose"] and not state["compose"].startswith("2"):
    print("docker: unknown command: docker compose", file=sys.stderr)
    sys.exit(1)
if argv[:2] == ["compose", "version"]:
    print(state["compose"])
    sys.exit(0)
files = [argv[i + 1] for i, word in enumerate(argv) if word == "--file"]
project = argv[argv.index("--project-name") + 1]
verb = next(w for w in argv if w in ("up", "down", "restart", "ps", "config", "logs"))
services = []
for path in files:
    is_in = False
    for line in open(path):
        if line.startswith("services:"):
            is_in = True
        elif line[:1].strip() and not line.startswith("#"):
            is_in = False
        elif is_in and line.startswith("  ") and line[2:3].strip() not in ("", "#"):
            services.append(line.strip().rstrip(":"))
services = list(dict.fromkeys(services))
if verb == "config":
    print("\\n".join(services))
elif verb == "ps":
    for name, one in state["services"].get(project, {{}}).items():
        if one["Status"] == "running":
            print(name)
elif verb == "up":
    if state["up_error"]:
        print(state["up_error"], file=sys.stderr)
        sys.exit(1)
    state["services"][project] = {{name: dict(state["on_up"]) for name in services}}
    save(state)
elif verb == "down":
    state["services"].pop(project, None)
    save(state)
"""

_SLOW_SECONDS = 60.0
_OLD = """\
#!{python}
import sys
print("1.29.2")
"""


@dataclass
class FakeEngine:
    """What plays. `bin`: a folder for PATH; `socket`: where the engine answers."""

    folder: Path
    bin: Path
    socket: str

    @property
    def state(self) -> dict[str, Any]:
        value = json.loads((self.folder / "state.json").read_text())
        assert isinstance(value, dict)
        return value

    def change(self, **values: Any) -> None:
        (self.folder / "state.json").write_text(json.dumps({**self.state, **values}))

    def commands(self) -> list[str]:
        """Return the verbs that the program was asked to do, in order."""
        verbs = ("up", "down", "restart")
        return [
            next(w for w in argv if w in verbs)
            for argv in self.state["asked"]
            if set(argv) & set(verbs)
        ]

    def environ(self, **more: str) -> dict[str, str]:
        return {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "HOME": os.environ["HOME"],
            "DOCKER_HOST": f"unix://{self.socket}",
            **more,
        }


@contextmanager
def fake_engine(
    folder: Path, *, is_up: bool = True, old_compose: bool = False
) -> Iterator[FakeEngine]:
    """Play an engine. `is_up`: whether its socket answers."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bin").mkdir()
    (folder / "state.json").write_text(json.dumps(DEFAULT))
    # A Unix socket's path is short, and a test's folder is not.
    socket_folder = Path("/tmp") / f"engine-{os.getpid()}-{abs(hash(str(folder))) % 10**8}"
    socket_folder.mkdir(mode=0o700)
    fake = FakeEngine(folder, folder / "bin", str(socket_folder / "s"))
    values = {
        "python": sys.executable,
        "state": str(folder / "state.json"),
        "socket": fake.socket,
    }
    program = folder / "bin/docker"
    program.write_text(_PROGRAM.format(**values))
    program.chmod(0o755)
    if old_compose:
        old = folder / "bin/docker-compose"
        old.write_text(_OLD.format(**values))
        old.chmod(0o755)
    try:
        if is_up:
            with _serving(fake):
                yield fake
        else:
            yield fake
    finally:
        shutil.rmtree(socket_folder)


@contextmanager
def _serving(fake: FakeEngine) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def address_string(self) -> str:
            return "local"

        def _do(self) -> None:
            parts = urlsplit(self.path)
            path = unquote(parts.path)
            if path.startswith("/v1."):
                path = "/" + path.split("/", 2)[2]
            query = {k: v[-1] for k, v in parse_qs(parts.query).items()}
            status, body = _answer(fake, self.command, path, query)
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("api-version", "1.47")
            if path == "/images/create" and fake.state["is_slow"]:
                self.close_connection = True
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                ended.wait(_SLOW_SECONDS)
                return
            if path == "/images/create":  # a stream, as the library expects it
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data))
                return
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = do_HEAD = _do

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    ended = threading.Event()

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that leaves early is no fault here."""

    server = Server(fake.socket, Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(fake: FakeEngine, method: str, path: str, query: dict[str, str]) -> tuple[int, Any]:
    state = fake.state
    if path == "/_ping":
        return 200, b"OK"
    if path == "/version":
        return 200, {"ApiVersion": "1.47", "Version": "27.5.1", "Components": []}
    if path == "/info":
        return 200, {"SecurityOptions": state["security"], "DockerRootDir": state["root"]}
    if path == "/containers/json":
        label = json.loads(query["filters"])["label"][0]
        project = label.partition("=")[2]
        return 200, [{"Id": f"{project}.{n}"} for n in state["services"].get(project, {})]
    if path.startswith("/containers/"):
        one, _, what = path.removeprefix("/containers/").rpartition("/")
        project, _, service = one.partition(".")
        found = state["services"].get(project, {}).get(service)
        if found is None:
            return 404, {"message": "no such container"}
        if what == "logs":
            lines = f"{service} says hello\n".encode()
            return 200, b"\x01\x00\x00\x00" + len(lines).to_bytes(4, "big") + lines
        return 200, {
            "Id": one,
            "Name": f"/{project}-{service}-1",
            "RestartCount": found.get("RestartCount", 0),
            "State": {
                "Status": found["Status"],
                "ExitCode": found.get("ExitCode", 0),
                "Health": {"Status": found.get("Health", "")},
            },
            "Config": {"Labels": {"com.docker.compose.service": service}, "Tty": False},
        }
    if path == "/images/create":
        if state["pull_error"]:
            return 200, json.dumps({"error": state["pull_error"]}).encode() + b"\r\n"
        reference = f"{query['fromImage']}:{query['tag']}"
        fake.change(images={**state["images"], reference: "sha256:" + "ab" * 32})
        rows = [
            {"id": "layer", "progressDetail": {"current": n * 1_000_000, "total": 10_000_000}}
            for n in range(11)
        ]
        return 200, b"".join(json.dumps(row).encode() + b"\r\n" for row in rows)
    if path.startswith("/images/"):
        reference = path.removeprefix("/images/").removesuffix("/json")
        if reference not in state["images"]:
            return 404, {"message": "no such image"}
        name = reference.rpartition(":")[0]
        return 200, {"RepoDigests": [f"{name}@{state['images'][reference]}"]}
    if path == "/volumes":
        return 200, {"Volumes": [{"Name": name} for name in state["volumes"]]}
    if path.startswith("/volumes/") and method == "DELETE":
        name = path.removeprefix("/volumes/")
        if name not in state["volumes"]:
            return 404, {"message": "no such volume"}
        fake.change(volumes=[one for one in state["volumes"] if one != name])
        return 204, b""
    return 500, {"message": f"not played: {method} {path}"}
