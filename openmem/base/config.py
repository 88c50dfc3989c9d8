"""Settings with their origin: flag, environment, project file, user file, default.

Settings are declared once, as data; the reference page, `config show --origin` and the
environment variables follow from the table. A project's own `.openmem.toml` may only narrow:
switch something off or make a limit smaller, never widen.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from openmem.base.errors import InvalidConfig, Usage
from openmem.base.light import dataclass

Value = bool | int | float | str
PROJECT_FILE = ".openmem.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. `kind`: bool, int, float, str, or choice (then `choices` holds the words).

    `narrows`: how a project file may change it: "off" (true to false), "lower", or "" (never).
    """

    name: str
    kind: str
    default: Value
    help: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    narrows: str = ""

    @property
    def variable(self) -> str:
        """The environment variable: `proxy.port` is `OPENMEM_PROXY_PORT`."""
        return "OPENMEM_" + self.name.replace(".", "_").upper()


SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="provider",
        kind="choice",
        default="local",
        choices=("local", "hindsight", "mem0", "cognee"),
        help="Where memories live.",
    ),
    Setting(
        name="server.url",
        kind="str",
        default="",
        help="Address of the provider's server; empty: the stack that openmem runs here.",
    ),
    Setting(
        name="server.port",
        kind="int",
        default=0,
        minimum=0,
        maximum=65535,
        help="Port of openmem's own stack on 127.0.0.1; 0: the provider's usual one.",
    ),
    Setting(
        name="server.key_file",
        kind="str",
        default="",
        help="File with the provider's key; empty: the one that was made for openmem's own stack.",
    ),
    Setting(
        name="server.user",
        kind="str",
        default="",
        help="Who logs in to Cognee, the key being the password; empty: the key is one of its API.",
    ),
    Setting(
        name="server.ca_file",
        kind="str",
        default="",
        help="Authorities (PEM) that vouch for the server's certificate; empty: the system's.",
    ),
    Setting(
        name="server.timeout_seconds",
        kind="float",
        default=30.0,
        minimum=1,
        maximum=600,
        help="What a call to the provider's server may take.",
    ),
    Setting(
        name="server.litellm_port",
        kind="int",
        default=0,
        minimum=0,
        maximum=65535,
        help="Port of the LiteLLM beside openmem's own stack on 127.0.0.1; 0: there is none.",
    ),
    Setting(
        name="server.infer",
        kind="bool",
        default=False,
        help="Let mem0's model draw facts out of each text; else texts are kept as they are.",
    ),
    Setting(
        name="model.api",
        kind="choice",
        default="openai",
        choices=("openai", "anthropic", "ollama", "litellm", "lemonade"),
        help="What the model of the provider's stack speaks.",
    ),
    Setting(
        name="model.url",
        kind="str",
        default="",
        help="Where that model is; empty: the API's own address, or no model.",
    ),
    Setting(
        name="model.name",
        kind="str",
        default="",
        help="Its name; empty: no model, and the provider keeps texts as they are if it can.",
    ),
    Setting(
        name="model.key",
        kind="str",
        default="",
        help="Where its key is found: env:NAME or file:PATH; empty: it needs none. Never the key.",
    ),
    Setting(
        name="embeddings.url",
        kind="str",
        default="",
        help="Where embeddings come from, if not from the model's address.",
    ),
    Setting(
        name="embeddings.name",
        kind="str",
        default="text-embedding-3-small",
        help="The model that makes embeddings.",
    ),
    Setting(
        name="embeddings.dimensions",
        kind="int",
        default=1536,
        minimum=8,
        maximum=16384,
        help="How many numbers an embedding has; it cannot be changed once memories are stored.",
    ),
    Setting(
        name="proxy.enabled",
        kind="bool",
        default=True,
        narrows="off",
        help="Route wired agents through the proxy.",
    ),
    Setting(
        name="proxy.port",
        kind="int",
        default=8913,
        minimum=1,
        maximum=65535,
        help="Port of the proxy on 127.0.0.1.",
    ),
    Setting(
        name="proxy.body_limit_mb",
        kind="int",
        default=64,
        minimum=1,
        maximum=1024,
        help="Largest decompressed request body that is read for recording, in MB.",
    ),
    Setting(
        name="context.ttl_days",
        kind="int",
        default=30,
        minimum=0,
        maximum=36500,
        narrows="lower",
        help="Days after its last use that a session is kept; 0 keeps all.",
    ),
    Setting(
        name="vectors.model",
        kind="str",
        default="",
        help="The model that makes vectors of stored rows; empty: none are made.",
    ),
    Setting(
        name="vectors.url",
        kind="str",
        default="http://127.0.0.1:11434/v1",
        help="Base address of the OpenAI-compatible API that serves it.",
    ),
    Setting(
        name="vectors.key",
        kind="str",
        default="",
        help="Where its key is found: env:NAME or file:PATH; empty: it needs none. Never the key.",
    ),
    Setting(
        name="vectors.timeout_seconds",
        kind="float",
        default=30.0,
        minimum=1,
        maximum=600,
        help="What a call may take for each row in it.",
    ),
    Setting(
        name="vectors.max_characters",
        kind="int",
        default=4_000,
        minimum=100,
        maximum=100_000,
        help="Characters of each row's head that are sent.",
    ),
    Setting(
        name="vectors.rank",
        kind="bool",
        default=False,
        narrows="off",
        help="Rank searches by words and vectors together; else only where it is asked for.",
    ),
    Setting(
        name="trim.enabled",
        kind="bool",
        default=True,
        narrows="off",
        help="Remove old turns from oversized requests, behind a pointer.",
    ),
    Setting(
        name="trim.soft_tokens",
        kind="int",
        default=0,
        minimum=0,
        maximum=10_000_000,
        help="Prompt tokens from which a new turn is trimmed; 0: the smaller of 100,000 and half "
        "the model's window.",
    ),
    Setting(
        name="trim.hard_tokens",
        kind="int",
        default=0,
        minimum=0,
        maximum=10_000_000,
        help="Prompt tokens from which a request is also trimmed inside a tool loop; 0: the "
        "smaller of 160,000 and 80 % of the window less the output reserve.",
    ),
    Setting(
        name="trim.to_fraction",
        kind="float",
        default=0.3,
        minimum=0.05,
        maximum=0.9,
        help="A trim goes down to this part of the soft threshold.",
    ),
    Setting(
        name="trim.compress_tokens",
        kind="int",
        default=4_000,
        minimum=0,
        maximum=1_000_000,
        help="Tool results above it are shortened when a trim happens; 0: never.",
    ),
    Setting(
        name="trim.keep_steps",
        kind="int",
        default=3,
        minimum=1,
        maximum=100,
        help="Newest tool steps that a trim inside a turn keeps whole.",
    ),
    Setting(
        name="context.redact",
        kind="bool",
        default=True,
        help="Mask secrets before anything is stored.",
    ),
    Setting(
        name="context.price_file",
        kind="str",
        default="",
        help="A file with dollars per million tokens; without one no money is shown.",
    ),
    Setting(
        name="memory.recall",
        kind="bool",
        default=True,
        narrows="off",
        help="Tell agents what is remembered, at the start of a session and at prompts.",
    ),
    Setting(
        name="memory.start_tokens",
        kind="int",
        default=1_200,
        minimum=0,
        maximum=2_000,
        narrows="lower",
        help="At most so many tokens are recalled at the start of a session; 0: none.",
    ),
    Setting(
        name="memory.prompt_hits",
        kind="int",
        default=8,
        minimum=0,
        maximum=20,
        narrows="lower",
        help="At most so many memories are recalled at a prompt; 0: none.",
    ),
    Setting(
        name="memory.keep_turns",
        kind="bool",
        default=True,
        narrows="off",
        help="Keep what was said when a turn ends, so that later sessions find it.",
    ),
    Setting(
        name="memory.passage_days",
        kind="int",
        default=90,
        minimum=0,
        maximum=36_500,
        narrows="lower",
        help="Days that kept turns are found; 0 keeps all.",
    ),
    Setting(
        name="memory.reflect",
        kind="bool",
        default=False,
        narrows="off",
        help="Let memory_reflect ask the model that model.* names; else it gives the memories.",
    ),
    Setting(
        name="memory.daily_tokens",
        kind="int",
        default=100_000,
        minimum=0,
        maximum=100_000_000,
        narrows="lower",
        help="At most so many tokens a day are spent by memory_reflect.",
    ),
    Setting(
        name="mcp.tools",
        kind="choice",
        default="core",
        choices=("core", "full"),
        help="Which memory tools agents get: core is search, add, correct and forget.",
    ),
)

