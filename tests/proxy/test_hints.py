"""When the proxy need not ask whether a trim is due."""

from __future__ import annotations

from openmem.context.proxy.recording.hints import Hint, Hints

HEAD = b'{"model":"claude-opus-5-5","messages":['


def hints(**changes: object) -> Hints:
    values = {
        "size_bytes": 300_000,
        "tokens": 60_000,
        "soft_tokens": 100_000,
        "model": "claude-opus-5-5",
        "has_cut": False,
        **changes,
    }
    made = Hints()
    made.note("s1", "", Hint(**values))  # type: ignore[arg-type]
    return made


def test_a_request_that_cannot_reach_the_threshold_is_not_asked_about() -> None:
    """Ours: measured, asking costs each large request milliseconds."""
    assert hints().rules_out("s1", "", 340_000, HEAD)


def test_whatever_may_be_due_is_asked_about() -> None:
    """Design, section 7: the soft threshold, a smaller window, a cut that is there."""
    assert not hints().rules_out("s1", "", 349_000, HEAD)
    assert not hints(has_cut=True).rules_out("s1", "", 300_000, HEAD)
    assert not hints(tokens=0).rules_out("s1", "", 300_000, HEAD)
    assert not hints().rules_out("s1", "", 300_000, HEAD.replace(b"opus", b"haiku"))
    assert not hints().rules_out("s1", "a1", 300_000, HEAD)
    assert not hints().rules_out("s2", "", 300_000, HEAD)


def test_the_oldest_hints_go() -> None:
    """Ours: bounded memory."""
    made = hints()
    for number in range(2000):
        made.note(
            f"x{number}", "", Hint(size_bytes=1, tokens=1, soft_tokens=9, model="m", has_cut=False)
        )
    assert not made.rules_out("s1", "", 1, HEAD)
