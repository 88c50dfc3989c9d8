"""How much of the last prompt is kept, and why a prefix breaks."""

from __future__ import annotations

import json

from openmem.context.proxy.recording.prefix import Prompt, Thread
from openmem.context.proxy.recording.usage import Usage

TOOLS = [{"name": "Bash", "input_schema": {}}, {"name": "Edit", "input_schema": {}}]


def message(role, *texts, marked=False, **more):
    content = [{"type": "text", "text": text} for text in texts]
    if marked:
        content[-1]["cache_control"] = {"type": "ephemeral"}
    return {"role": role, "content": content, **more}


def prompt(*messages, model="m", settings="adaptive/high", tools=TOOLS, system=("s",)):
    return Prompt(
        model=model,
        settings=settings,
        tools=json.dumps(tools).encode(),
        system=system,
        messages=[json.dumps(one).encode() for one in messages],
    )


def sent(thread, asked, now=0.0, usage=None):
    known, kept = thread.compare(asked, now)
    kept = thread.settled(kept, usage or Usage())
    thread.remember(known, usage or Usage())
    return kept


BEGIN = (message("user", "one"), message("assistant", "two"))


def test_the_first_prompt_is_compared_with_nothing():
    """Ours."""
    kept = sent(Thread(), prompt(*BEGIN))
    assert (kept.before_bytes, kept.bust) == (0, "")


def test_a_grown_history_keeps_all_of_the_prefix():
    """Newest models, 2.3: markers move, a list becomes a string."""
    thread = Thread()
    sent(thread, prompt(message("user", "one", marked=True)))
    flipped = {"role": "user", "content": "one"}
    kept = sent(thread, prompt(flipped, BEGIN[1], message("user", "three", marked=True)))
    assert kept.bust == ""
    assert kept.kept_bytes == kept.before_bytes
    assert kept.kept_messages == 1


def test_tool_results_count_equal_in_both_forms_and_without_markers():
    """The same, inside a tool result."""
    thread = Thread()
    block = {"type": "tool_result", "tool_use_id": "t", "content": "out"}
    nested = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [{"type": "text", "text": "out", "cache_control": {"type": "ephemeral"}}],
    }
    sent(thread, prompt({"role": "user", "content": [nested]}))
    kept = sent(thread, prompt({"role": "user", "content": [block]}, BEGIN[1]))
    assert kept.bust == ""


def test_each_cause_is_named():
    """The brief of this part: model, system, tools, history; and what restarts a cache."""
    for change, cause in (
        ({"model": "n"}, "model"),
        ({"tools": TOOLS[:1]}, "tools"),
        ({"system": ("s", "t")}, "system"),
        ({"settings": "enabled/"}, "settings"),
    ):
        thread = Thread()
        sent(thread, prompt(*BEGIN))
        assert sent(thread, prompt(*BEGIN, message("user", "x"), **change)).bust == cause
    thread = Thread()
    sent(thread, prompt(*BEGIN, message("user", "three")))
    kept = sent(thread, prompt(BEGIN[0], message("assistant", "2"), message("user", "three")))
    assert kept.bust == "messages"
    assert kept.kept_messages == 1
    assert 0 < kept.kept_bytes < kept.before_bytes


def test_what_changes_in_each_request_is_no_bust():
    """Newest models, 1.2 and 2.2: attribution block, deferred tools, markers on tools."""
    thread = Thread()
    sent(thread, prompt(*BEGIN, system=("x-anthropic-billing-header: cch=1;", "s")))
    deferred = {"name": "Late", "defer_loading": True}
    marked = {**TOOLS[1], "cache_control": {"type": "ephemeral"}}
    kept = sent(
        thread,
        prompt(
            *BEGIN,
            system=("x-anthropic-billing-header: cch=2;", "s"),
            tools=[TOOLS[0], deferred, marked],
        ),
    )
    assert kept.bust == ""


def test_a_nudge_behind_the_marker_may_go():
    """Newest models, 2.3: fable's newest system message loses its last block."""
    nudge = {
        "role": "system",
        "content": [
            {"type": "text", "text": "left: 5", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "First list what you need."},
        ],
    }
    thread = Thread()
    sent(thread, prompt(*BEGIN, nudge))
    plain = {"role": "system", "content": "left: 5"}
    assert sent(thread, prompt(*BEGIN, plain, message("user", "x"))).bust == ""
    thread = Thread()
    sent(thread, prompt(*BEGIN, nudge))
    changed = {"role": "system", "content": "left: 4"}
    assert sent(thread, prompt(*BEGIN, changed, message("user", "x"))).bust == "messages"


def test_a_variant_that_is_dropped_again_is_no_bust():
    """Ours: a suggestion is asked on top of the prompt, the next turn goes on without it."""
    thread = Thread()
    sent(thread, prompt(*BEGIN))
    sent(thread, prompt(*BEGIN, message("user", "suggest")))
    kept = sent(thread, prompt(*BEGIN, message("user", "really")))
    assert kept.bust == ""


def test_an_idle_cache_is_a_bust_unless_the_provider_still_had_it():
    """Design, section 7: idle past the time to live."""
    usage = Usage(input_tokens=10, cache_read_tokens=0, cache_creation_tokens=90)
    cold = Usage(input_tokens=100, cache_read_tokens=0, cache_creation_tokens=0)
    warm = Usage(input_tokens=5, cache_read_tokens=95)
    for reported, bust in ((cold, "idle"), (warm, ""), (Usage(), "idle")):
        thread = Thread()
        sent(thread, prompt(*BEGIN), now=0.0, usage=usage)
        assert sent(thread, prompt(*BEGIN, BEGIN[0]), now=301.0, usage=reported).bust == bust
    thread = Thread()
    sent(thread, prompt(*BEGIN), now=0.0)
    assert sent(thread, prompt(*BEGIN, BEGIN[0]), now=299.0).bust == ""


def test_odd_json_is_compared_too():
    """Performance facts, edge cases: lone surrogates, NaN, numbers beyond a double."""
    thread = Thread()
    odd = b'{"role":"user","content":[{"type":"x","text":"\\ud800","n":NaN,"m":1e400}]}'
    asked = Prompt(model="m", settings="", tools=b"", system=(), messages=[odd])
    sent(thread, asked)
    assert sent(thread, asked).bust == ""
