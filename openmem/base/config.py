"""Settings with their origin: flag, environment, project file, user file, default.

They are declared in `settings.py`. A project's own `.openmem.toml` may only narrow:
switch something off or make a limit smaller, never widen.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from openmem.base.errors import InvalidConfig, Usage
from openmem.base.light import dataclass
from openmem.base.settings import FREE_TABLES, SETTINGS, Setting, Value

PROJECT_FILE = ".openmem.toml"

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
