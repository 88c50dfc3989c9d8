"""OpenCode's settings as it reads them: three files laid over each other, one of which is written.

Idea: `.jsonc` lies over `.json`, which lies over `config.json`; OpenCode's own edits go to the
first of them that is there, so ours do too: nothing can lie over what we write. Invariant: nothing
is guessed: a provider that we cannot route is said to be one.
Source: OpenCode 1.18.33, observed (`debug config` with two files) and read in the program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from openmem.agents.agent import Address
from openmem.agents.opencode.places import NAME, Places
from openmem.agents.reading import read_json, read_or_none, table_at, text_at, value_at
from openmem.base.errors import OpenmemError
from openmem.base.route import provider_route, routed_port
from openmem.plan.action import Json, Keys
from openmem.plan.system import System

ZEN = "opencode"  # OpenCode's own models, which need no key
# Packages whose requests are in a form that we record, each appended to the base URL.
_RECORDED = frozenset(
    (
        "@ai-sdk/anthropic",
        "@ai-sdk/openai",
        "@ai-sdk/openai-compatible",
        "@openrouter/ai-sdk-provider",
        "@ai-sdk/groq",
        "@ai-sdk/xai",
    )
)
# Where OpenCode's list of models is not on disk: package, address, key and address variables.
_KNOWN: Mapping[str, tuple[str, str, str, str]] = {
    "anthropic": (
        "@ai-sdk/anthropic",
        "https://api.anthropic.com/v1",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
    ),
    "openai": (
        "@ai-sdk/openai",
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
    ),
    "openrouter": (
        "@openrouter/ai-sdk-provider",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        "",
    ),
    "groq": ("@ai-sdk/groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", ""),
    "xai": ("@ai-sdk/xai", "https://api.x.ai/v1", "XAI_API_KEY", ""),
    "deepseek": (
        "@ai-sdk/openai-compatible",
        "https://api.deepseek.com",
        "DEEPSEEK_API_KEY",
        "",
    ),
    ZEN: ("@ai-sdk/openai-compatible", "https://opencode.ai/zen/v1", "OPENCODE_API_KEY", ""),
}
_UNKNOWN = ("", "", "", "")
_SUBSTITUTE = re.compile(r"\{env:([^}]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider in use. `stated`: the address that the settings give it, "" for none. `own`: where
    it goes else, "" when that is not known. `unrouted`: why its requests cannot come to us, "" when
    they can."""

    name: str
    stated: str = ""
    own: str = ""
    unrouted: str = ""

    @property
    def route(self) -> str:
        """Its name in the proxy's path."""
        return provider_route(NAME, self.name)

    @property
    def place(self) -> Keys:
        return ("provider", self.name, "options", "baseURL")

    @property
    def port(self) -> int:
        """The port of ours that its address names, 0 when it goes elsewhere."""
        return routed_port(self.stated, self.route)

    @property
    def address(self) -> Address:
        upstream = "" if self.port else (self.stated or self.own)
        is_stated = bool(self.stated) and not self.port
        return Address(route=self.route, upstream=upstream, is_stated=is_stated, default=self.own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`file`: the one that is written; may not exist yet. `own`: what stands in it. `whole`: all
    files laid over each other, as OpenCode sees them."""

    file: str
    own: Json
    whole: Json


def read_settings(system: System, found: Places) -> Settings:
    """Return the settings. Unparseable with line and column, Refused: a file cannot be read."""
    file, own = "", None
    whole: Json = {}
    for path in reversed(found.configs):
        if system.read(path) is None:
            continue
        file, own = path, read_json(system, path, strict=False)
        whole = _over(whole, own)
    return Settings(file=file or found.configs[0], own={} if own is None else own, whole=whole)


def _over(below: Json, above: Json) -> Json:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    merged = dict(below)
    for key, value in above.items():
        merged[key] = _over(merged[key], value) if key in merged else value
    return merged


def providers_in_use(
    system: System, found: Places, whole: Json, environ: Mapping[str, str]
) -> tuple[Provider, ...]:
    """Return the providers that a person has set up, by settings, login, key or choice of model.

    With none, OpenCode uses its own models. Of a login only its kind is read.
    """
    logins = table_at(read_or_none(system, found.logins), ())
    listed = table_at(read_or_none(system, found.models), ())
    names = dict.fromkeys(table_at(whole, ("provider",)))
    names |= dict.fromkeys(logins)
    names |= dict.fromkeys(_of_models(whole))
    names |= dict.fromkeys(name for name, known in _KNOWN.items() if environ.get(known[2]))
    disabled = value_at(whole, ("disabled_providers",))
    enabled = value_at(whole, ("enabled_providers",))
    used = [
        name
        for name in names
        if name
        and not (isinstance(disabled, list) and name in disabled)
        and not (isinstance(enabled, list) and name not in enabled)
    ]
    return tuple(_provider(name, whole, logins, listed, environ) for name in used or [ZEN])


def _of_models(whole: Json) -> list[str]:
    chosen = [text_at(whole, ("model",)), text_at(whole, ("small_model",))]
    for kind in ("agent", "mode", "command"):
        entries = table_at(whole, (kind,))
        chosen += [text_at(whole, (kind, name, "model")) for name in entries]
    return [model.partition("/")[0] for model in chosen if "/" in model]


def _provider(
    name: str,
    whole: Json,
    logins: dict[str, Json],
    listed: dict[str, Json],
    environ: Mapping[str, str],
) -> Provider:
    package, address, _, variable = _KNOWN.get(name, _UNKNOWN)
    package = text_at(listed, (name, "npm")) or package
    package = text_at(whole, ("provider", name, "npm")) or package or "@ai-sdk/openai-compatible"
    inherited = environ.get(variable, "").strip() if variable else ""
    if not inherited.startswith("http") or ("//127.0.0.1" in inherited and "/a/" in inherited):
        inherited = ""  # an address of ours that an agent's shell passed on is no upstream
    own = (
        text_at(whole, ("provider", name, "api"))
        or inherited
        or text_at(listed, (name, "api"))
        or address
    )
    stated = text_at(whole, ("provider", name, "options", "baseURL")).strip()
    unrouted = ""
    if package not in _RECORDED:
        unrouted = f"its package {package} speaks no form that is recorded"
    elif text_at(logins, (name, "type")) == "oauth" and name != "anthropic":
        unrouted = "it is used with a login, whose requests go to a fixed address"
    elif not stated and not own:
        unrouted = "its address is not known"
    plain = _substituted(stated, environ)
    if stated and plain is None:
        unrouted = f"its address {stated} names a variable that is not set here"
    return Provider(name=name, stated=plain or "", own=own.rstrip("/"), unrouted=unrouted)


def _substituted(text: str, environ: Mapping[str, str]) -> str | None:
    """Return an address with its variables put in, None when one is not set."""
    names = _SUBSTITUTE.findall(text)
    if any(not environ.get(name) for name in names) or "{file:" in text:
        return None
    return _SUBSTITUTE.sub(lambda match: environ[match.group(1)], text).rstrip("/")


def other_addresses(system: System, files: tuple[str, ...]) -> list[str]:
    """Return the files, of a project or named by a variable, that give a provider an address."""
    named = []
    for path in files:
        try:
            value = read_json(system, path, strict=False)
        except OpenmemError:
            continue  # not ours to mend; OpenCode itself says what is wrong with it
        for name in table_at(value, ("provider",)):
            url = text_at(value, ("provider", name, "options", "baseURL"))
            if url and not routed_port(url, Provider(name=name).route):
                named.append(path)
                break
    return named
