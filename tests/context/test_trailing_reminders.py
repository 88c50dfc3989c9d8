"""Reminders that a client puts behind a tool's result are not part of the result."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmem.context.formats.messages import blocks_of
from openmem.context.rows import chain, without_reminders

KEY = b"k" * 32
REMINDER = "<system-reminder>\n<total_tokens>12 tokens left</total_tokens>\n</system-reminder>"


def _message(role: str, content: Any) -> bytes:
    return json.dumps({"role": role, "content": content}).encode()


def _result(text: str) -> bytes:
    return _message("user", [{"type": "tool_result", "tool_use_id": "t", "content": text}])


def test_a_reminder_behind_a_result_gives_the_rows_of_a_system_message() -> None:
    """Claude Code 2.1.332, observed: the same words before and after a switch to a 5.5 model."""
    older = blocks_of(_result(f"out\n\n{REMINDER}"))
    newer = blocks_of(_result("out"))
    newer += blocks_of(_message("system", "<total_tokens>12 tokens left</total_tokens>"))
    assert chain(KEY, older, "") == chain(KEY, newer, "")
    assert [b.role for b in older] == ["tool", "system"]


@pytest.mark.parametrize(
    "text",
    [
        REMINDER,
        f"out {REMINDER}",
        f"out\n\n{REMINDER} more",
        "out\n\n<system-reminder> never closed",
        "closed only </system-reminder>",
        "\n\n" + REMINDER,
        "",
    ],
)
def test_other_texts_stay_whole(text: str) -> None:
    """Ours: only what the client appends is taken off; a result is kept verbatim."""
    assert without_reminders(text) == (text, [])
    (block,) = blocks_of(_result(text))
    assert (block.kind, block.text) == ("tool_result", text)


@given(own=st.text(), inner=st.lists(st.text(alphabet="ab <>/\n", min_size=1), max_size=3))
def test_nothing_is_lost(own: str, inner: list[str]) -> None:
    """Ours: the parts hold all that the text held, but for the wrapper and its line ends."""
    text = own + "".join(f"\n\n<system-reminder>\n{one}\n</system-reminder>" for one in inner)
    kept, found = without_reminders(text)
    if own.strip():
        assert [one.strip("\n") for one in found] == [one.strip("\n") for one in inner]
        assert kept == own
    assert text.startswith(kept)


def test_a_reminder_beside_a_picture_is_no_result() -> None:
    """Claude Code 2.1.332, observed under load: told with a picture, left out at the next start."""
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
    }

    def result(*content: Any) -> bytes:
        block = {"type": "tool_result", "tool_use_id": "t", "content": list(content)}
        return _message("user", [block])

    reminder = {"type": "text", "text": REMINDER}
    told, left_out = blocks_of(result(reminder, picture)), blocks_of(result(picture))
    assert [(b.role, b.kind) for b in told] == [("tool", "image"), ("system", "text")]
    main = [row.fingerprint for row in chain(KEY, told, "") if row.content_key]
    assert main == [row.fingerprint for row in chain(KEY, left_out, "")]
    caption = {"type": "text", "text": "a dot"}
    said = [(b.role, b.kind, b.text) for b in blocks_of(result(caption, picture, reminder))]
    told_apart = [("tool", "tool_result", "a dot"), ("tool", "image", ""), ("system", "text")]
    assert [one[: len(want)] for one, want in zip(said, told_apart, strict=True)] == told_apart


def test_reminders_alone_are_the_result() -> None:
    """Ours: a tool that answers nothing else is kept verbatim."""
    content = [{"type": "text", "text": REMINDER}, {"type": "text", "text": REMINDER}]
    (block,) = blocks_of(
        _message("user", [{"type": "tool_result", "tool_use_id": "t", "content": content}])
    )
    assert (block.kind, block.text) == ("tool_result", f"{REMINDER}\n{REMINDER}")
