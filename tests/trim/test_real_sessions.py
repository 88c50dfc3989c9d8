"""Real agents' sessions as streams of requests: whatever they hold, the trim keeps its promises.

Nothing of them is in this repository; `OPENMEM_TEST_TRANSCRIPTS` names a folder that has some.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from openmem.context.trim.items import NotTrimmable
from openmem.context.trim.state import Cut
from openmem.context.trim.trimmer import Ask
from openmem.context.trim.view import kept_order
from tests.fakes.session_files import needs_session_files
from tests.fakes.strict.legality import first_fault
from tests.fakes.strict.reasoning import pairing_fault
from tests.fakes.superseding import FORMS, SID, trimmer
from tests.fakes.transcript_streams import Stream, streams

STREAMS = streams()
SETTINGS: dict[str, Any] = {
    "soft_tokens": 25_000, "hard_tokens": 40_000, "compress_tokens": 4_000, "keep_steps": 3
}  # fmt: skip


@needs_session_files
@pytest.mark.timeout(300)
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_a_real_session_keeps_every_promise(home: Path, stream: Stream) -> None:
    """Issue 4, Show it: legal, covered, prefix stable, untrimmed bytes equal, restart or not."""
    trim, form = trimmer(home, **SETTINGS), FORMS[stream.wire]
    before: list[bytes] = []
    before_cut: Cut | None = None
    for number, body in enumerate(stream.requests()):
        try:
            view = trim.view(form, Ask(sid=SID, body=body, now=10.0 * number))
        except NotTrimmable:
            before = []
            continue
        sent = view.body or body
        _, original = form.split(body)
        _, shown = form.split(sent)
        if view.body is not None and not _fault(stream.wire, body):
            assert _fault(stream.wire, sent) == "", f"request {number}"
        cut = view.cut
        if cut is not None and cut.pointer:
            items = [form.item(raw, is_last=False) for raw in original]
            covered = set(kept_order(cut, items)) | set(view.gone)
            assert covered == set(range(len(items)))
            reduced = {body.item for body in cut.reduced.spent}
            whole = {hashlib.sha256(raw).digest() for raw in shown}
            for n in kept_order(cut, items):
                is_changed = n in reduced or n == cut.turn
                if not is_changed and not (n < cut.strip and items[n].has_thinking):
                    assert hashlib.sha256(items[n].raw).digest() in whole, (number, n)
        else:
            assert view.body is None or not view.gone
        if before and cut == before_cut and cut is not None:
            common = len(before) - 1  # what was newest may be written otherwise
            assert shown[:common] == before[:common], f"request {number} broke the prefix"
        before, before_cut = shown, cut
        trim.report(SID, view.thread, view.weight, len(sent) // 3)
        if number % 40 == 39:
            again = trimmer(home, **SETTINGS).view(form, Ask(sid=SID, body=body, may_cut=False))
            assert again.body == view.body


def _fault(wire: str, body: bytes) -> str:
    value = json.loads(body)
    if wire == "messages":
        refusal = first_fault(value)
        return str(refusal) if refusal else ""
    if wire == "responses":
        return pairing_fault(value)
    opened: set[str] = set()
    for message in value["messages"]:
        opened |= {call["id"] for call in message.get("tool_calls", [])}
        if message["role"] == "tool":
            if message["tool_call_id"] not in opened:
                return "an answer without its call"
            opened.discard(message["tool_call_id"])
    return "a call without its answer" if opened else ""
