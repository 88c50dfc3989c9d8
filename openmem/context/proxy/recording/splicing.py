"""The proxy's end of splices: the next request of a trimmed thread, shown without the recorder.

Idea: see `splice`. Of each trimmed thread the last view is kept and what the recorder said of it;
a request that fits is put together of both in a thread, off the event loop. Only what is new in it
is taken apart there.
Invariant: nothing here can fail or delay a request: whatever does not fit goes the full way, and
that way's answer is the only thing that is believed afterwards.
Trap: two requests of one thread may be under way at once. While one goes the full way, which may
make a cut, nothing is spliced, and what is said of an older request never replaces a newer word.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openmem.base.paths import Paths

_LOG = logging.getLogger("openmem.proxy")
WHOLE = b""
Key = tuple[str, str]
"""(session id, lane)"""
_KEPT = 64
_KEPT_BYTES = 32 << 20
_MOST_REST = 256 << 10
_HEAD_BYTES = 256 << 10
# Below what any provider keeps a prefix for: behind it a cut may cost nothing and be due.
_QUIET_SECONDS = 290.0


@dataclass(slots=True, kw_only=True)
class _Known:
    """What is kept of a thread. `about`: who asked; `splice`: `splice.Splice`'s members."""

    about: Mapping[str, Any]
    view: bytes
    splice: dict[str, Any]
    at: float


@dataclass(slots=True, kw_only=True)
class _Begun:
    """A request under way. `view`: what was sent instead of it, `WHOLE` for the request itself,
    None when that is not known."""

    key: Key
    about: Mapping[str, Any]
    at: float
    view: bytes | None = None
    is_asked: bool = False


