"""The Responses format: split a request, and read the blocks of its input items.

Idea: an input item is to this format what a message is to the others; each call, each output and
each piece of reasoning is an item of its own.
Invariant: a conversation gives the same rows as in the Messages and Chat formats.
Trap: much in `input` is no message: tools, settings, compacted history. What says nothing that
could be read again gives no row; what is unknown hangs beside the chain and cannot break it.
Source: OpenAI's API reference; requests of Codex 0.171.0 and OpenCode 1.18.33.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from openmem.context.formats.parts import (
    arguments_text,
    audio_block,
    call_block,
    compact,
    from_base64,
    media_block,
    other_block,
    outcome_blocks,
    plain,
    result_blocks,
    text_blocks,
    thinking_block,
)
from openmem.context.formats.surroundings import COMPACTIONS, is_surroundings
from openmem.context.formats.view import (
    NotUnderstood,
    RawMessage,
    RequestView,
    are_tools,
    decode_message,
    decoded_part,
    dumped,
    loaded_list,
    loaded_object,
    number_or_none,
    text_or_empty,
    texts_of,
    user_id_in,
)
from openmem.context.rows import Block, escape_odd

_OPENING = 4
_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_SILENT = frozenset(
    {"additional_tools", "configuration_update", "item_reference", "compaction_trigger",
     "mcp_list_tools"}
)  # fmt: skip


class _Request(msgspec.Struct):
    input: msgspec.Raw
    model: str = ""
    stream: bool = False
    max_output_tokens: int | None = None
    prompt_cache_key: str = ""
    instructions: msgspec.Raw = msgspec.Raw(b"")
    tools: msgspec.Raw = msgspec.Raw(b"")
    metadata: msgspec.Raw = msgspec.Raw(b"")
    text: msgspec.Raw = msgspec.Raw(b"")


_DECODER = msgspec.json.Decoder(_Request)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


def split_request(body: bytes) -> RequestView:
    """Return the parts of a request. NotUnderstood when it is not one."""
    try:
        request = _DECODER.decode(body)
        items = _items(bytes(request.input))
        instructions, metadata = decoded_part(request.instructions), decoded_part(request.metadata)
        form = decoded_part(request.text)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return _split_slowly(body)
    return _view(
        body,
        items,
        model=request.model,
        stream=request.stream,
        max_tokens=request.max_output_tokens,
        instructions=instructions,
        tools=bytes(request.tools),
        metadata=metadata,
        cache_key=request.prompt_cache_key,
        form=form,
    )


def _items(raw: bytes) -> Sequence[RawMessage]:
    """Return the input's items; text alone is one message of the person."""
    if raw.startswith(b'"'):
        return [b'{"type":"message","role":"user","content":' + raw + b"}"]
    return _LIST.decode(raw)


def _split_slowly(body: bytes) -> RequestView:
    value = loaded_object(body)
    found = value.get("input")
    if isinstance(found, str):
        value["input"] = [{"type": "message", "role": "user", "content": found}]
    return _view(
        body,
        loaded_list(value, "input"),
        model=text_or_empty(value.get("model")),
        stream=value.get("stream") is True,
        max_tokens=number_or_none(value.get("max_output_tokens")),
        instructions=value.get("instructions"),
        tools=dumped(value.get("tools")),
        metadata=value.get("metadata"),
        cache_key=text_or_empty(value.get("prompt_cache_key")),
        form=value.get("text"),
    )


def _view(
    body: bytes,
    items: Sequence[RawMessage],
    *,
    model: str,
    stream: bool,
    max_tokens: int | None,
    instructions: Any,
    tools: bytes,
    metadata: Any,
    cache_key: str,
    form: Any,
) -> RequestView:
    lead, prompt, has_tools = 0, list(texts_of(instructions)), are_tools(tools)
    for raw in items:
        item = decode_message(raw)
        if item.get("type") == "additional_tools":
            has_tools = True
        elif item.get("role") in ("developer", "system"):
            prompt += texts_of(item.get("content"))
        else:
            break
        lead += 1
    return RequestView(
        wire="responses",
        body=body,
        model=model,
        stream=stream,
        max_tokens=max_tokens,
        system=tuple(prompt),
        lead=lead,
        tools=tools,
        has_tools=has_tools,
        user_id=user_id_in(metadata),
        prompt_cache_key=cache_key,
        messages=items,
        settings=compact(form.get("format")) if isinstance(form, dict) else "",
    )


def opening_of(view: RequestView) -> list[dict[str, Any]]:
    """Return the first messages behind the system prompt in the Messages' form.

    And, wherever it stands, the first one that states Codex's environment: a compacted history has
    it behind the prompts that were kept.
    """
    raws = list(view.messages[view.lead : view.lead + _OPENING])
    mark = b"<environment_context>"
    if not any(mark in bytes(raw) for raw in raws):
        later = view.messages[view.lead + _OPENING :]
        raws += [raw for raw in later if mark in bytes(raw)][:1]
    return [said for raw in raws if (said := _said(decode_message(raw)))]


def _said(item: dict[str, Any]) -> dict[str, Any]:
    if item.get("type", "message") != "message":
        return {}
    texts = texts_of(item.get("content"))
    role = item.get("role")
    if role == "user" and texts and all(map(is_surroundings, texts)):
        role = "system"
    return {
        "role": "system" if role == "developer" else role,
        "content": [{"type": "text", "text": text} for text in texts],
    }


