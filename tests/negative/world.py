"""A machine with two repositories and a denied folder, and every way out of and into memory."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.cli.app import run
from openmem.context.session import Registration, write_registration
from openmem.hook.handle import handle
from openmem.hook.keep import Order, keep
from openmem.host.recorder import MemoryNotes
from openmem.mcp.memory_tools import memory_tools
from openmem.mcp.tools import Toolbox
from openmem.memory.facade import Memories
from openmem.memory.importing import import_records
from openmem.memory.model import Actor
from openmem.memory.opening import open_memories
from openmem.memory.portability import exported, json_lines
from openmem.memory.recall import at_prompt, at_start
from openmem.memory.scope import Scope, scope_of
from tests.fakes.claude_transcript import assistant, user, write
from tests.fakes.embedding_server import Embedder
from tests.fakes.wire import HttpServer
from tests.memory.conftest import POLICY, repository

PERSON, AGENT = Actor(kind="person", name="ada"), Actor(kind="agent", name="claude-code")
CHECKOUT = Path(__file__).parents[2]


class World:
    """`at`: the folder in which everything is asked."""

    def __init__(self, home: Path, embeddings: str) -> None:
        self.home = home
        self.paths = Paths({"HOME": str(home)})
        os.makedirs(self.paths.config_dir)
        Path(self.paths.policy_file).write_text(POLICY)
        Path(self.paths.config_file).write_text(
            "[memory]\nat_trim = true\nvectors = true\n"
            f'[vectors]\nmodel = "m"\nurl = "{embeddings}/v1"\n'
        )
        self.site = repository(home / "site", "git@github.com:acme/site.git")
        self.other = repository(home / "other", "git@github.com:acme/other.git")
        self.denied = home / "denied"
        self.denied.mkdir()
        self.at = self.site
        self.count = 0

    def scope(self, actor: Actor = PERSON, folder: Path | None = None) -> Scope:
        return scope_of(str(folder or self.at), self.paths, actor)

    def do(self, act: Callable[[Memories], object]) -> object:
        memories = open_memories(self.paths)
        try:
            return act(memories)
        finally:
            memories.close()

    def add(self, text: str, actor: Actor = PERSON, folder: Path | None = None) -> str:
        return str(self.do(lambda m: m.add(self.scope(actor, folder), text).memory.id))

    def said(self, *texts: str, folder: Path | None = None) -> int:
        """Keep a turn in which the person said these texts and the agent repeated the last."""
        self.count += 1
        transcript = write(
            self.home / f"t{self.count}.jsonl",
            *(user(f"Listen. {text} Thank you.") for text in texts),
            assistant(f"Noted.\n{texts[-1]}"),
        )
        order = Order(
            sid=f"said-{self.count}",
            agent="claude-code",
            folder=str(folder or self.at),
            transcript=str(transcript),
        )
        return keep(order, self.paths)

    def sid(self) -> str:
        self.count += 1
        return f"session-{self.count}"

    def environ(self) -> dict[str, str]:
        return {"HOME": str(self.home), "CLAUDE_PROJECT_DIR": str(self.at)}

    # ways in

    def imported(self, data: str, actor: Actor) -> None:
        scope = self.scope(actor)
        if scope.decision.retain:
            self.do(lambda m: import_records(m, scope, data.encode(), key=ensure_key(self.paths)))

    def reindexed(self) -> None:
        for bank in (self.scope().bank, self.scope(folder=self.other).bank, "somewhere/else"):
            self.do(lambda m, bank=bank: m.reindex(bank))  # type: ignore[misc]

    def export(self) -> str:
        scope = self.scope()
        return str(self.do(lambda m: "\n".join(json_lines(exported(m, scope)))))


@contextlib.contextmanager
def a_world(home: Path) -> Iterator[World]:
    embedder = Embedder()
    with HttpServer(embedder.handle) as server:
        yield World(home, server.url)


# ways out: (world, question) → what is told


def _hook(world: World, event: str, question: str) -> str:
    payload = {
        "session_id": world.sid(),
        "cwd": str(world.at),
        "source": "startup",
        "prompt": question,
        "hook_event_name": event,
    }
    environ = {**world.environ(), "OPENMEM_HOOK_PORT": "0"}
    return handle(event, "claude-code", payload, world.paths, environ).stdout


def _hook_alone(world: World, event: str, question: str) -> str:
    """The same by a process of its own, as without a proxy."""
    payload = {"session_id": world.sid(), "cwd": str(world.at), "prompt": question}
    done = subprocess.run(
        [sys.executable, "-m", "openmem.hook", event, "--agent", "claude-code"],
        input=json.dumps({**payload, "source": "startup", "hook_event_name": event}).encode(),
        env={**world.environ(), "PYTHONPATH": str(CHECKOUT), "PATH": os.environ["PATH"]},
        capture_output=True,
        timeout=30,
        check=True,
    )
    return done.stdout.decode()


def _tool(name: str, **given: object) -> Callable[[World, str], str]:
    def tell(world: World, question: str) -> str:
        arguments = {k: question if v is Ellipsis else v for k, v in given.items()}
        tools = Toolbox(memory_tools(world.environ(), "full"))
        content, _ = tools.call(name, arguments, {})
        return str(content[0]["text"])

    return tell


def _command(*words: object) -> Callable[[World, str], str]:
    def tell(world: World, question: str) -> str:
        before, out = os.getcwd(), io.StringIO()
        os.chdir(world.at)
        try:
            with contextlib.redirect_stdout(out):
                run([question if word is Ellipsis else str(word) for word in words])
        finally:
            os.chdir(before)
        return out.getvalue()

    return tell


def _by_meaning(world: World, question: str) -> str:
    """A search by hand after every text has its vector."""
    scope = world.scope(AGENT)
    if not scope.decision.retain:
        return ""
    world.do(lambda m: m.fill_vectors(scope.bank))
    return _tool("memory_search", query=...)(world, question)


def _at_trim(world: World, question: str) -> str:
    """What the pointer of a trim says of a turn in which the question was asked."""
    sid = world.sid()
    registration = Registration(
        session_id=sid,
        agent="claude-code",
        cwd=str(world.at),
        bank="",
        registered_at="2026-11-30T10:00:00Z",
    )
    write_registration(world.paths, registration)
    notes = MemoryNotes(world.paths)
    mark = notes.make(sid, question, lambda text: False)
    return notes.text(sid, mark) if mark else ""


def _elsewhere(world: World, question: str) -> str:
    """What another machine tells after everything was taken along to it."""
    data = world.export()
    world.count += 1
    home = world.home / f"machine-{world.count}"
    paths = Paths({"HOME": str(home)})
    os.makedirs(paths.config_dir)
    Path(paths.policy_file).write_text(POLICY)
    scope = scope_of(str(world.site), paths, PERSON)
    asking = scope_of(str(world.site), paths, AGENT)
    memories = open_memories(paths)
    try:
        import_records(memories, scope, data.encode(), key=ensure_key(paths))
        found = [one.memory.text for one in memories.search(asking, question)]
        told = [at_start(memories, asking, tokens=1200).text]
        told.append(at_prompt(memories, asking, question, hits=8).text)
    finally:
        memories.close()
    return "\n".join(found + told)


# UNASKED ones answer no question: they tell what is known of the project.
ASKED: Mapping[str, Callable[[World, str], str]] = {
    "hook at a prompt": lambda world, question: _hook(world, "prompt", question),
    "hook at a prompt, alone": lambda world, question: _hook_alone(world, "prompt", question),
    "tool memory_search": _tool("memory_search", query=...),
    "tool memory_search, kept turns": _tool("memory_search", query=..., kind="passage"),
    "tool memory_recall": _tool("memory_recall", query=...),
    "tool memory_reflect": _tool("memory_reflect", query=...),
    "command memory search": _command("memory", "search", ..., "--json"),
    "command memory recall": _command("memory", "recall", ..., "--json"),
    "command memory reflect": _command("memory", "reflect", ..., "--json"),
    "search by meaning": _by_meaning,
    "pointer of a trim": _at_trim,
}
UNASKED: Mapping[str, Callable[[World, str], str]] = {
    "hook at the start": lambda world, question: _hook(world, "session-start", question),
    "hook at the start, alone": lambda world, _: _hook_alone(world, "session-start", ""),
    "tool memory_recall, no question": _tool("memory_recall"),
    "tool memory_list": _tool("memory_list", limit=50),
    "tool memory_export": _tool("memory_export", limit=50),
    "command memory recall, no question": _command("memory", "recall", "--json"),
    "export, import on another machine": _elsewhere,
}