class Splicer:
    """Splices by session and lane; bounded in number and bytes. Lives on one event loop."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._known: OrderedDict[Key, _Known] = OrderedDict()
        self._begun: dict[int, _Begun] = {}
        self._asked: Counter[Key] = Counter()
        self._newest: OrderedDict[Key, int] = OrderedDict()
        self._is_on = True
        self._is_loaded = False
        self.count = 0

    def begin(self, number: int, key: Key, about: Mapping[str, Any]) -> None:
        """Note a request of a session; `number` of its job. It ends with `settle`."""
        self._begun[number] = _Begun(key=key, about=about, at=time.monotonic())

    async def body_for(self, number: int, chunks: Sequence[bytes], size: int) -> bytes | None:
        """Return what to send instead of a request, `WHOLE` for the request itself, None when the
        recorder has to be asked."""
        begun = self._begun[number]
        known = self._known.get(begun.key)
        if known is None or self._asked[begun.key] or known.about != begun.about:
            return None
        rest = size - known.splice["list_bytes"]
        if not 0 < rest <= _MOST_REST or begun.at - known.at > _QUIET_SECONDS:
            return None
        if os.path.exists(f"{self._paths.sessions_dir}/{begun.key[0]}.force"):
            return None
        loop, sid = asyncio.get_running_loop(), begun.key[0]
        try:
            body = await loop.run_in_executor(None, _spliced, self._paths, sid, known, chunks, size)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not cost the request
            _LOG.warning("a request was not spliced: %s", type(error).__name__)
            body = None
        # Meanwhile another request may have taken the full way, or the recorder may be lost.
        if body is None or self._known.get(begun.key) is not known or self._asked[begun.key]:
            return None
        self.count += 1
        begun.view = body
        return body

    def ask(self, number: int) -> None:
        """Note that a request goes the full way; while it does, nothing is spliced."""
        begun = self._begun.get(number)  # gone when the recorder was lost meanwhile
        if begun is not None:
            begun.is_asked = True
            self._asked[begun.key] += 1

    def sent(self, number: int, view: bytes) -> None:
        """Note what was sent instead of a request, or `WHOLE`."""
        begun = self._begun.get(number)
        if begun is not None:
            begun.view = view

    def settle(self, number: int, answer: Mapping[str, Any] | None) -> None:
        """Take in what the recorder said behind a request, None when that was nothing of worth.

        An answer without "splice" is about an errand and leaves what is known.
        """
        begun = self._begun.pop(number, None)
        if begun is None:
            return
        key = begun.key
        if begun.is_asked:
            self._asked[key] -= 1
            if not self._asked[key]:
                del self._asked[key]
        if (answer is not None and "splice" not in answer) or number < self._newest.get(key, 0):
            return
        self._newest[key] = number
        self._newest.move_to_end(key)
        while len(self._newest) > 16 * _KEPT:
            self._newest.popitem(last=False)
        said = answer["splice"] if answer is not None else None
        self._known.pop(key, None)
        if said is None or begun.view is None or not self._is_on:
            return
        if said["is_whole"] is not (begun.view == WHOLE):
            return  # what was sent is not what it was said of
        if not self._is_loaded:
            self._is_loaded = True
            asyncio.get_running_loop().run_in_executor(None, _load)
        self._known[key] = _Known(about=begun.about, view=begun.view, splice=said, at=begun.at)
        total = sum(len(known.view) for known in self._known.values())
        while self._known and (len(self._known) > _KEPT or total > _KEPT_BYTES):
            _, oldest = self._known.popitem(last=False)
            total -= len(oldest.view)

    def turn_off(self) -> None:
        """Splice no more: a body was seen to differ from what the full way makes."""
        self._is_on = False
        self._known.clear()

    def clear(self) -> None:
        """Forget all, as when the recorder is lost."""
        self._known.clear()


def _load() -> None:
    """Import what splicing needs. Not at the start: a proxy that trims nothing is smaller."""
    import openmem.context.proxy.recording.splice
    import openmem.context.trim.wire.messages  # noqa: F401 - the first request is not to wait for it


def _spliced(
    paths: Paths, sid: str, known: _Known, chunks: Sequence[bytes], size: int
) -> bytes | None:
    """Return the body, None when the request does not fit. Runs in a thread."""
    # See `_load`.
    from openmem.context.proxy.recording.splice import LIST_KEY, Splice, frame_of, stamps_of
    from openmem.context.trim.estimate import weight_of
    from openmem.context.trim.items import NotTrimmable
    from openmem.context.trim.raw import with_list
    from openmem.context.trim.wire.messages import MessagesFormat

    splice, form = Splice(**known.splice), MessagesFormat()
    head = _head(chunks, LIST_KEY)
    end = len(head) + splice.list_bytes
    if not head or end > size or list(splice.stamps) != list(stamps_of(paths, sid)):
        return None
    digest, rest = hashlib.sha256(), bytearray()
    at = 0
    for chunk in chunks:
        first, last = max(len(head) - at, 0), max(end - at, 0)
        if first < len(chunk):
            digest.update(memoryview(chunk)[first:last])  # lets other threads run meanwhile
        rest += chunk[last:]
        at += len(chunk)
    if digest.hexdigest() != splice.list_digest:
        return None
    short = head + rest
    try:
        envelope, raws = form.split(short)
        if not raws or frame_of(envelope) != splice.frame:
            return None
        if with_list(envelope.parts, envelope.list_key, raws) != short:
            return None  # written with spaces, which the full way leaves out
        items = [form.item(raw, is_last=False) for raw in raws]
    except NotTrimmable:
        return None
    if not splice.rules_out_a_cut(weight_of(envelope, items), items):
        return None
    if splice.is_whole:
        return WHOLE
    return b"".join((head, memoryview(known.view)[splice.shown_from : splice.shown_to], rest))


def _head(chunks: Sequence[bytes], key: bytes) -> bytes:
    """Return the request up to and with the list's bracket, b"" when that is not near its front.

    The first such bytes: what else they could be does not have the settled list behind it.
    """
    head = b""
    for chunk in chunks:
        head += chunk
        at = head.find(key)
        if at >= 0:
            return head[: at + len(key)]
        if len(head) > _HEAD_BYTES:
            break
    return b""
