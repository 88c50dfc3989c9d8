"""Blocks of a conversation and the keys by which a stored row is known again.

Idea: one content block is one row. Its fingerprint is chained over the rows before it, so the same
text at two places differs and a resent history adds nothing; its content key is not chained, so
that a row is recognised in a rewritten history or an import.
Invariant: the chain depends on what was said, never on the wire form: not on cache markers, string
or block form, tool ids, thinking, reminders, or how a client prints a number.
Trap: thinking and system rows hang on the chain without advancing it. Clients drop the one and
re-render the other at a model switch, and everything after would otherwise be stored again.
Source: design, section 4; context-store contract, Rows; Claude Code 2.1.332, observed.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
import re
from collections.abc import Iterable
from json.encoder import encode_basestring
from typing import NamedTuple

ROLES = ("user", "tool", "assistant", "system")
KINDS = ("text", "tool_use", "tool_result", "thinking", "image", "document", "other")

_KEY_CHARACTERS = 32
_REMINDER_OPEN, _REMINDER_CLOSE = "<system-reminder>", "</system-reminder>"
_ODD = re.compile("[\x00\ud800-\udfff]")
# Only such numbers can be printed in two ways: `1.0` and `1`, or more digits than a double holds.
_DOUBTFUL_NUMBER = re.compile(r"\d[.eE]|\d{16}")


# Tuples, because a session has tens of thousands: a frozen dataclass takes four times as long.
class Block(NamedTuple):
    """One content block as it was said. `role` is one of `ROLES`, `kind` one of `KINDS`.

    `text`: the original, unredacted, with odd code points escaped; a tool's input is compact JSON;
    empty for a payload. `name`: the tool's name for tool blocks, else "". `payload`: the decoded
    bytes of an image or document, `media` their type.
    """

    role: str
    kind: str
    name: str = ""
    text: str = ""
    payload: bytes | None = None
    media: str = ""

    @property
    def is_side(self) -> bool:
        """Whether the block hangs on the chain without advancing it."""
        return self.role == "system" or self.kind == "thinking"


class KeyedBlock(NamedTuple):
    """A block with its keys, 32 hex characters each; `content_key` is "" for a side block."""

    block: Block
    fingerprint: str
    content_key: str


def escape_odd(text: str) -> str:
    r"""Return `text` with NUL and lone surrogates written as `\u0000`, `\ud83d`.

    SQLite cannot bind the one and cuts at the other. Source: users' report 24.
    """
    return _ODD.sub(lambda match: f"\\u{ord(match.group()):04x}", text) if _has_odd(text) else text


def _has_odd(text: str) -> bool:
    if text.isascii():
        return "\x00" in text
    return _ODD.search(text) is not None


def reminder_texts(text: str) -> list[str] | None:
    """Return what stands inside the reminders of a text that holds nothing else, else None."""
    found: list[str] = []
    at = len(text) - len(text.lstrip())
    while text.startswith(_REMINDER_OPEN, at):
        end = text.find(_REMINDER_CLOSE, at)
        if end < 0:
            return None
        found.append(text[at + len(_REMINDER_OPEN) : end].strip("\n"))
        at = _after_space(text, end + len(_REMINDER_CLOSE))
    return found if found and at == len(text) else None


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def without_reminders(text: str) -> tuple[str, list[str]]:
    """Return a tool result's own text, and the reminders that the client put behind it.

    Claude Code with the older models appends them, after an empty line, to the last result of a
    round; with the newest ones the same words are a system message. A result that is nothing but a
    reminder is left whole. Source: 2.1.332, observed (explanation/trial-row-keys).
    """
    found: list[str] = []
    end = len(text)
    while text.endswith(_REMINDER_CLOSE, 0, end):
        start = text.rfind("\n\n" + _REMINDER_OPEN, 0, end)
        if start <= 0:
            break
        inner = text[start + 2 + len(_REMINDER_OPEN) : end - len(_REMINDER_CLOSE)]
        found.append(inner.strip("\n"))
        end = start
    return text[:end], found[::-1]


def seed_of(key: bytes, kind: str, agent_id: str) -> str:
    """Return the key that stands before a thread's first row: "" for the main conversation.

    Sub-agents and side requests often begin with the same words as the main conversation, or as
    each other; the seed keeps their rows apart.
    """
    if kind == "main" and not agent_id:
        return ""
    return _digest(key, f"thread\0{kind if not agent_id else 'sub-agent'}\0{agent_id}")


def fork_of(key: bytes, root: str, kind: str, agent_id: str) -> str:
    """Return the thread id of what a sub-agent or side request adds to another thread's history."""
    return _digest(key, f"fork\0{root}\0{kind}\0{agent_id}")