# Tables whose keys the person names; each is `<table>.<name>.<key>` and holds text.
FREE_TABLES: Mapping[str, tuple[str, ...]] = {"routes": ("upstream",)}

_BY_NAME = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from: default, file path, environment variable or flag."""

    value: Value
    source: str


class Config:
    """The settings in force. `values`: by dotted name, with origin; `routes`: agent → upstream."""

    def __init__(self, values: Mapping[str, Origin], routes: Mapping[str, str]) -> None:
        self.values = values
        self.routes = routes

    def get(self, name: str) -> Value:
        return self.values[name].value

    def flag(self, name: str) -> bool:
        value = self.values[name].value
        assert isinstance(value, bool)
        return value

    def number(self, name: str) -> int:
        value = self.values[name].value
        assert isinstance(value, int | float)
        return int(value)

    def text(self, name: str) -> str:
        return str(self.values[name].value)


def setting_of(name: str) -> Setting:
    """Return a setting by its dotted name. Usage names the nearest when there is none."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    import difflib

    near = difflib.get_close_matches(name, _BY_NAME, 1)
    hint = f"Did you mean {near[0]}?" if near else "`openmem config show` lists them."
    raise Usage(f"there is no setting {name!r}.", hint=hint)


def decode_text(setting: Setting, text: str, where: str) -> Value:
    """Return the value written as `text`. InvalidConfig names place and expected kind."""
    if setting.kind == "bool":
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if text.strip().lower() in words:
            return words[text.strip().lower()]
        raise _wrong(setting, text, where)
    if setting.kind in ("int", "float"):
        try:
            number = int(text) if setting.kind == "int" else float(text)
        except ValueError:
            raise _wrong(setting, text, where) from None
        return check(setting, number, where)
    return check(setting, text, where)


