"""What is of the Responses and Chat formats alone: items that are no message, odd servers."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from openmem.context.formats import chat, responses
from openmem.context.formats.surroundings import folder_in, is_compaction_row, is_surroundings
from openmem.context.rows import Block

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
DATA = base64.b64encode(PNG).decode()
ENVIRONMENT = (
    "<environment_context>\n  <cwd>/work/app</cwd>\n  <shell>bash</shell>\n</environment_context>"
)


def item(value: dict[str, Any], names: dict[str, str] | None = None) -> list[Block]:
    return responses.blocks_of(json.dumps(value).encode(), names)


def message(value: dict[str, Any]) -> list[Block]:
    return chat.blocks_of(json.dumps(value).encode())


def said(role: str, *texts: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text} for text in texts]
    return {"type": "message", "role": role, "content": content}


def request(*items: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"model": "gpt-6.2-sol", "input": list(items), **fields}).encode()


@pytest.mark.parametrize(
    "text",
    [
        ENVIRONMENT,
        "# AGENTS.md instructions for /work/app\n\n<INSTRUCTIONS>\nbe kind\n</INSTRUCTIONS>",
        "<user_instructions>\nbe kind\n</user_instructions>",
        '<hook_prompt hook_run_id="stop:0">go on</hook_prompt>',
        "<turn_aborted>\nstopped\n</turn_aborted>",
        "<subagent_notification>\n{}\n</subagent_notification>",
    ],
)
def test_what_codex_says_in_the_persons_role_is_a_system_row(text: str) -> None:
    """Facts 3.3: environment, project instructions and hooks are no prompt of a person."""
    assert is_surroundings(text)
    assert item(said("user", text)) == [Block(role="system", kind="text", text=text)]
    assert [b.role for b in item(said("user", text, "fix it"))] == ["system", "user"]


@pytest.mark.parametrize(
    "text",
    ["what does <environment_context> mean?", "<cwd>/x</cwd>", "<skills> are nice", "<tools/>"],
)
def test_a_prompt_that_mentions_a_tag_stays_the_persons(text: str) -> None:
    """Ours: only a text that begins with one of Codex's own tags is Codex's."""
    assert item(said("user", text)) == [Block(role="user", kind="text", text=text)]
    assert folder_in(text) == ""


def test_a_developers_text_is_a_system_row() -> None:
    """Facts 3.3: base prompt, permissions and hook contexts are developer messages."""
    assert item(said("developer", "one", "two")) == [
        Block(role="system", kind="text", text="one"),
        Block(role="system", kind="text", text="two"),
    ]


@pytest.mark.parametrize(
    "value",
    [
        {"type": "additional_tools", "role": "developer", "tools": [{"name": "functions"}]},
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
        {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "c2VjcmV0"},
        {"type": "item_reference", "id": "rs_1"},
    ],
)
def test_items_that_say_nothing_to_be_read_again_are_no_row(value: dict[str, Any]) -> None:
    """Facts 3.3: `input` does not hold messages only."""
    assert item(value) == []


def test_a_compacted_history_is_marked_where_it_was_summed_up() -> None:
    """Codex 0.171.0 with the built-in provider: one closed item in place of all before it."""
    (block,) = item({"type": "compaction", "id": "cmp_1", "encrypted_content": "c2VjcmV0"})
    assert (block.role, block.is_side, "c2V" in block.text) == ("system", True, False)
    assert is_compaction_row(block.role, block.kind, block.text)
    assert not is_compaction_row("user", "text", block.text)


def test_an_unknown_item_hangs_beside_the_chain_without_what_is_renewed() -> None:
    """Issue 4, Bad input: unknown items."""
    (block,) = item({"type": "new_thing", "id": "n_1", "encrypted_content": "x", "words": "hello"})
    assert (block.kind, block.is_side) == ("other", True)
    assert json.loads(block.text) == {"type": "new_thing", "words": "hello"}


CALLS = {
    "function": (
        {"type": "function_call", "name": "exec_command", "arguments": '{"cmd": "ls"}'},
        ("exec_command", '{"cmd":"ls"}'),
    ),
    "function of an MCP server": (
        {"type": "function_call", "name": "get", "namespace": "mcp__openmem", "arguments": ""},
        ("mcp__openmem__get", "{}"),
    ),
    "arguments cut short": (
        {"type": "function_call", "name": "f", "arguments": '{"cmd": "l'},
        ("f", '{"cmd": "l'),
    ),
    "free form": (
        {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin\n+x"},
        ("apply_patch", "*** Begin\n+x"),
    ),
    "shell": (
        {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls", "-l"]}},
        ("local_shell", '{"type":"exec","command":["ls","-l"]}'),
    ),
    "web search": (
        {"type": "web_search_call", "id": "ws_1", "status": "completed",
         "action": {"type": "search", "query": "q"}},
        ("web_search", '{"type":"search","query":"q"}'),
    ),
    "file search": (
        {"type": "file_search_call", "id": "fs_1", "queries": ["q"], "results": None},
        ("file_search", '{"queries":["q"],"results":null}'),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("value", "wanted"), CALLS.values(), ids=CALLS.keys())
def test_each_kind_of_call_is_a_call_and_names_its_output(
    value: dict[str, Any], wanted: tuple[str, str]
) -> None:
    """Brief: function, custom and shell calls, and the outputs that answer them."""
    names: dict[str, str] = {}
    (called,) = item({**value, "call_id": "c1"}, names)
    assert (called.kind, called.role) == ("tool_use", "assistant")
    assert (called.name, called.text) == wanted
    kind = value["type"] + "_output"
    (answered,) = item({"type": kind, "call_id": "c1", "output": "done"}, names)
    assert (answered.role, answered.kind, answered.text) == ("tool", "tool_result", "done")
    assert answered.name == wanted[0]


def test_a_call_that_the_provider_answered_itself_is_call_and_result() -> None:
    """API reference: an MCP call of the provider holds its output."""
    value = {"type": "mcp_call", "id": "m1", "server_label": "docs", "name": "find",
             "arguments": '{"q": 1}', "output": "found"}  # fmt: skip
    called, answered = item(value)
    assert (called.name, called.text) == ("mcp__docs__find", '{"q":1}')
    assert (answered.role, answered.name, answered.text) == ("tool", "mcp__docs__find", "found")


def test_pictures_and_files_are_payloads_wherever_they_stand() -> None:
    """Users' report 25: not text, and once."""
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}"}
    words = {"type": "input_text", "text": "look"}
    caption, shown = item({"type": "message", "role": "user", "content": [words, picture]})
    assert (caption.text, shown.payload, shown.media) == ("look", PNG, "image/png")
    output = {"type": "function_call_output", "call_id": "c", "output": [picture]}
    (seen,) = item(output, {"c": "view_image"})
    assert (seen.role, seen.kind, seen.name, seen.payload) == ("tool", "image", "view_image", PNG)
    (drawn_by, drawn) = item({"type": "image_generation_call", "id": "i", "result": DATA})
    assert (drawn_by.kind, drawn.payload) == ("tool_use", PNG)
    (named,) = item(
        {"role": "user", "content": [{"type": "input_image", "image_url": "https://a/b"}]}
    )
    assert (named.text, named.payload) == ("https://a/b", None)
    (paper,) = item({"role": "user", "content": [{"type": "input_file", "file_data": DATA}]})
    assert (paper.kind, paper.payload) == ("document", PNG)
    (sound,) = message({"role": "user", "content": [
        {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}}]})  # fmt: skip
    assert (sound.payload, sound.media) == (PNG, "audio/wav")


