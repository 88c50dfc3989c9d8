"""The answers of the memory tools.

Idea: each answer is a head of ours and, below it, what was remembered inside the one frame, so a
model can tell the two apart. Invariant: scope and policy are asked anew for each call; what an
agent adds, corrects or imports waits for a person. Trap: another workspace's bank is refused by
the same error whether it exists or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from openmem.base.config import Config, load_config
from openmem.base.counts import counted
from openmem.base.frame import framed
from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.context.session import sanitize_sid
from openmem.mcp.reach import folder_of
from openmem.mcp.tools import Arguments, Meta
from openmem.memory.facade import Memories
from openmem.memory.looking import Found
from openmem.memory.model import Actor, Kind, Memory, Trust
from openmem.memory.opening import open_memories
from openmem.memory.recall import line_of, mark_of
from openmem.memory.scope import Scope, scope_of

TEXT_CHARACTERS = 30_000
_DEFAULT_LIMIT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What one call works with."""

    paths: Paths
    config: Config
    memories: Memories
    scope: Scope


@contextmanager
def at_desk(environ: Mapping[str, str], meta: Meta) -> Iterator[Desk]:
    """Open memory for one call. InvalidConfig, PolicyDenied when the folder is gone."""
    paths = Paths(environ)
    agent, session = _caller(environ, meta)
    scope = scope_of(folder_of(environ), paths, Actor(kind="agent", name=agent), session_id=session)
    root = scope.workspace.git_root or scope.workspace.folder
    config = load_config(paths.config_file, environ, project_dir=root)
    if not (scope.decision.recall or scope.decision.retain):
        scope.bank_to_read()  # says why not, and leaves no file behind
    memories = open_memories(paths, config=config)
    try:
        yield Desk(paths=paths, config=config, memories=memories, scope=scope)
    finally:
        memories.close()


def _caller(environ: Mapping[str, str], meta: Meta) -> tuple[str, str]:
    """Return the agent's name and the session it runs, as far as it says so."""
    turn = meta.get("x-codex-turn-metadata")
    if isinstance(turn, dict):
        stated = turn.get("session_id")
        return "codex", sanitize_sid(stated) if isinstance(stated, str) else ""
    session = environ.get("CLAUDE_CODE_SESSION_ID", "")
    if session:
        return "claude-code", sanitize_sid(session)
    return ("opencode" if environ.get("OPENCODE") else "agent"), ""


def _search(desk: Desk, arguments: Arguments) -> str:
    found = desk.memories.search(
        desk.scope,
        str(arguments["query"]),
        bank=_bank(arguments),
        limit=_limit(arguments),
        kinds=_kinds(arguments),
        as_of=str(arguments.get("as_of", "")),
    )
    return _told(found, f"{_many(found)} in bank {_named(desk, arguments)}")


def _recall(desk: Desk, arguments: Arguments) -> str:
    query, as_of = str(arguments.get("query", "")).strip(), str(arguments.get("as_of", ""))
    if query:
        found = desk.memories.search(
            desk.scope,
            query,
            bank=_bank(arguments),
            limit=_limit(arguments),
            as_of=as_of,
            has_floor=True,
        )
        return _told(found, f"{_many(found)} clearly fit" if found else "nothing clearly fits")
    known = desk.memories.known(
        desk.scope, bank=_bank(arguments), limit=_limit(arguments, 50), as_of=as_of
    )
    return _told([Found(memory=memory) for memory in known], f"{len(known)} known statements")


def _add(desk: Desk, arguments: Arguments) -> str:
    added = desk.memories.add(
        desk.scope,
        str(arguments["text"]),
        valid_from=str(arguments.get("valid_from", "")),
        valid_to=str(arguments.get("valid_to", "")),
    )
    return f"remembered as {added.memory.id} ({_standing(added.memory)}){_masks(added.masked)}"