def check(setting: Setting, value: object, where: str) -> Value:
    """Return `value` when it is of the setting's kind and range. InvalidConfig otherwise."""
    if setting.kind == "bool" and isinstance(value, bool):
        return value
    if setting.kind == "int" and isinstance(value, int) and not isinstance(value, bool):
        return _in_range(setting, value, where)
    if setting.kind == "float" and isinstance(value, int | float) and not isinstance(value, bool):
        return _in_range(setting, float(value), where)
    if setting.kind == "str" and isinstance(value, str):
        return value
    if setting.kind == "choice" and isinstance(value, str) and value in setting.choices:
        return value
    raise _wrong(setting, value, where)


def _in_range(setting: Setting, value: float, where: str) -> Value:
    low, high = setting.minimum, setting.maximum
    if (low is not None and value < low) or (high is not None and value > high):
        raise _wrong(setting, value, where)
    return value


def _wrong(setting: Setting, value: object, where: str) -> InvalidConfig:
    expected = {
        "bool": "true or false",
        "int": "a whole number",
        "float": "a number",
        "str": "text",
        "choice": "one of " + ", ".join(setting.choices),
    }[setting.kind]
    if setting.minimum is not None and setting.maximum is not None:
        expected += f" from {setting.minimum:g} to {setting.maximum:g}"
    elif setting.minimum is not None:
        expected += f" of at least {setting.minimum:g}"
    return InvalidConfig(f"{where}: {setting.name} is {value!r}, expected {expected}.")


def flatten(document: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return a parsed TOML document as dotted name → value; arrays stay whole."""
    flat: dict[str, object] = {}
    for key, value in document.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            flat.update(flatten(value, f"{name}."))
        else:
            flat[name] = value
    return flat


def read_document(path: str) -> dict[str, object]:
    """Return a TOML file as dotted names, empty when absent. InvalidConfig when unusable."""
    import tomllib

    try:
        with open(path, "rb") as file:
            return flatten(tomllib.load(file))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidConfig(f"{path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path} does not parse: {error}.") from None


def load_config(
    path: str,
    environ: Mapping[str, str],
    *,
    project_dir: str | None = None,
    flags: Mapping[str, Value] | None = None,
) -> Config:
    """Return the settings in force. InvalidConfig names file and key of the first fault."""
    values: dict[str, Origin] = {s.name: Origin(s.default, "default") for s in SETTINGS}
    routes: dict[str, str] = {}
    for name, raw in read_document(path).items():
        free = _free_key(name)
        if free:
            if not isinstance(raw, str):
                raise InvalidConfig(f"{path}: {name} is {raw!r}, expected text.")
            if free[0] == "routes":
                routes[free[1]] = raw
        elif name in _BY_NAME:
            values[name] = Origin(check(_BY_NAME[name], raw, path), path)
        else:
            raise InvalidConfig(
                f"{path}: unknown setting {name!r}.", hint="`openmem config show` lists them."
            )
    if project_dir:
        _narrow(values, os.path.join(project_dir, PROJECT_FILE))
    for setting in SETTINGS:
        text = environ.get(setting.variable)
        if text is not None and text != "":
            values[setting.name] = Origin(
                decode_text(setting, text, setting.variable), setting.variable
            )
    for name, value in (flags or {}).items():
        values[name] = Origin(check(setting_of(name), value, "flag"), "flag")
    return Config(values, routes)


def _free_key(name: str) -> tuple[str, str] | None:
    """Return (table, the person's name) for a key of a free table, None for any other."""
    table, _, rest = name.partition(".")
    if table not in FREE_TABLES:
        return None
    middle, _, last = rest.rpartition(".")
    return (table, middle) if middle and last in FREE_TABLES[table] else None


def _narrow(values: dict[str, Origin], path: str) -> None:
    """Apply a project's file as far as it narrows; what would widen is left out."""
    for name, raw in read_document(path).items():
        setting = _BY_NAME.get(name)
        if setting is None or not setting.narrows:
            continue  # the file travels with a repository: what it may not say is not an error
        value = check(setting, raw, path)
        current = values[name].value
        is_narrower = (
            (value is False and current is True)
            if setting.narrows == "off"
            else (
                isinstance(value, int | float)
                and isinstance(current, int | float)
                and value < current
            )
        )
        if is_narrower:
            values[name] = Origin(value, path)
