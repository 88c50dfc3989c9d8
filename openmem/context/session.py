"""What a hook told us of a session, and the flag by which a person asks for a trim.

Idea: two small files per session, `<sid>.json` and `<sid>.force`, read by whoever needs them.
Invariant: a sanitised id holds no path separator, so no session names a file outside its folder.
Trap: hooks import this module on their cold path; it must stay small and reach no database.
Source: context-store contract, Location and Session id.
"""

from __future__ import annotations

import json
import os
import re

from openmem.base.io import ensure_private_dir, read_bytes_or_none, write_atomic
from openmem.base.light import dataclass
from openmem.base.paths import Paths

_ASCII_SPACE = " \t\n\v\f\r"
_FOREIGN = re.compile(r"[^A-Za-z0-9._-]")
# A file name holds 255 bytes; the longest suffix is `.v4.db-journal` and a temporary name's.
_LONGEST = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A session as its hook registered it. `bank`: "" when policy grants none.

    `agent_pid`: 0 when unknown. `registered_at`: UTC text in our format.
    """

    session_id: str
    agent: str
    cwd: str
    bank: str
    registered_at: str
    agent_pid: int = 0
    transcript_path: str = ""


def sanitize_sid(raw: str) -> str:
    """Return the id under which a session is kept, "" when nothing of `raw` is left.

    ASCII space at the ends goes; each code point outside `[A-Za-z0-9._-]` becomes one `_`. An id
    of more than 180 characters keeps its head and a digest, because a file name has to hold it.
    """
    sid = _FOREIGN.sub("_", raw.strip(_ASCII_SPACE))
    if len(sid) > _LONGEST:
        import hashlib  # loads OpenSSL, which a hook with an ordinary id can do without

        digest = hashlib.sha256(sid.encode("ascii")).hexdigest()[:16]
        sid = f"{sid[: _LONGEST - 17]}-{digest}"
    return sid


def is_plain_sid(raw: str) -> bool:
    """Return whether an id that somebody typed or a model sent may name a session as it stands."""
    return bool(raw) and raw not in {".", ".."} and not _FOREIGN.search(raw)


def registration_file(paths: Paths, sid: str) -> str:
    """Return the path of a session's registration; nothing is created."""
    return f"{paths.sessions_dir}/{sid}.json"


def write_registration(paths: Paths, registration: Registration) -> None:
    """Write a registration, replacing an earlier one whole. ValueError on an empty session id."""
    sid = sanitize_sid(registration.session_id)
    if not sid:
        raise ValueError("a registration needs a session id")
    ensure_private_dir(paths.sessions_dir)
    text = json.dumps(_fields_of(registration), ensure_ascii=True) + "\n"
    write_atomic(registration_file(paths, sid), text.encode("ascii"))


def _fields_of(registration: Registration) -> dict[str, str | int]:
    return {
        "session_id": registration.session_id,
        "agent": registration.agent,
        "cwd": registration.cwd,
        "bank": registration.bank,
        "registered_at": registration.registered_at,
        "agent_pid": registration.agent_pid,
        "transcript_path": registration.transcript_path,
    }


def read_registration(paths: Paths, sid: str) -> Registration | None:
    """Return a session's registration, None when there is none or it is not readable.

    A file of an earlier system, which has fewer keys, is read too.
    """
    try:
        data = read_bytes_or_none(registration_file(paths, sid))
    except OSError:
        return None  # unreadable is unregistered: policy then decides for unregistered sessions
    return decode_registration(data) if data else None


def decode_registration(data: bytes) -> Registration | None:
    """Return the registration that a file's bytes hold, None when they hold none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("session_id"), str):
        return None

    def text(name: str) -> str:
        found = value.get(name)
        return found if isinstance(found, str) else ""

    pid = value.get("agent_pid")
    return Registration(
        session_id=value["session_id"],
        agent=text("agent"),
        cwd=text("cwd"),
        bank=text("bank"),
        registered_at=text("registered_at"),
        agent_pid=pid if isinstance(pid, int) and not isinstance(pid, bool) else 0,
        transcript_path=text("transcript_path"),
    )


def request_trim(paths: Paths, sid: str, *, keep_turns: int = 0) -> None:
    """Ask for a trim at the session's next request. `keep_turns`: turns to stay, 0 for no wish."""
    ensure_private_dir(paths.sessions_dir)
    write_atomic(_force_file(paths, sid), str(keep_turns).encode("ascii") if keep_turns else b"")


def peek_trim_request(paths: Paths, sid: str) -> int | None:
    """Return the turns to keep that a trim was asked for with, 0 for no wish; None: not asked."""
    try:
        data = read_bytes_or_none(_force_file(paths, sid))
    except OSError:
        return None  # unreadable is not asked
    if data is None:
        return None
    text = data.strip()
    return int(text) if text.isdigit() and len(text) < 6 else 0


def take_trim_request(paths: Paths, sid: str) -> int | None:
    """Return as `peek_trim_request`, and take the request away: once per request."""
    asked = peek_trim_request(paths, sid)
    if asked is None:
        return None
    try:
        os.unlink(_force_file(paths, sid))
    except FileNotFoundError:
        return None  # another process was first
    return asked


def _force_file(paths: Paths, sid: str) -> str:
    return f"{paths.sessions_dir}/{sid}.force"
