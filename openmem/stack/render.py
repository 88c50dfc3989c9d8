"""Templates and env files as they will stand in the stack folder.

Idea: a template is valid as it stands; rendering replaces its published port and nothing else. An
env file keeps what a person added, and gets our values. Invariant: rendering twice is rendering
once; the first line of a compose file tells whether anybody changed the rest.
Trap: compose expands `$` in env files, so a value that is not plain stands in single quotes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from openmem.base.assets import read_asset
from openmem.base.errors import Refused, Usage

_PORT = re.compile(r'"127\.0\.0\.1:(\d+):(\d+)"')
_HEAD = re.compile(r"# rendered by openmem, ([0-9a-f]{16})\n")
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=-]*")
_LINE = re.compile(r"^(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$")


def compose_text(name: str, port: int) -> str:
    """Return a compose file of a template that publishes `port`."""
    template = read_asset("templates", "compose", f"{name}.yaml")
    if len(_PORT.findall(template)) != 1:
        raise AssertionError(name)
    body = _PORT.sub(lambda match: f'"127.0.0.1:{port}:{match[2]}"', template)
    return f"# rendered by openmem, {_digest(body)}\n{body}"


def port_in(text: str) -> int:
    """Return the port that a compose file of ours publishes, 0 when it has none."""
    found = _PORT.search(text)
    return int(found[1]) if found else 0


def is_as_rendered(text: str) -> bool:
    """Return whether a compose file is one of ours that nobody changed."""
    head = _HEAD.match(text)
    return head is not None and head[1] == _digest(text[head.end() :])


def check_unedited(path: str, data: bytes | None) -> None:
    """Return when a compose file may be rendered again. Refused when a person changed it."""
    if data is None or is_as_rendered(data.decode("utf-8", "replace")):
        return
    raise Refused(
        f"{path} was changed by hand. Nothing was written.",
        hint="Move your changes into compose.override.yaml beside it, which openmem loads and "
        "never touches, and remove the file.",
        code="edited",
    )


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def env_text(name: str, values: Mapping[str, str], found: str | None) -> str:
    """Return an env file that says `values`. `found`: what stands there, None for the template.

    Lines of a person's own stay where they are. Usage when a value cannot stand in such a file.
    """
    left = dict(values)
    lines: list[str] = []
    for line in (found or read_asset("templates", "env", f"{name}.env")).splitlines():
        match = _LINE.match(line)
        if match and match[1] in left:
            lines.append(f"{match[1]}={_quoted(match[1], left.pop(match[1]))}")
        else:
            lines.append(line)
    lines += [f"{key}={_quoted(key, value)}" for key, value in left.items()]
    return "\n".join(lines) + "\n"


def env_values(text: str) -> dict[str, str]:
    """Return the values of an env file, as compose reads them."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.match(line.strip())
        if match:
            value = match[2].strip()
            if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
                value = value[1:-1]
            found[match[1]] = value
    return found


def _quoted(key: str, value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    if "'" in value or "\n" in value or "\r" in value:
        raise Usage(f"the value of {key} holds a quote or a line end and cannot be passed on.")
    return f"'{value}'"


def litellm_config(route_name: str, api: str, url: str, embeddings_name: str) -> str:
    """Return LiteLLM's configuration for one model and its embeddings, without any key."""
    import json

    prefix = {"anthropic": "anthropic", "ollama": "ollama"}.get(api, "openai")
    lines = ["# The key is in litellm.env. Add models of your own below.", "model_list:"]
    for name in dict.fromkeys(one for one in (route_name, embeddings_name) if one):
        lines += [
            f"  - model_name: {json.dumps(name)}",
            "    litellm_params:",
            f"      model: {json.dumps(f'{prefix}/{name}')}",
            "      api_key: os.environ/OPENMEM_MODEL_KEY",
        ]
        if url:
            lines.append(f"      api_base: {json.dumps(url)}")
    lines += ["litellm_settings:", "  telemetry: false"]
    return "\n".join(lines) + "\n"
