"""Whose request of Codex it is, by its headers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openmem.context.proxy.recording import identity
from openmem.context.proxy.recording.codex_turn import codex_turn


def headers(**told: Any) -> dict[str, str]:
    return {"x-codex-turn-metadata": json.dumps(told)}


def test_the_session_header_comes_before_the_cache_key() -> None:
    """Facts 3.2: the cache key is the session's, but only the header says so."""
    found = identity.stated_session_id({"session-id": "s-1"}, "", "some-cache-key")
    assert found == "s-1"
    assert identity.stated_session_id({}, "", "some-cache-key") == "some-cache-key"


@pytest.mark.parametrize(
    ("more", "thread"),
    [
        ({}, ""),
        ({"x-openai-subagent": "collab_spawn"}, "t-2"),
        ({"x-codex-parent-thread-id": "s-1"}, "t-2"),
        (headers(thread_source="subagent"), "t-2"),
        (headers(thread_source="user", thread_id="t-2"), ""),
        (headers(subagent_kind="thread_spawn"), "t-2"),
    ],
)
def test_a_sub_agent_is_told_by_any_of_its_marks(more: dict[str, str], thread: str) -> None:
    """Facts 3.2: `x-openai-subagent`, the parent's thread, or the metadata."""
    found = {"session-id": "s-1", "thread-id": "t-2", **more}
    assert codex_turn(found).thread_id == thread
    assert identity.agent_id_of(found) == thread
    assert identity.is_sub_agent(found, ()) is bool(thread)


@pytest.mark.parametrize(
    ("told", "errand"),
    [
        ({"request_kind": "turn"}, ""),
        ({"request_kind": "compaction"}, "compaction"),
        ({"request_kind": "prewarm"}, "prewarm"),
        ({"request_kind": "something new"}, ""),
        ({"request_kind": 7}, ""),
        ({"subagent_kind": "guardian_review"}, "guardian_review"),
    ],
)
def test_only_errands_that_are_known_are_told_apart(told: dict[str, Any], errand: str) -> None:
    """Identity: a conversation left out does harm, an errand stored as a thread does none."""
    assert codex_turn(headers(**told)).errand == errand


@pytest.mark.parametrize(
    ("workspaces", "folder"),
    [({"/work/a": {}}, "/work/a"), ({"/a": {}, "/b": {}}, ""), ({"a": {}}, ""), ([], ""), (7, "")],
)
def test_a_folder_in_the_headers_counts_when_it_is_the_only_one(
    workspaces: Any, folder: str
) -> None:
    """Design, section 6, point 9: the folder that the agent states."""
    assert codex_turn(headers(workspaces=workspaces)).folder == folder


def test_the_environment_text_names_the_folder_and_a_quoted_one_does_not() -> None:
    """Identity, trap: only what the agent itself wrote may name the folder."""
    text = "<environment_context>\n  <cwd>/work/a</cwd>\n</environment_context>"

    def said(role: str, words: str) -> dict[str, Any]:
        return {"role": role, "content": [{"type": "text", "text": words}]}

    assert identity.stated_folder([], [said("system", text)]) == "/work/a"
    assert identity.stated_folder([], [said("user", f"see {text}")]) == ""
    assert identity.stated_folder([], [said("system", f"see {text}")]) == ""