def test_a_request_of_codex_is_split_with_its_prompt_and_tools() -> None:
    """Facts 3.3: the newest model's tools are an item, and the base prompt is the next."""
    view = responses.split_request(
        request(
            {"type": "additional_tools", "role": "developer", "tools": [{"name": "functions"}]},
            said("developer", "You are an agent."),
            said("developer", "<permissions instructions>none</permissions instructions>"),
            said("user", ENVIRONMENT),
            said("user", "hello"),
            stream=True,
            prompt_cache_key="k",
            max_output_tokens=7,
            text={"verbosity": "low", "format": {"type": "text"}},
        )
    )
    assert view.has_tools and view.tools == b"" and view.lead == 3
    assert view.system[0] == "You are an agent."
    assert (view.stream, view.prompt_cache_key, view.max_tokens) == (True, "k", 7)
    assert view.settings == '{"type":"text"}'
    assert [m["role"] for m in responses.opening_of(view)] == ["system", "user"]
    ranges = view.ranges()
    assert [view.body[a:b] for a, b in ranges] == [bytes(raw) for raw in view.messages]


def test_the_environment_is_found_behind_a_compacted_history() -> None:
    """Facts 3.4: kept prompts come first, the environment behind them."""
    kept = [said("user", f"prompt {n}") for n in range(9)]
    view = responses.split_request(request(*kept, said("user", ENVIRONMENT), said("user", "now")))
    texts = [m["content"][0]["text"] for m in responses.opening_of(view)]
    assert [folder_in(text) for text in texts if folder_in(text)] == ["/work/app"]


def test_instructions_and_plain_input_are_a_prompt_and_a_message() -> None:
    """API reference: `input` may be a string, `instructions` hold the system prompt."""
    view = responses.split_request(b'{"model":"m","instructions":"be brief","input":"hi \\ud83d"}')
    assert (view.system, view.lead, view.has_tools) == (("be brief",), 0, False)
    (block,) = responses.blocks_of(view.messages[0])
    assert (block.role, block.text) == ("user", "hi \\ud83d")


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "reasoning_text"])
def test_reasoning_of_a_chat_server_is_thinking_by_any_of_its_names(name: str) -> None:
    """Facts 3.3: OpenCode sends `reasoning_content` back; servers differ."""
    found = message({"role": "assistant", "content": "yes", name: "hm"})
    assert [(b.kind, b.text) for b in found] == [("thinking", "hm"), ("text", "yes")]


def test_older_calls_and_free_calls_of_chat_are_calls() -> None:
    """API reference: `function_call`, and custom tools with text as input."""
    (old,) = message({"role": "assistant", "content": None,
                      "function_call": {"name": "f", "arguments": '{"a": 1}'}})  # fmt: skip
    assert (old.kind, old.name, old.text) == ("tool_use", "f", '{"a":1}')
    free = {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** x"}}
    (custom,) = message({"role": "assistant", "content": "", "tool_calls": [free]})
    assert (custom.name, custom.text) == ("patch", "*** x")
    (answer,) = message({"role": "function", "name": "f", "content": "ok"})
    assert (answer.role, answer.name, answer.text) == ("tool", "f", "ok")


def test_the_system_prompt_of_chat_is_its_leading_messages() -> None:
    """OpenCode 1.18.33: the prompt, then what plug-ins add, each a system message."""
    view = chat.split_request(
        json.dumps(
            {
                "model": "m",
                "max_tokens": 5,
                "messages": [
                    {"role": "system", "content": "one"},
                    {"role": "developer", "content": [{"type": "text", "text": "two"}]},
                    {"role": "user", "content": "hello"},
                    {"role": "system", "content": "later"},
                ],
            }
        ).encode()
    )
    assert (view.system, view.lead, view.max_tokens, view.has_tools) == (
        ("one", "two"),
        2,
        5,
        False,
    )
    assert [m["role"] for m in chat.opening_of(view)] == ["user", "system"]
