"""One session's requests, each either as the stored cut shows it, or with a new cut, or untouched.

`Trimmer.view` is called once a request, before it is forwarded. It holds the newest items of each
live thread, so that a resent history is compared, not decoded again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from openmem.base.paths import Paths
from openmem.context.trim.ask import Ask, View
from openmem.context.trim.clearing import NOTHING_CLEARED, Cleared
from openmem.context.trim.cut import Wish, plan_cut
from openmem.context.trim.estimate import Weight, characters_per_token, estimate, weight_of
from openmem.context.trim.items import (
    Envelope,
    Item,
    NotTrimmable,
    WireFormat,
    is_between_rounds,
    is_side_request,
    opens_real_turn,
)
from openmem.context.trim.limits import (
    LEAST_GAIN_TOKENS,
    SOFT_CAP,
    Thresholds,
    TrimSettings,
    refusal_at,
    thresholds_of,
    window_of,
)
from openmem.context.trim.notes import Notes, said_in
from openmem.context.trim.pointer import pointer_text
from openmem.context.trim.spent.reduce import FindRows, Prospect, prospect, reduce
from openmem.context.trim.state import (
    Cut,
    Sample,
    SessionTrims,
    TrimState,
    chain_digest,
    load_trims,
    save_trims,
)
from openmem.context.trim.view import dropped_items, kept_order, render_view
from openmem.context.trim.weigh import weight_of_cut, weight_of_kept

_THREADS_HELD = 64
_BYTES_HELD = 96 << 20
_BRANCHES_KEPT = 4


@dataclass(slots=True)
class _Live:
    """What is held of a thread between requests."""

    items: list[Item] = field(default_factory=list)
    last_at: float = 0.0
    model: str = ""
    system_digest: str = ""
    size: int = 0


class Trimmer:
    """Decides and renders. Thread-safe; one instance a process.

    `windows`: model name prefix → window in tokens. `count_masked(sid, numbers)`: called before
    a cut is made final: stores the request's rows and returns how many secrets the store holds
    masked in those items. `find_rows`: of single bodies, called after it; without it none is left
    out or shortened. `notes`: what is said beside a pointer, if any.
    """

    def __init__(
        self,
        paths: Paths,
        key: bytes,
        settings: TrimSettings,
        windows: Mapping[str, int],
        *,
        count_masked: Callable[[str, Sequence[int]], int],
        notes: Notes | None = None,
        find_rows: FindRows | None = None,
    ) -> None:
        self._paths, self._key, self._notes = paths, key, notes
        self._settings, self._windows = settings, windows
        self._count_masked = count_masked
        self._find_rows = find_rows
        self._live: OrderedDict[tuple[str, str], _Live] = OrderedDict()
        self._trims: OrderedDict[str, SessionTrims] = OrderedDict()
        self._lock = threading.RLock()

    def view(self, form: WireFormat, ask: Ask) -> View:
        """Return what to send for a request. NotTrimmable when it must go untouched.

        A new cut is durable on disk before this returns it.
        """
        with self._lock:
            return self._view(form, ask)

    def has_cut(self, sid: str) -> bool:
        """Return whether any thread of a session has a cut, or lives from the provider's clearing:
        then its requests are larger than what the provider counts."""
        with self._lock:
            threads = self._session(sid).threads.values()
            return any(state.cut or state.cleared.uses for state in threads)

    def report(
        self, sid: str, thread: str, weight: Weight, tokens: int, cleared: Cleared = NOTHING_CLEARED
    ) -> bool:
        """Take in what the provider counted for a request: `tokens`, cache included; `cleared`:
        what it left out of the request by itself. Return whether that is another count than
        before."""
        with self._lock:
            trims = self._session(sid)
            state = trims.threads.get(thread, TrimState())
            whole = tokens + cleared.tokens  # what the weight stands for
            sample = Sample(weight=weight.characters, tokens=max(0, whole - weight.image_tokens))
            limit = state.limit if tokens <= state.limit else 0  # a success above it disproves it
            changed = replace(state.with_sample(sample), limit=limit, cleared=cleared)
            trims.put(thread, changed)
            if state.cut or state.cleared.uses or cleared.uses or tokens >= SOFT_CAP // 2:
                save_trims(self._paths, sid, trims)
            return cleared.uses != state.cleared.uses

    def learn_limit(self, sid: str, thread: str, limit: int, model: str = "") -> None:
        """Take in the window that a refusal named. `model`: of the request, "" for any."""
        with self._lock:
            trims = self._session(sid)
            state = trims.threads.get(thread, TrimState())
            trims.put(thread, replace(state, limit=limit, limit_model=model))
            save_trims(self._paths, sid, trims)

    def learn_overflow(
        self, sid: str, thread: str, tokens: int, model: str, *, otherwise: int = 0
    ) -> None:
        """Take in that a request was refused as too long by words that name no window.

        `tokens`: the estimate of what was sent; `otherwise`: another for a thread without samples,
        0 for none. Either bounds the window if it is below the one that was taken for granted.
        """
        with self._lock:
            state = self._session(sid).threads.get(thread, TrimState())
            bound = tokens if state.samples else otherwise
            if 0 < bound < self.thresholds(model, 0, state).window:
                self.learn_limit(sid, thread, bound, model)

    def state_of(self, sid: str, thread: str) -> TrimState:
        """Return a thread's state."""
        with self._lock:
            return self._session(sid).threads.get(thread, TrimState())

    def _session(self, sid: str) -> SessionTrims:
        trims = self._trims.get(sid)
        if trims is None:
            trims = self._trims[sid] = load_trims(self._paths, sid)
            while len(self._trims) > _THREADS_HELD:
                self._trims.popitem(last=False)
        self._trims.move_to_end(sid)
        return trims

    def _view(self, form: WireFormat, ask: Ask) -> View:
        envelope, raws = form.split(ask.body)
        live = self._held(ask)
        items = self._items(form, live, raws)
        trims = self._session(ask.sid)
        problem, trims.problem = trims.problem, ""
        thread, is_rewritten = self._thread_of(trims, ask.lane, items)
        state = trims.threads.get(thread, TrimState())
        is_lost = trims.was_lost and thread not in trims.threads
        if is_rewritten or is_lost:
            # The client's own doing, as when it compacts or rewinds; or a cut that we have lost.
            state = replace(state, cut=self._bare_cut(items))
            trims.put(thread, state)
        before = self._tokens(envelope, items, state.cut, state)
        limits = self.thresholds(envelope.model, envelope.max_tokens, state)
        cause = self._cause(ask, envelope, items, live, before, limits)
        if not cause and is_lost and before >= limits.soft and is_between_rounds(items):
            cause = "riding" if ask.may_cut and self._settings.is_on else ""  # the prefix is lost
        made = self._new_cut(form, envelope, items, state, limits, ask, before) if cause else None
        cut = made or state.cut
        self._hold(ask, live, envelope, items)
        is_settled = made is not None or cause == "forced"
        if cut is None:
            return View(
                body=None,
                weight=weight_of(envelope, items),
                thread=thread,
                tokens_before=before,
                tokens_after=before,
                thresholds=limits,
                problem=problem,
                is_settled=is_settled,
                refusal=refusal_at(before, limits, items),
            )
        bound = form.with_binding(envelope) if state.binding_repair else None
        noted: Cut | None = self._noted(ask.sid, cut)
        body = render_view(form, bound or envelope, items, noted or cut)
        fault = _own_fault(form, body, ask.body)
        if fault and cut.pointer:
            # The stored cut does not fit any more: all of the history, without its old thinking.
            problem = f"the view would be refused: {fault}"
            cut, made = self._bare_cut(items), None
            noted = cut
            body = render_view(form, envelope, items, cut) if cut else ask.body
            fault = _own_fault(form, body, ask.body)
        if cut is None or noted is None or fault:
            raise NotTrimmable(fault or problem)
        if made or problem or is_rewritten:
            # What a new cut drops cannot be cleared once more; the next report says what is.
            state = replace(state, cut=cut, model=envelope.model, cleared=NOTHING_CLEARED)
            trims.put(thread, state)
            save_trims(self._paths, ask.sid, trims)
        after = self._tokens(envelope, items, noted, state)
        return View(
            body=body,
            weight=self._weight(envelope, items, noted),
            thread=thread,
            turn=cut.turn,
            tokens_before=before,
            tokens_after=after,
            thresholds=limits,
            made_cut=made is not None,
            gone=tuple(dropped_items(cut, items)),
            rows=tuple(body.seq for body in cut.reduced.spent) if made else (),
            cause=cause if made else "",
            problem=problem,
            is_settled=is_settled,
            asks_for_binding=bound is not None,
            cut=cut,
            refusal=refusal_at(after, limits, items),
        )

    def repair(self, form: WireFormat, ask: Ask) -> View:
        """Return a view without any thinking that exists now, which asks the provider to drop what
        still does not verify; from now on the thread's requests do.

        For a trimmed request that was refused for its thinking. In the Responses format the only
        such refusal is that a kept call lacks its reasoning; there the view gets it back, and the
        provider drops what does not fit. NotTrimmable without a cut.
        """
        with self._lock:
            envelope, raws = form.split(ask.body)
            items = [form.item(raw, is_last=False) for raw in raws]
            trims = self._session(ask.sid)
            thread, is_other = self._thread_of(trims, ask.lane, items)
            state = trims.threads.get(thread, TrimState())
            if state.cut is None or is_other:
                raise NotTrimmable("there is no cut to repair")
            cut = replace(
                state.cut,
                strip=0 if envelope.profile == "R" else len(items),
                anchor=len(items),
                anchor_digest=chain_digest(items, self._key),
            )
            trims.put(thread, replace(state, cut=cut, binding_repair=True))
            save_trims(self._paths, ask.sid, trims)
            return self._view(form, ask)

    def thresholds(self, model: str, max_tokens: int, state: TrimState) -> Thresholds:
        """Return when to trim for a model, with what a refusal said of its window."""
        limit = state.limit if state.limit_model in ("", model) else 0
        window = window_of(model, self._windows, limit)
        return thresholds_of(window, max_tokens, self._settings, proven=limit > 0)

    def soft_tokens(self, sid: str, model: str) -> int:
        """Return from how many tokens on any thread of a session may be trimmed for a model."""
        with self._lock:
            proven = [state for state in self._session(sid).threads.values() if state.limit]
            return min(self.thresholds(model, 0, state).soft for state in (TrimState(), *proven))

    def _bare_cut(self, items: Sequence[Item]) -> Cut | None:
        """Return the cut of a history that was rewritten: all of it, without the old thinking.

        That thinking was made on the view that is gone, and a model that checks would refuse it.
        """
        turns = [number for number, item in enumerate(items) if item.kind == "turn"]
        if not turns or not any(item.has_thinking for item in items):
            return None
        return Cut(
            first=turns[0],
            lead=0,
            reply=-1,
            turn=turns[0],
            gap_start=turns[0] + 1,
            gap_end=turns[0] + 1,
            strip=len(items),
            squeeze=0,
            survivors=(),
            anchor=len(items),
            anchor_digest=chain_digest(items, self._key),
            dropped=0,
            masked=0,
            pointer="",
        )

    def _thread_of(self, trims: SessionTrims, lane: str, items: Sequence[Item]) -> tuple[str, bool]:
        """Return the thread that a history belongs to, and whether none of its cuts fits it.

        Histories that begin alike and then part (a fork, a rewind, two programs in one session)
        are kept apart, so that none takes the other's cut away; the newest few are.
        """
        base = f"{lane}:{_beginning(items)}"
        names = [base, *(f"{base}#{number}" for number in range(2, _BRANCHES_KEPT + 1))]
        known = [name for name in names if name in trims.threads]
        cuts = {name: trims.threads[name].cut for name in known}
        fitting = [name for name, cut in cuts.items() if cut and self._fits(cut, items)]
        uncut = [name for name, cut in cuts.items() if cut is None]
        if fitting or uncut or not known:
            return [*fitting, *uncut, base][0], False
        free = next((name for name in names if name not in trims.threads), "")
        # In the order of use, oldest first: `put` moves a thread to the end.
        name = free or next(thread for thread in trims.threads if thread in names)
        newest = next(thread for thread in reversed(trims.threads) if thread in names)
        trims.put(name, replace(trims.threads[newest], cut=None))
        return name, True

    def _fits(self, cut: Cut, items: Sequence[Item]) -> bool:
        """Return whether a cut was made for this very history."""
        return (
            len(items) >= cut.anchor
            and chain_digest(items[: cut.anchor], self._key) == cut.anchor_digest
        )

    def _cause(
        self,
        ask: Ask,
        envelope: Envelope,
        items: Sequence[Item],
        live: _Live,
        tokens: int,
        limits: Thresholds,
    ) -> str:
        """Return why a new cut is due now: forced, soft, hard, riding; "" when none is."""
        if not ask.may_cut or not self._settings.is_on or is_side_request(items):
            return ""
        at_turn, between = opens_real_turn(items), is_between_rounds(items)
        if ask.force and (at_turn or between):
            return "forced"
        if at_turn and tokens >= limits.soft:
            return "soft"
        if between and tokens >= limits.hard:
            return "hard"
        if between and tokens >= limits.soft and self._is_prefix_dead(ask, envelope, live):
            return "riding"
        return ""

    def _is_prefix_dead(self, ask: Ask, envelope: Envelope, live: _Live) -> bool:
        """Return whether the provider cannot reuse the thread's prefix anyway."""
        if not live.model:
            return False
        return (
            live.model != envelope.model
            or live.system_digest != envelope.system_digest
            or (ask.now - live.last_at) > envelope.cache_seconds
        )

    def _new_cut(
        self,
        form: WireFormat,
        envelope: Envelope,
        items: list[Item],
        state: TrimState,
        limits: Thresholds,
        ask: Ask,
        before: int,
    ) -> Cut | None:
        """Return the next cut, None when it would free too little or cannot be made legal."""
        previous = state.cut
        found = self._prospect(form, items)

        def price(kept: Sequence[int], strip: int, squeeze: int) -> int:
            weight = weight_of_kept(envelope, items, kept, strip, squeeze, found)
            tokens = weight.characters / characters_per_token(state.samples)
            return round(tokens) + weight.image_tokens

        wish = Wish(
            target=limits.target, keep_steps=self._settings.keep_steps, keep_turns=ask.keep_turns
        )
        cut = plan_cut(envelope, items, previous, wish, price)
        if cut is None:
            return None
        kept = kept_order(cut, items)
        after = price(kept, cut.strip, cut.squeeze)
        gain = before - after
        if gain < (1 if ask.force else LEAST_GAIN_TOKENS):
            return None
        gone = dropped_items(cut, items)
        masked = self._count_masked(ask.sid, gone)
        cut = replace(
            cut,
            masked=masked,
            anchor_digest=chain_digest(items[: cut.anchor], self._key),
            pointer=pointer_text(ask.sid, cut.dropped, masked),
            note=self._note_on(ask.sid, cut, items),
            reduced=reduce(
                found,
                items,
                kept,
                sid=ask.sid,
                strip=cut.strip,
                squeeze=cut.squeeze,
                find_rows=self._find_rows or _no_rows,
            ),
        )
        try:
            noted = self._noted(ask.sid, cut)
            body = render_view(form, envelope, items, noted)
        except NotTrimmable:
            return None  # no legal order: the stored cut, or none, goes on
        return None if _own_fault(form, body, ask.body) else cut

    def _note_on(self, sid: str, cut: Cut, items: Sequence[Item]) -> str:
        """Return the mark of a note on the cut turn, "" where nobody makes notes."""
        if self._notes is None:
            return ""
        kept = [items[number].raw for number in kept_order(cut, items)]
        return self._notes.make(
            sid,
            said_in(items[cut.turn].raw),
            lambda text: any(text.encode() in raw for raw in kept),
        )

    def _noted(self, sid: str, cut: Cut) -> Cut:
        """Return the cut with its note, if there is one, behind the pointer."""
        text = self._notes.text(sid, cut.note) if self._notes and cut.note else ""
        return replace(cut, pointer=f"{cut.pointer}\n\n{text}") if text else cut

    def _prospect(self, form: WireFormat, items: Sequence[Item]) -> Prospect:
        """Return what a cut may leave out of the items it keeps, and what it must tell again."""
        first = next((n for n, item in enumerate(items) if item.kind == "turn"), len(items))
        is_stored = self._find_rows is not None
        return prospect(
            form.name,
            items,
            first=first,
            superseded=self._settings.superseded and is_stored,
            long_tokens=self._settings.compress_tokens if is_stored else 0,
        )

    def _tokens(
        self,
        envelope: Envelope,
        items: Sequence[Item],
        cut: Cut | None,
        state: TrimState,
    ) -> int:
        if cut is None:
            whole = estimate(weight_of(envelope, items), state.samples)
        else:
            whole = estimate(self._weight(envelope, items, cut), state.samples)
        return max(0, whole - state.cleared.tokens)

    def _weight(self, envelope: Envelope, items: Sequence[Item], cut: Cut) -> Weight:
        return weight_of_cut(envelope, items, cut)

    def _held(self, ask: Ask) -> _Live:
        return self._live.pop((ask.sid, ask.lane), None) or _Live()

    def _hold(self, ask: Ask, live: _Live, envelope: Envelope, items: list[Item]) -> None:
        live.items = items
        live.last_at, live.model = ask.now, envelope.model
        live.system_digest = envelope.system_digest
        live.size = sum(len(item.raw) for item in items)
        self._live[(ask.sid, ask.lane)] = live
        total = sum(entry.size for entry in self._live.values())
        while len(self._live) > 1 and (len(self._live) > _THREADS_HELD or total > _BYTES_HELD):
            _, oldest = self._live.popitem(last=False)
            total -= oldest.size

    def _items(self, form: WireFormat, live: _Live, raws: Sequence[bytes]) -> list[Item]:
        """Return the items; those that are byte for byte as before are not decoded again."""
        held, last = live.items, len(raws) - 1
        return [
            held[number]
            if number < len(held) - 1 and number != last and held[number].raw == raw
            else form.item(raw, is_last=number == last)
            for number, raw in enumerate(raws)
        ]


def _no_rows(sid: str, parts: Sequence[tuple[int, str, int]]) -> Sequence[int]:
    return [0] * len(parts)


def _own_fault(form: WireFormat, body: bytes, original: bytes) -> str:
    """Return which rule a view breaks that the client's own request does not."""
    fault = form.fault_of(body)
    return fault if fault and not form.fault_of(original) else ""


def _beginning(items: Sequence[Item]) -> str:
    """Return what tells a conversation from another in one session: how it begins."""
    return next((item.digest.hex()[:16] for item in items if item.kind == "turn"), "")


__all__ = ["Ask", "NotTrimmable", "Trimmer", "View"]
