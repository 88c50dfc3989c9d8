"""The recorder's side of a trim: which request gets a view, and what is written down of it.

Idea: the trim decides and renders; this stores the request's rows before a new cut is made final
and names the rows that hold what is left out or shortened.
Invariant: what leaves a request is in the store before the request that lacks it is sent. A fault
here gives no view, and the original goes.
Trap: the same session may be trimmed by two processes for a moment (an upgrade); the state on disk
decides, and each reads it once per session.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from openmem.base.paths import Paths
from openmem.context.formats.view import RequestView, Wire
from openmem.context.proxy.recording.splice import Splice, splice_of
from openmem.context.session import peek_trim_request, take_trim_request
from openmem.context.trim.clearing import NOTHING_CLEARED, Cleared, Clearing, with_clearing
from openmem.context.trim.items import NotTrimmable, WireFormat
from openmem.context.trim.limits import TrimSettings
from openmem.context.trim.notes import Notes
from openmem.context.trim.spent.reduce import BodyPlace
from openmem.context.trim.trimmer import Ask, Trimmer, View
from openmem.context.trim.wire.chat import ChatFormat
from openmem.context.trim.wire.messages import MessagesFormat
from openmem.context.trim.wire.responses import ResponsesFormat

_COUNTS_KEPT = 1024
_CLEARS_AT_LEAST = 4  # the part of the soft threshold that a clearing must free


class Trimming:
    """Views for the requests of all sessions. Thread-safe.

    `count_masked(sid, numbers)` stores the request at hand first; it and `find_rows` are set around
    each call.
    """

    def __init__(
        self,
        paths: Paths,
        key: bytes,
        settings: TrimSettings,
        windows: Mapping[str, int],
        notes: Notes | None = None,
    ) -> None:
        self._paths, self._key, self._settings = paths, key, settings
        self._unclearable: set[str] = set()
        self._forms: Mapping[Wire, WireFormat] = {
            "messages": MessagesFormat(),
            "responses": ResponsesFormat(),
            "chat": ChatFormat(),
        }
        self._counts: OrderedDict[tuple[str, str], tuple[int, int]] = OrderedDict()
        self._counts_lock = threading.Lock()
        self._local = threading.local()
        self._trimmer = Trimmer(
            paths,
            key,
            settings,
            windows,
            count_masked=lambda sid, numbers: self._local.count(numbers),
            find_rows=lambda sid, parts: self._local.find(parts),
            notes=notes,
        )

    def view(
        self,
        *,
        sid: str,
        lane: str,
        wire: Wire,
        body: bytes,
        may_cut: bool,
        count_masked: Callable[[Sequence[int]], int],
        find_rows: Callable[[Sequence[BodyPlace]], Sequence[int]],
    ) -> View:
        """Return a request's view. NotTrimmable when it must go untouched."""
        force = peek_trim_request(self._paths, sid) if may_cut and not lane else None
        self._local.count, self._local.find = count_masked, find_rows
        ask = Ask(
            sid=sid,
            body=body,
            lane=lane,
            may_cut=may_cut,
            force=force is not None,
            keep_turns=force or 0,
            now=time.monotonic(),
        )
        view = self._trimmer.view(self._forms[wire], ask)
        if force is not None and view.is_settled:
            take_trim_request(self._paths, sid)
        return self._with_clearing(sid, wire, body, view)

    def repair(self, *, sid: str, lane: str, wire: Wire, body: bytes) -> View | None:
        """Return another view of a request whose trimmed form was refused for its thinking."""
        self._local.count, self._local.find = _none, _nothing
        ask = Ask(sid=sid, body=body, lane=lane, may_cut=False, now=time.monotonic())
        try:
            view = self._trimmer.repair(self._forms[wire], ask)
        except NotTrimmable:
            return None
        return self._with_clearing(sid, wire, body, view)

    def without_clearing(self, *, sid: str, lane: str, wire: Wire, body: bytes) -> View | None:
        """Return the view of a request that was refused for the clearing it asks for. The session
        is not asked to clear again while this process lives."""
        self._unclearable.add(sid)
        self._local.count, self._local.find = _none, _nothing
        ask = Ask(sid=sid, body=body, lane=lane, may_cut=False, now=time.monotonic())
        try:
            return self._trimmer.view(self._forms[wire], ask)
        except NotTrimmable:
            return None

    def _with_clearing(self, sid: str, wire: Wire, body: bytes, view: View) -> View:
        """Return the view asking the provider to clear tool results, where that is legal."""
        limits = view.thresholds
        if not self._settings.clears_tool_uses or wire != "messages" or limits is None:
            return view
        if sid in self._unclearable or view.refusal:
            return view
        clearing = Clearing(
            trigger=limits.soft,
            keep=self._settings.keep_steps,
            at_least=max(1, limits.soft // _CLEARS_AT_LEAST),
        )
        made = with_clearing(body if view.body is None else view.body, clearing)
        return view if made is None else replace(view, body=made, has_clearing=True)

    def report(self, sid: str, view: View, tokens: int, cleared: Cleared) -> bool:
        """Take in what the provider counted for a request that had a view, and what it cleared of
        it; return whether that is another count of tool uses than before."""
        return self._trimmer.report(sid, view.thread, view.weight, tokens, cleared)

    def counted(self, sid: str, lane: str, size_bytes: int, tokens: int) -> None:
        """Take in what the provider counted for a request that went out as it came."""
        with self._counts_lock:
            self._counts[sid, lane] = (size_bytes, tokens)
            self._counts.move_to_end((sid, lane))
            while len(self._counts) > _COUNTS_KEPT:
                self._counts.popitem(last=False)

    def refused(
        self, sid: str, lane: str, view: View, overflow: int, model: str, size_bytes: int
    ) -> None:
        """Take in that a request was too long. `overflow`: the window that was named, or 0;
        `size_bytes`: of the client's body."""
        if overflow:
            self._trimmer.learn_limit(sid, view.thread, overflow, model)
            return
        with self._counts_lock:
            size, tokens = self._counts.get((sid, lane), (0, 0))
        # Small requests have no view, and so no samples: then as many to a byte as last time.
        sent = round(tokens * size_bytes / size) if size and view.body is None else 0
        self._trimmer.learn_overflow(sid, view.thread, view.tokens_after, model, otherwise=sent)

    def has_cut(self, sid: str) -> bool:
        """Return whether a session has a trim behind it."""
        return self._trimmer.has_cut(sid)

    def splice(self, view: View, request: RequestView, stamps: tuple[int, ...]) -> Splice | None:
        """Return how the thread's next request is shown, None when it has to be asked for."""
        return splice_of(self._forms[request.wire], request, view, stamps)

    def splice_now(self, sid: str, view: View, splice: Splice) -> Splice | None:
        """Return a splice as it stands after the provider's report; None when it holds no more."""
        state = self._trimmer.state_of(sid, view.thread)
        if state.cut != view.cut or state.binding_repair or state.cleared != NOTHING_CLEARED:
            return None
        samples = tuple((sample.weight, sample.tokens) for sample in state.samples)
        return replace(splice, samples=samples)

    def soft_tokens(self, sid: str, model: str) -> int:
        """Return from how many prompt tokens a turn of this model is trimmed in a session."""
        return self._trimmer.soft_tokens(sid, model)


def _nothing(parts: Sequence[BodyPlace]) -> Sequence[int]:
    return [0] * len(parts)


def _none(numbers: Sequence[int]) -> int:
    return 0