def keyed_text(block: Block) -> str:
    """Return the text that a block's keys are made from.

    The text itself; for a payload its type and digest; for a tool's input with doubtful numbers a
    form in which `1.0` equals `1` and digits beyond a double's are cut, as JavaScript clients do
    when they send a history back.
    """
    if block.payload is not None:
        return f"{block.media}:{hashlib.sha256(block.payload).hexdigest()}"
    if block.kind == "tool_use" and _DOUBTFUL_NUMBER.search(block.text):
        try:
            value = json.loads(block.text, parse_float=_as_double, parse_int=_as_double)
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        except (ValueError, RecursionError):
            return block.text  # not JSON after all: taken as it stands, as any other text
    return block.text


def _as_double(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) <= 2**53 else value


def fingerprint_of(key: bytes, block: Block, previous: str) -> str:
    """Return the chained key of a block. `previous`: the key before it, or the thread's seed."""
    return _keys(key, block, previous)[0]


def content_key_of(key: bytes, block: Block) -> str:
    """Return the key of a block wherever it stands; "" for a side block."""
    return _keys(key, block, "")[1]


def _keys(key: bytes, block: Block, previous: str) -> tuple[str, str]:
    """Return the HMACs over compact JSON with sorted keys, with `prev` and without it."""
    head, between = _frame(block.kind, block.name, block.role)
    text = encode_basestring(keyed_text(block)).encode()
    fingerprint = _mac(key, b'%b"prev":"%b",%b' % (head, previous.encode(), between), text, b"}")
    if block.is_side:
        return fingerprint, ""
    return fingerprint, _mac(key, head, between, text, b"}")


@functools.lru_cache(maxsize=256)
def _frame(kind: str, name: str, role: str) -> tuple[bytes, bytes]:
    """Return what stands before `prev`, and what between it and the text."""
    head = f'{{"kind":{encode_basestring(kind)},"name":{encode_basestring(name)},'
    return head.encode(), f'"role":{encode_basestring(role)},"text":'.encode()


@functools.lru_cache(maxsize=4)
def _empty_mac(key: bytes) -> hmac.HMAC:
    return hmac.new(key, digestmod="sha256")


def _mac(key: bytes, *parts: bytes) -> str:
    """Return the HMAC, 32 hex; from a copied one, which takes half as long as `hmac.digest`."""
    mac = _empty_mac(key).copy()
    for part in parts:
        mac.update(part)
    return mac.hexdigest()[:_KEY_CHARACTERS]


def chain(key: bytes, blocks: Iterable[Block], previous: str) -> list[KeyedBlock]:
    """Return the blocks with their keys. `previous`: `head_of` what came before, or the seed."""
    keyed: list[KeyedBlock] = []
    for block in blocks:
        one = KeyedBlock(block, *_keys(key, block, previous))
        keyed.append(one)
        if one.content_key:
            previous = one.fingerprint
    return keyed


def head_of(keyed: Iterable[KeyedBlock], previous: str) -> str:
    """Return the key that the next block chains to."""
    for row in keyed:
        if row.content_key:
            previous = row.fingerprint
    return previous


def digest_of_text(key: bytes, text: str) -> str:
    """Return the digest of a text as stored, 32 hex characters."""
    return _digest(key, f"stored\0{text}")


def blob_id_of(key: bytes, data: bytes) -> str:
    """Return the id of a blob: equal bytes, equal id; 16 hex characters."""
    return hmac.digest(key, b"blob\0" + data, "sha256").hex()[:16]


def _digest(key: bytes, text: str) -> str:
    return _mac(key, text.encode("utf-8"))