def _correct(desk: Desk, arguments: Arguments) -> str:
    added = desk.memories.correct(desk.scope, str(arguments["id"]), str(arguments["text"]))
    old = desk.memories.ledger.memory(added.memory.supersedes)
    waits = "replaced" if old.state == "superseded" else "stays until a person accepts the new one"
    standing = _standing(added.memory)
    return f"{old.id} {waits}; new: {added.memory.id} ({standing}){_masks(added.masked)}"


def _forget(desk: Desk, arguments: Arguments) -> str:
    gone = desk.memories.forget(desk.scope, str(arguments["id"]))
    lines = [f"forgotten: {gone.memory.id}; it is not taken in again"]
    if gone.also_in:
        lines.append(f"the same words are also in {', '.join(gone.also_in)}")
    if gone.pending:
        lines.append(f"pending: {', '.join(gone.pending)} still hold it; openmem goes on trying")
    return "\n".join(lines)


def _list(desk: Desk, arguments: Arguments) -> str:
    trust: Trust | None = None
    if arguments.get("trust"):
        trust = "accepted" if arguments["trust"] == "accepted" else "pending"
    kinds = _kinds(arguments)
    memories = desk.memories.listing(
        desk.scope,
        bank=_bank(arguments),
        kind=kinds[0] if kinds else "statement",
        trust=trust,
        limit=_limit(arguments, 50),
    )
    found = [Found(memory=memory) for memory in memories]
    return _told(found, f"{_many(found)}, newest first")


def _history(desk: Desk, arguments: Arguments) -> str:
    entries = desk.memories.history(
        desk.scope, str(arguments.get("id", "")), limit=_limit(arguments, 50)
    )
    lines = ["at\tverb\tid\tactor\tprovider"]
    lines += [f"{e.at}\t{e.verb}\t{e.memory_id}\t{e.actor}\t{e.provider}" for e in entries]
    return "\n".join(lines)


def _reflect(desk: Desk, arguments: Arguments) -> str:
    from openmem.memory.model_route import route_of
    from openmem.memory.reflect import reflect
    from openmem.memory.spend import Budget

    reflection = reflect(
        desk.memories,
        desk.scope,
        str(arguments["query"]),
        bank=_bank(arguments),
        route=route_of(desk.config, desk.paths.environ),
        budget=Budget(desk.paths, desk.config.number("memory.daily_tokens")),
    )
    if reflection.text:
        head = f"answered by a model from {len(reflection.found)} memories"
        return f"{head}\n{framed([reflection.text])}"
    return _told(list(reflection.found), f"recalled memories, not put together: {reflection.why}")


def _status(desk: Desk, _arguments: Arguments) -> str:
    from openmem.memory.status import status_of

    desk.scope.bank_to_read()
    status = status_of(desk.memories, desk.scope.bank)
    lines = [
        f"bank {status.bank} · provider {status.provider} · "
        f"{'ready' if status.is_ready else 'not ready'}",
        f"{counted(status.statements, 'statement')} ({status.pending} pending review), "
        f"{counted(status.passages, 'passage')}, {status.forgotten} forgotten",
        f"waiting to be told to the provider: {status.waiting + status.provider_waiting}",
        f"spent today: {status.tokens_today} of "
        f"{desk.config.number('memory.daily_tokens')} tokens in {status.calls_today} calls",
    ]
    return "\n".join([*lines, *([f"problem: {status.problem}"] if status.problem else [])])


def _provider_info(desk: Desk, _arguments: Arguments) -> str:
    from openmem.memory.providers.base import CAPABILITIES

    provider = desk.memories.provider
    can = [name for name in CAPABILITIES if name in provider.capabilities]
    cannot = [name for name in CAPABILITIES if name not in provider.capabilities]
    return (
        f"provider {provider.name}\ncan: remember, recall, forget, {', '.join(can)}\n"
        f"cannot: {', '.join(cannot) or '-'}"
    )