def blocks_of(raw: RawMessage, names: dict[str, str] | None = None) -> list[Block]:
    """Return an item's blocks in order; none for an item that says nothing.

    `names`: call id → tool name, as in the Messages format. NotUnderstood when it is no item.
    """
    return blocks_in(decode_message(raw), {} if names is None else names)


def blocks_of_response(output: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Return the blocks of a reply's `output`; the same that its resent form will give."""
    names: dict[str, str] = {}
    return [block for item in output for block in blocks_in(item, names)]


def blocks_in(item: Mapping[str, Any], names: dict[str, str]) -> list[Block]:
    """Return the blocks of an item that is decoded already, as a rollout's is."""
    kind = item.get("type", "message")
    if kind == "message":
        return _of_message(item)
    if not isinstance(kind, str):
        raise NotUnderstood("an item's type is no text")
    if kind == "reasoning":
        return _of_reasoning(item)
    if kind in _SILENT:
        return []
    if kind in COMPACTIONS:
        # What it holds is closed; that it is there says where the history was summed up.
        said = {"type": kind, "id": text_or_empty(item.get("id"))}
        return [Block(role="system", kind="other", text=compact(said))]
    if kind.endswith("_output"):
        return _of_output(item, kind, names)
    if kind.endswith("_call"):
        return _of_call(item, kind, names)
    return [other_block("system", dict(item))]


def _of_message(item: Mapping[str, Any]) -> list[Block]:
    role = item.get("role")
    if not isinstance(role, str):
        raise NotUnderstood("a message has no role")
    role = role if role in ("user", "assistant") else "system"
    content = item.get("content")
    if isinstance(content, str):
        content = [{"type": "input_text", "text": content}]
    blocks: list[Block] = []
    for part in content if isinstance(content, list) else []:
        if isinstance(part, dict):
            blocks += _of_part(role, part)
    return blocks


def _of_part(role: str, part: dict[str, Any], name: str = "") -> list[Block]:
    kind, text = part.get("type"), part.get("text")
    if kind in _TEXTS and isinstance(text, str):
        is_codex = role == "user" and is_surroundings(text)
        return text_blocks("system" if is_codex else role, text)
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return text_blocks(role, part["refusal"])
    if kind in ("input_image", "input_file", "input_audio"):
        return [_media(role, part, name)]
    return [other_block(role, part)]


def _media(role: str, part: dict[str, Any], name: str) -> Block:
    if part["type"] == "input_audio":
        return audio_block(role, part)
    if part["type"] == "input_image":
        address = part.get("image_url") or part.get("file_id")
        return media_block(role, "image", name, text_or_empty(address), part)
    data = text_or_empty(part.get("file_data"))
    if data and not data.startswith("data:"):
        data = f"data:application/octet-stream;base64,{data}"
    address = data or part.get("file_url") or part.get("file_id")
    return media_block(role, "document", name, text_or_empty(address), part)


def _of_reasoning(item: Mapping[str, Any]) -> list[Block]:
    for place in ("content", "summary"):
        texts = [text for text in texts_of(item.get(place)) if text.strip()]
        if texts:
            return thinking_block("\n\n".join(texts))
    return []


def _of_call(item: Mapping[str, Any], kind: str, names: dict[str, str]) -> list[Block]:
    name = _call_name(item, kind)
    call = item.get("call_id") or item.get("id")
    if isinstance(call, str):
        names[call] = name
    if kind in ("function_call", "mcp_call"):
        blocks = [call_block(name, arguments_text(item.get("arguments")))]
        output = item.get("output")  # a tool that the provider ran answers in the same item
        return blocks + (_outputs(name, output) if kind == "mcp_call" and output else [])
    given = item.get("input")
    if kind == "custom_tool_call" and isinstance(given, str):
        return [call_block(name, escape_odd(given))]
    if "action" in item:
        return [call_block(name, compact(item["action"]))]
    picture = item.get("result") if kind == "image_generation_call" else None
    rest = {k: v for k, v in plain(dict(item)).items() if k not in ("type", "name", "namespace")}
    if isinstance(picture, str):
        rest.pop("result")
        payload = from_base64(picture)
        image = Block(role="assistant", kind="image", payload=payload, media="image/png")
        return [call_block(name, compact(rest)), image]
    return [call_block(name, compact(rest))]


def _call_name(item: Mapping[str, Any], kind: str) -> str:
    name = text_or_empty(item.get("name"))
    place = text_or_empty(item.get("namespace"))
    if not place and kind == "mcp_call" and item.get("server_label"):
        place = f"mcp__{item['server_label']}"
    if not name:
        return kind.removesuffix("_call")
    return escape_odd(f"{place}__{name}" if place else name)


def _of_output(item: Mapping[str, Any], kind: str, names: dict[str, str]) -> list[Block]:
    call = item.get("call_id") or item.get("id")
    name = names.get(call, "") if isinstance(call, str) else ""
    if "output" in item:
        return _outputs(name, item["output"])
    rest = {key: value for key, value in plain(dict(item)).items() if key != "type"}
    return result_blocks(name or kind.removesuffix("_output"), [compact(rest)], [])


def _outputs(name: str, output: Any) -> list[Block]:
    def media_of(part: dict[str, Any]) -> list[Block]:
        is_media = part.get("type") in ("input_image", "input_file")
        return [_media("tool", part, name)] if is_media else []

    return outcome_blocks(name, output, media_of)
