"""One recorded exchange, from bytes to rows: decode, tell whose it is, ask the gate, store.

Idea: `request` and `reply` are called by the recorder process, off every event loop; they use the
store's recorder and know nothing of sockets.
Invariant: nothing is written before the gate said yes; a denied session leaves no row, no event,
no registration. A fault becomes an outcome and a `fail_open` event with place and kind.
Trap: the gate needs the request's own text (the folder it states), so a copy is parsed before it
is asked; that copy lives in memory only.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from openmem.base.errors import OpenmemError, StoreUnavailable
from openmem.base.fault import place_of
from openmem.base.paths import Paths
from openmem.base.policy import bank_of, decide
from openmem.base.workspace import workspace_of
from openmem.context.formats.registry import FORMATS
from openmem.context.formats.view import NotJson, NotUnderstood, RequestView, Wire
from openmem.context.proxy.encodings import TooLarge, Undecodable, decode_body
from openmem.context.proxy.recording import identity
from openmem.context.proxy.recording.about import About
from openmem.context.proxy.recording.codex_turn import COMPACTION, codex_turn
from openmem.context.proxy.recording.events import clearing_event, trim_event
from openmem.context.proxy.recording.gate import Admission, Gate
from openmem.context.proxy.recording.job import NOT_JSON
from openmem.context.proxy.recording.kinds import Kinds, retells
from openmem.context.proxy.recording.prefix import Kept, Known, Thread
from openmem.context.proxy.recording.reply import Reply
from openmem.context.proxy.recording.sent import BINDING_BETA, FOR_CLEARING, Sent
from openmem.context.proxy.recording.shape import Shape, prompt_of, shape_of
from openmem.context.proxy.recording.splice import Splice, stamps_of
from openmem.context.proxy.recording.trimming import Trimming
from openmem.context.session import write_registration
from openmem.context.store.model import Event, Incoming, Recorded
from openmem.context.store.recorder import Recorder
from openmem.context.trim.items import NotTrimmable
from openmem.context.trim.spent.reduce import BodyPlace
from openmem.context.trim.trimmer import View

_REMEMBERED_DIGESTS = 500_000


@dataclass(slots=True, kw_only=True)
class Admitted:
    """A request that may be stored. `recorded`: once it is; `view`: what was sent instead of it.

    `is_compaction`: the agent's own request for a summary, which carries the conversation and must
    follow its cut, or it would be as long as it was before. `stamps`: see `splice.stamps_of`.
    """

    sid: str
    incoming: Incoming
    is_compaction: bool = False
    recorded: Recorded | None = None
    view: View | None = None
    stamps: tuple[int, ...] = ()

    @property
    def lane(self) -> str:
        is_main = self.incoming.kind == "main" or self.is_compaction
        return self.incoming.agent_id or ("" if is_main else "side")

    @property
    def may_have_view(self) -> bool:
        return self.incoming.kind != "side" or self.is_compaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A stored request whose reply may follow."""

    sid: str
    lane: str
    size_bytes: int
    wire: Wire
    view: View | None
    recorded: Recorded
    model: str
    shape: Shape
    thread: Thread | None
    known: Known | None
    kept: Kept
    splice: Splice | None = None