def _project_scope(desk: Desk, _arguments: Arguments) -> str:
    scope = desk.scope
    own = scope.workspace.bank
    lines = [
        f"folder {scope.workspace.folder}",
        f"bank {scope.bank}{'' if own == scope.bank else f' (linked; by itself {own})'}",
    ]
    for use in ("recall", "retain"):
        answer = "yes" if scope.decision.allows(use) else "no"
        lines.append(f"{use}: {answer} ({scope.decision.reasons[use]})")
    return "\n".join(lines)


def _export(desk: Desk, arguments: Arguments) -> str:
    from openmem.memory.portability import exported, json_lines

    start, limit = int(str(arguments.get("offset", 0))), _limit(arguments, 50)
    memories = list(
        islice(exported(desk.memories, desk.scope, bank=_bank(arguments)), start, start + limit + 1)
    )
    lines = list(json_lines(memories[:limit]))
    more = f"; go on with offset {start + limit}" if len(memories) > limit else ""
    return f"{counted(len(lines), 'record')}, PMM 1{more}\n{framed(lines)}"


def _import(desk: Desk, arguments: Arguments) -> str:
    from openmem.memory.importing import import_records

    dry = bool(arguments.get("dry_run"))
    outcome = import_records(
        desk.memories,
        desk.scope,
        str(arguments["records"]).encode("utf-8", "replace"),
        key=ensure_key(desk.paths),
        dry_run=dry,
    )
    lines = [
        f"{'would add' if dry else 'added'} {outcome.added} (pending a person's review), "
        f"known {outcome.known}, forgotten here {outcome.forgotten}, not taken "
        f"{len(outcome.errors)}"
    ]
    lines += [f"line {number}: {reason}" for number, reason in outcome.errors[:20]]
    return "\n".join(lines)


def _consolidate(desk: Desk, _arguments: Arguments) -> str:
    from openmem.memory.providers.base import unsupported

    bank = desk.scope.bank_to_write()
    consolidate = getattr(desk.memories.provider, "consolidate", None)
    if "consolidate" not in desk.memories.provider.capabilities or consolidate is None:
        unsupported(desk.memories.provider.name, "consolidate")
    consolidate(bank)
    return f"asked for; bank {bank}"


ANSWERS: Mapping[str, Callable[[Desk, Arguments], str]] = {
    "memory_add": _add,
    "memory_consolidate": _consolidate,
    "memory_correct": _correct,
    "memory_export": _export,
    "memory_forget": _forget,
    "memory_history": _history,
    "memory_import": _import,
    "memory_list": _list,
    "memory_project_scope": _project_scope,
    "memory_provider_info": _provider_info,
    "memory_recall": _recall,
    "memory_reflect": _reflect,
    "memory_search": _search,
    "memory_status": _status,
}


def _told(found: list[Found], head: str) -> str:
    """Return a head and the memories inside the frame, whole, as many as an answer may hold."""
    lines: list[str] = []
    room = TEXT_CHARACTERS - len(head) - 500
    for one in found:
        line = line_of(one.memory, mark_of(one.memory))
        if len(line) > room:
            break
        lines.append(line)
        room -= len(line) + 1
    if len(lines) < len(found):
        head += f" · {len(lines)} shown"
    return f"{head}\n{framed(lines)}" if lines else head


def _many(found: list[Found]) -> str:
    return counted(len(found), "memory", "memories")


def _named(desk: Desk, arguments: Arguments) -> str:
    return _bank(arguments) or desk.scope.bank


def _bank(arguments: Arguments) -> str:
    return str(arguments.get("bank", ""))


def _limit(arguments: Arguments, default: int = _DEFAULT_LIMIT) -> int:
    return int(str(arguments.get("limit", default)))


def _kinds(arguments: Arguments) -> tuple[Kind, ...]:
    kind = arguments.get("kind")
    if kind == "passage":
        return ("passage",)
    return ("statement",) if kind == "statement" else ()


def _standing(memory: Memory) -> str:
    return "pending a person's review" if memory.trust == "pending" else memory.trust


def _masks(kinds: tuple[str, ...]) -> str:
    return f"; masked: {', '.join(sorted(set(kinds)))}" if kinds else ""
