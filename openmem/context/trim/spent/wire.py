"""Calls and results in the three wire formats: reading them, and putting a marker in their place.

Beside `trim/wire`, which knows whole items: here an item is looked into. What is not replaced keeps
its bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from openmem.context.trim.items import Item, NotTrimmable
from openmem.context.trim.raw import (
    Parts,
    join_list,
    list_parts,
    member,
    object_parts,
    value_of,
    with_member,
)
from openmem.context.trim.spent.marker import MARKED
from openmem.context.trim.spent.parts import Call, Mark, Part, Result
from openmem.context.trim.spent.tools import PATH_NAMES, patched_paths

Marks = Mapping[tuple[Part, str], Mark]
_ENCODE = msgspec.json.Encoder().encode
_FAILED = re.compile(
    r"\s*(?:<tool_use_error>|error\b|apply_patch verification failed|patch rejected|aborted\b"
    r"|unsupported call|failed to (?:parse|apply))|.{0,200}(?:exited with code [1-9]"
    r"|\"?exit_code\"?: ?[1-9])",
    re.I | re.S,
)
_TAIL = 400  # a JSON-wrapped output tells its exit code at its end
_CODE_AT_END = re.compile(r"\"exit_code\": ?[1-9]")


def read_item(form: str, item: Item, number: int) -> tuple[list[Call], list[Result]]:
    """Return the calls and results of one item. `form`: the wire format's name.

    NotTrimmable when it is not of the shape that the format says.
    """
    if not item.calls and not item.results:
        return [], []
    return _READERS[form](item.raw, number)


def replaced(form: str, raw: bytes, marks: Marks) -> bytes:
    """Return an item with its marked bodies replaced; everything else keeps its bytes."""
    return _WRITERS[form](raw, marks)


def marked_arguments(arguments: object, marker: str) -> dict[str, object]:
    """Return the arguments that stand in place of others: their path, and the marker."""
    kept: dict[str, object] = {}
    if isinstance(arguments, Mapping):
        kept = {key: arguments[key] for key in PATH_NAMES if isinstance(arguments.get(key), str)}
    return {**kept, MARKED: marker if kept else marked_text(arguments, marker)}


def marked_text(arguments: object, marker: str) -> str:
    """Return the text that stands in place of a patch: the marker and the files it named."""
    return "\n".join([marker, *patched_paths(arguments)])


# --- Messages


def _read_messages(raw: bytes, number: int) -> tuple[list[Call], list[Result]]:
    calls: list[Call] = []
    results: list[Result] = []
    uses = answers = 0
    content = member(object_parts(raw), "content") or b"null"
    for piece in list_parts(content) if content.startswith(b"[") else []:
        block = value_of(piece)
        if not isinstance(block, dict):
            continue
        kind = str(block.get("type", ""))
        if kind == "tool_use":
            given = member(object_parts(piece), "input") or b"{}"
            calls.append(
                Call(
                    item=number,
                    place=uses,
                    id=str(block.get("id", "")),
                    name=str(block.get("name", "")),
                    arguments=block.get("input"),
                    raw=given.decode("utf-8", "surrogatepass"),
                )
            )
        elif kind == "tool_result":
            text, has_media = _texts(block.get("content"))
            results.append(
                Result(
                    item=number,
                    place=answers,
                    id=str(block.get("tool_use_id", "")),
                    text=text,
                    failed=block.get("is_error") is True,
                    has_media=has_media,
                )
            )
        # Counted as the store's rows are: a result that is images alone has no row of its own.
        uses += kind.endswith("tool_use")
        answers += kind.endswith("tool_result") and not _is_media_only(block.get("content"))
    return calls, results


def _write_messages(raw: bytes, marks: Marks) -> bytes:
    parts = object_parts(raw)
    content = member(parts, "content") or b"null"
    if not content.startswith(b"["):
        return raw
    blocks = [_write_block(block, marks) for block in list_parts(content)]
    return with_member(parts, "content", join_list(blocks))


def _write_block(raw: bytes, marks: Marks) -> bytes:
    block = value_of(raw)
    if not isinstance(block, dict):
        return raw
    if block.get("type") == "tool_use":
        mark = marks.get(("input", str(block.get("id", ""))))
        if isinstance(mark, str):
            given = marked_arguments(block.get("input"), mark)
            return with_member(object_parts(raw), "input", _ENCODE(given))
    if block.get("type") == "tool_result":
        text = _output(marks, str(block.get("tool_use_id", "")), block.get("content"))
        if text is not None:
            return with_member(object_parts(raw), "content", _ENCODE(text))
    return raw


def _output(marks: Marks, call: str, content: object) -> str | None:
    """Return what stands in place of a result, None when it stays."""
    mark = marks.get(("output", call), marks.get(("long", call)))
    if mark is None or isinstance(mark, str):
        return mark
    return mark(_texts(content)[0])


# --- Chat Completions


def _read_chat(raw: bytes, number: int) -> tuple[list[Call], list[Result]]:
    value = _object(raw)
    if value.get("role") == "tool":
        text, has_media = _texts(value.get("content"))
        found = Result(
            item=number,
            place=0,
            id=str(value.get("tool_call_id", "")),
            text=text,
            failed=_has_failed(text),
            has_media=has_media,
        )
        return [], [found]
    calls: list[Call] = []
    for place, call in enumerate(_list(value.get("tool_calls"))):
        function = call.get("function")
        if isinstance(function, dict):
            given = str(function.get("arguments") or "")
            name = str(function.get("name", ""))
            calls.append(_call(number, place, str(call.get("id", "")), name, given))
    return calls, []


def _write_chat(raw: bytes, marks: Marks) -> bytes:
    parts = object_parts(raw)
    message = _object(raw)
    if message.get("role") == "tool":
        text = _output(marks, str(message.get("tool_call_id", "")), message.get("content"))
        return raw if text is None else with_member(parts, "content", _ENCODE(text))
    calls = member(parts, "tool_calls")
    if calls is None:
        return raw
    return with_member(
        parts, "tool_calls", join_list(_write_chat_call(c, marks) for c in list_parts(calls))
    )


def _write_chat_call(raw: bytes, marks: Marks) -> bytes:
    call = value_of(raw)
    mark = marks.get(("input", str(call.get("id", "")))) if isinstance(call, dict) else None
    parts = object_parts(raw)
    function = member(parts, "function")
    if not isinstance(mark, str) or function is None:
        return raw
    return with_member(parts, "function", _with_arguments(object_parts(function), mark))


# --- Responses


def _read_responses(raw: bytes, number: int) -> tuple[list[Call], list[Result]]:
    value = _object(raw)
    kind, name = str(value.get("type", "")), str(value.get("name", ""))
    call_id = str(value.get("call_id") or value.get("id") or "")
    if kind == "function_call":
        return [_call(number, 0, call_id, name, str(value.get("arguments") or ""))], []
    if kind == "custom_tool_call":
        text = str(value.get("input") or "")
        found = Call(item=number, place=0, id=call_id, name=name, arguments=text, raw=text)
        return [found], []
    if kind in ("function_call_output", "custom_tool_call_output"):
        text, has_media = _texts(value.get("output"))
        result = Result(
            item=number,
            place=0,
            id=call_id,
            text=text,
            failed=_has_failed(text),
            has_media=has_media,
        )
        return [], [result]
    return [], []


def _write_responses(raw: bytes, marks: Marks) -> bytes:
    parts = object_parts(raw)
    value = _object(raw)
    kind = str(value.get("type", ""))
    call_id = str(value.get("call_id") or value.get("id") or "")
    if kind.endswith("_output"):
        text = _output(marks, call_id, value.get("output"))
        return raw if text is None else with_member(parts, "output", _ENCODE(text))
    mark = marks.get(("input", call_id))
    if not isinstance(mark, str):
        return raw
    if kind == "function_call":
        return _with_arguments(parts, mark)
    return with_member(parts, "input", _ENCODE(marked_text(str(value.get("input") or ""), mark)))


# --- what they share


def _call(number: int, place: int, call_id: str, name: str, given: str) -> Call:
    try:
        arguments: object = json.loads(given) if given else {}
    except (ValueError, RecursionError):
        arguments = given  # a model's slip: known by nothing, so never touched
    return Call(item=number, place=place, id=call_id, name=name, arguments=arguments, raw=given)


def _with_arguments(parts: Parts, mark: str) -> bytes:
    """Return an object whose `arguments`, JSON within a string, are replaced."""
    given = value_of(member(parts, "arguments") or b'""')
    try:
        arguments = json.loads(given) if isinstance(given, str) else None
    except (ValueError, RecursionError):
        arguments = None
    text = _ENCODE(marked_arguments(arguments, mark)).decode("utf-8")
    return with_member(parts, "arguments", _ENCODE(text))


def _object(raw: bytes) -> dict[str, Any]:
    value = value_of(raw)
    if not isinstance(value, dict):
        raise NotTrimmable("an item is not an object")
    return value


def _list(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _texts(content: object) -> tuple[str, bool]:
    """Return all texts of a result, and whether it holds anything else."""
    if isinstance(content, str):
        return content, False
    parts: Sequence[object] = content if isinstance(content, list) else []
    texts = [
        part["text"]
        for part in parts
        if isinstance(part, dict) and isinstance(part.get("text"), str)
    ]
    return "\n".join(texts), len(texts) < len(parts)


def _is_media_only(content: object) -> bool:
    parts = content if isinstance(content, list) else []
    media = [p for p in parts if isinstance(p, dict) and p.get("type") in ("image", "document")]
    others = [
        p for p in parts if p not in media and not (isinstance(p, dict) and p.get("text") == "")
    ]
    return bool(media) and not others


def _has_failed(text: str) -> bool:
    return bool(_FAILED.match(text) or _CODE_AT_END.search(text[-_TAIL:]))


_Reader = Callable[[bytes, int], tuple[list[Call], list[Result]]]
_READERS: Mapping[str, _Reader] = {
    "messages": _read_messages,
    "chat": _read_chat,
    "responses": _read_responses,
}
_WRITERS: Mapping[str, Callable[[bytes, Marks], bytes]] = {
    "messages": _write_messages,
    "chat": _write_chat,
    "responses": _write_responses,
}