class Recordings:
    """Stores exchanges. Any thread may call; one session's calls come one after the other.

    `open_recorder` gives the store's recorder, and is called when the first session is admitted,
    so that a machine where everything is denied stays untouched.
    """

    def __init__(
        self,
        paths: Paths,
        open_recorder: Callable[[], Recorder],
        *,
        body_limit_bytes: int,
        version: str,
        open_trimming: Callable[[], Trimming] | None = None,
    ) -> None:
        self._paths = paths
        self._open_trimming = open_trimming
        self._trimming: Trimming | None = None
        self._open_recorder = open_recorder
        self._recorder: Recorder | None = None
        self._body_limit = body_limit_bytes
        self._version = version
        self._gate = Gate(paths)
        self._threads: OrderedDict[tuple[str, str], Thread] = OrderedDict()
        self._kinds = Kinds()
        self._lock = threading.Lock()

    # --- a request

    def admit(self, about: About, chunks: Iterable[bytes]) -> Admitted | str:
        """Return a request that may be stored, or the outcome when it may not, or cannot.

        An exception is a fault of ours, for which the caller has `fault`.
        """
        try:
            body = decode_body(chunks, about.headers.get("content-encoding", ""), self._body_limit)
            return self._admit(about, FORMATS[about.wire].split(body))
        except TooLarge:
            return "too-large"
        except Undecodable:
            return "undecodable"
        except NotJson:
            return NOT_JSON  # a broken client's doing, and the provider will say so
        except NotUnderstood as error:
            self.fault(about, error)
            return "not-understood"
        except StoreUnavailable as error:
            self.fault(about, error)
            return "store-unavailable"

    def request(self, about: About, admitted: Admitted) -> Exchange | str:
        """Store an admitted request; return it for its reply, or the outcome of a fault."""
        try:
            return self._store(admitted)
        except StoreUnavailable as error:
            self.fault(about, error)
            return "store-unavailable"

    def _admit(self, about: About, view: RequestView) -> Admitted | str:
        head = FORMATS[view.wire].opening(view)
        sid = identity.stated_session_id(about.headers, view.user_id, view.prompt_cache_key)
        is_stated = bool(sid)
        if not sid:
            first_user = next((m for m in head if m.get("role") == "user"), None)
            sid = identity.made_session_id(view.system, first_user)
        kind = self._kinds.of(about, view, sid, head)
        if kind == "side" and not (is_stated and self._exists(sid)):
            return "side"  # an errand never makes a session of its own
        agent = identity.agent_of(about.route, about.headers)
        turn = codex_turn(about.headers)
        folder = identity.stated_folder(view.system, head) or turn.folder
        stamps = stamps_of(self._paths, sid)  # before they are read, so that none is newer
        admission = self._gate.admit(sid, agent, folder)
        if not admission.may_store:
            return "denied"
        admission = self._registered(sid, admission)
        is_compaction = turn.errand == COMPACTION
        if not is_compaction and (turn.errand or retells(about, view, head)):
            view = replace(view, messages=())  # what it costs counts, what it says is stored
        incoming = Incoming(
            agent=agent,
            view=view,
            kind=kind,
            agent_id=identity.agent_id_of(about.headers),
            registration=admission.registration,
        )
        return Admitted(sid=sid, incoming=incoming, is_compaction=is_compaction, stamps=stamps)

    # --- what is sent instead of it

    def view(self, about: About, admitted: Admitted, *, may_cut: bool = True) -> Sent:
        """Return what is to be sent instead of a request. A fault of ours: the request itself."""
        trimming = self.trimming
        if trimming is None or not admitted.may_have_view:
            return Sent()
        try:
            admitted.view = trimming.view(
                sid=admitted.sid,
                lane=admitted.lane,
                wire=admitted.incoming.view.wire,
                body=admitted.incoming.view.body,
                may_cut=may_cut and not admitted.is_compaction,
                count_masked=lambda numbers: self._count_masked(admitted, numbers),
                find_rows=lambda parts: self._find_rows(admitted, parts),
            )
        except NotTrimmable:
            if trimming.has_cut(admitted.sid):  # the client gets back what a trim had left out
                self._add(admitted.sid, "proxy/recording/trimming.py", "NotTrimmable")
            return Sent(is_odd=True)
        except (OpenmemError, OSError, ValueError, sqlite3.Error) as error:
            self.fault(about, error)  # the original goes; what could not be stored is not removed
        return _sent(admitted.view)

    def was_spliced(self, about: About, admitted: Admitted, size: int, crc: int) -> bool:
        """Take in what the proxy sent by itself; return whether it is what the full way makes."""
        sent = self.view(about, admitted, may_cut=False).body or b""
        is_same = len(sent) == size and zlib.crc32(sent) == crc
        if not is_same:
            self._add(admitted.sid, "proxy/recording/splice.py", "SpliceDiffers")
        return is_same

    def splice(self, exchange: Exchange, reply: Reply | None) -> dict[str, Any]:
        """Return what the proxy is told: how the thread's next request is shown, or that it has to
        be asked for; nothing of an errand, which changes neither."""
        trimming, view, splice = self.trimming, exchange.view, exchange.splice
        if trimming is None or exchange.lane == "side":
            return {}
        if view is None or splice is None or reply is None or not 200 <= reply.status < 300:
            return {"splice": None}
        if reply.overflow is not None:
            return {"splice": None}  # made before the window was known
        now = trimming.splice_now(exchange.sid, view, splice)
        return {"splice": asdict(now) if now else None}

    def repair(self, admitted: Admitted, cause: str) -> Sent:
        """Return another form of a request whose form of ours was refused; an empty one when the
        refusal is the client's own. `cause`: a word of `sent.py`."""
        trimming, view = self.trimming, admitted.view
        if trimming is None or view is None:
            return Sent()
        if not (view.has_clearing if cause == FOR_CLEARING else view.is_cut):
            return Sent()  # what is refused is as the client sent it, and it heals itself
        mend = trimming.without_clearing if cause == FOR_CLEARING else trimming.repair
        body = admitted.incoming.view.body
        repaired = mend(
            sid=admitted.sid, lane=admitted.lane, wire=admitted.incoming.view.wire, body=body
        )
        fault = "ClearingRefused" if cause == FOR_CLEARING else "BindingRefused"
        self._add(admitted.sid, "proxy/recording/trimming.py", fault)
        if repaired is not None:
            admitted.view = repaired
        sent = _sent(repaired)
        return replace(sent, body=body) if cause == FOR_CLEARING and sent.body is None else sent

    @property
    def trimming(self) -> Trimming | None:
        with self._lock:
            if self._trimming is None and self._open_trimming is not None:
                self._trimming = self._open_trimming()
            return self._trimming

    def _count_masked(self, admitted: Admitted, numbers: Sequence[int]) -> int:
        """Store the request, so that what a new cut removes is there; return masked secrets."""
        recorded = self._recorded(admitted)
        return self.recorder.count_masked(admitted.sid, recorded.thread, numbers)

    def _find_rows(self, admitted: Admitted, parts: Sequence[BodyPlace]) -> Sequence[int]:
        recorded = self._recorded(admitted)
        return self.recorder.find_whole(admitted.sid, recorded.thread, parts)

    def _recorded(self, admitted: Admitted) -> Recorded:
        if admitted.recorded is None:
            admitted.recorded = self.recorder.record_request(admitted.sid, admitted.incoming)
        return admitted.recorded

    def _store(self, admitted: Admitted) -> Exchange:
        sid, incoming, trimmed = admitted.sid, admitted.incoming, admitted.view
        recorded = self._recorded(admitted)
        view = incoming.view
        if trimmed is not None and trimmed.body is not None and trimmed.is_cut:
            view = FORMATS[view.wire].split(trimmed.body)
        if trimmed is not None and trimmed.problem:
            self._add(sid, "trim/state.py", "TrimStateUnusable")
        if trimmed is not None and trimmed.made_cut:
            self.recorder.mark_trimmed(
                sid, recorded.thread, trimmed.gone, trimmed.turn, trimmed.rows
            )
            self.recorder.add_event(sid, trim_event(trimmed, recorded, view.model, self._version))
        shape = shape_of(view)
        thread, known, kept = None, None, Kept()
        if incoming.kind != "side":
            thread = self._thread(sid, incoming.agent_id or incoming.kind)
            with self._lock:
                known, kept = thread.compare(prompt_of(view, shape), time.monotonic())
        return Exchange(
            sid=sid,
            lane=admitted.lane,
            size_bytes=len(incoming.view.body),
            wire=view.wire,
            view=trimmed,
            recorded=recorded,
            model=view.model,
            shape=shape,
            thread=thread,
            known=known,
            kept=kept,
            splice=self._splice(admitted),
        )

    def _splice(self, admitted: Admitted) -> Splice | None:
        trimming, view = self.trimming, admitted.view
        if trimming is None or view is None or admitted.is_compaction:
            return None
        return trimming.splice(view, admitted.incoming.view, admitted.stamps)

    def _exists(self, sid: str) -> bool:
        return os.path.exists(f"{self._paths.sessions_dir}/{sid}.v4.db")

    def _registered(self, sid: str, admission: Admission) -> Admission:
        """Write down the folder a session stated when no hook did, so that search knows it."""
        registration = admission.registration
        if registration is None or not admission.is_stated:
            return admission
        workspace = workspace_of(registration.cwd)
        policy = self._gate.policy()
        decision = decide(policy, workspace)
        bank = bank_of(policy, workspace) if decision.recall or decision.retain else ""
        registration = replace(registration, bank=bank)
        write_registration(self._paths, registration)
        return replace(admission, registration=registration)

    @property
    def recorder(self) -> Recorder:
        with self._lock:
            if self._recorder is None:
                self._recorder = self._open_recorder()
            return self._recorder

    def _thread(self, sid: str, name: str) -> Thread:
        with self._lock:
            thread = self._threads.setdefault((sid, name), Thread())
            self._threads.move_to_end((sid, name))
            held = sum(one.messages for one in self._threads.values())
            while held > _REMEMBERED_DIGESTS and len(self._threads) > 1:
                held -= self._threads.popitem(last=False)[1].messages
            return thread

    # --- its reply

    def reply(self, exchange: Exchange, reply: Reply) -> str:
        """Store what the model answered and what the call cost; return the outcome."""
        try:
            view, trimming = exchange.view, self.trimming
            if reply.overflow is not None and view is not None and trimming is not None:
                sid, lane, size = exchange.sid, exchange.lane, exchange.size_bytes
                trimming.refused(sid, lane, view, reply.overflow, exchange.model, size)
            if not 200 <= reply.status < 300:
                return "recorded"  # an error of the provider is no answer and no call that counts
            if reply.blocks:
                self.recorder.record_response(
                    exchange.sid,
                    exchange.recorded.thread,
                    exchange.recorded.head,
                    FORMATS[exchange.wire].reply_blocks(reply.blocks),
                )
            kept = exchange.kept
            if exchange.thread is not None and exchange.known is not None:
                with self._lock:
                    kept = exchange.thread.settled(kept, reply.usage)
                    exchange.thread.remember(exchange.known, reply.usage)
            tokens, is_cleared = reply.usage.prompt_tokens, False
            has_counted = tokens and reply.overflow is None
            if has_counted and trimming is not None and (view is None or view.body is None):
                trimming.counted(exchange.sid, exchange.lane, exchange.size_bytes, tokens)
            if view is not None and has_counted and trimming is not None:
                is_other = trimming.report(exchange.sid, view, tokens, reply.cleared)
                is_cleared = is_other and reply.cleared.uses > 0
            if is_cleared:
                self.recorder.add_event(
                    exchange.sid,
                    clearing_event(reply, exchange.recorded, exchange.model, self._version),
                )
                kept = replace(kept, bust=kept.bust or "clearing")
            self.recorder.add_event(exchange.sid, self._usage_event(exchange, reply, kept))
            return "recorded"
        except StoreUnavailable:
            return "store-unavailable"

    def _usage_event(self, exchange: Exchange, reply: Reply, kept: Kept) -> Event:
        is_first = not kept.before_bytes
        view = exchange.view
        is_trimmed = view is not None and view.is_cut
        has_cut_now = view is not None and view.made_cut
        has_markers = exchange.wire == "messages"  # the other formats have none
        return Event(
            kind="usage",
            version=self._version,
            error=reply.note or None,
            model=exchange.model,
            thread_root=exchange.recorded.thread or None,
            trimmed=2 if has_cut_now else int(is_trimmed),
            input_tokens=reply.usage.input_tokens,
            cache_read_tokens=reply.usage.cache_read_tokens,
            cache_creation_tokens=reply.usage.cache_creation_tokens,
            output_tokens=reply.usage.output_tokens,
            breakpoints=len(exchange.shape.markers) if has_markers else None,
            breakpoint_at=",".join(exchange.shape.markers) if has_markers else None,
            prefix_kept=None if is_first else kept.kept_bytes,
            prefix_bytes=None if is_first else kept.before_bytes,
            bust="trim" if has_cut_now else None if is_first else kept.bust,
        )

    def hint(self, exchange: Exchange, reply: Reply) -> dict[str, Any] | None:
        """Return what the proxy may know of a call: see `hints.Hint`; None when it says nothing.

        After one that was too long it may know nothing, so that the next is asked about.
        """
        trimming, tokens = self.trimming, reply.usage.prompt_tokens
        is_too_long = reply.overflow is not None
        if trimming is None or not (tokens or is_too_long) or exchange.lane == "side":
            return None
        return {
            "sid": exchange.sid,
            "lane": exchange.lane,
            "size_bytes": exchange.size_bytes,
            "tokens": 0 if is_too_long else tokens,
            "soft_tokens": trimming.soft_tokens(exchange.sid, exchange.model),
            "model": exchange.model,
            "has_cut": trimming.has_cut(exchange.sid),
        }

    # --- faults

    def late(self, exchange: Exchange) -> None:
        """Note that a response's last byte did not wait for this exchange's rows."""
        self._add(exchange.sid, "proxy/exchange.py", "CommitTookTooLong")

    def fault(self, about: About, error: BaseException, exchange: Exchange | None = None) -> None:
        """Note a fault of ours in the session of a request, if that session is stored at all."""
        sid = exchange.sid if exchange is not None else self._stored_session(about)
        if sid:
            self._add(sid, place_of(error), type(error).__name__)

    def missed(self, about: About, why: str) -> None:
        """Note a request that was not handed over, in the session it states."""
        sid = self._stored_session(about)
        if sid:
            self._add(sid, "proxy/recording/link.py", why)

    def _stored_session(self, about: About) -> str:
        """Return the session that a request's headers state if it is stored and may be, else ""."""
        sid = identity.stated_session_id(about.headers, "", "")
        if not sid or not self._exists(sid):
            return ""
        return sid if self._gate.admit(sid, about.route, "").may_store else ""

    def _add(self, sid: str, location: str, error: str) -> None:
        event = Event(kind="fail_open", version=self._version, location=location, error=error)
        try:
            self.recorder.add_event(sid, event)
        except (OpenmemError, OSError):
            pass  # the store itself is the fault; the proxy's counters have it

    @property
    def has_stored(self) -> bool:
        """Whether any session was admitted since the start: else nothing may be touched."""
        with self._lock:
            return self._recorder is not None

    def close_idle(self, idle_seconds: float) -> None:
        """Close the files of sessions that were silent for so long."""
        with self._lock:
            recorder = self._recorder
        if recorder is not None:
            recorder.close_idle(idle_seconds)

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()


def _sent(view: View | None) -> Sent:
    if view is None:
        return Sent()
    beta = BINDING_BETA if view.asks_for_binding else ""
    return Sent(body=view.body, beta=beta, refusal=view.refusal)
