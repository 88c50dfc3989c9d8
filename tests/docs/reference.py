"""The parts of the reference that follow from the program: made from it, kept as text in the docs.

`UPDATE_GOLDEN=1 pytest tests/docs` writes them; the diff is read by a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from openmem.base.settings import FREE_TABLES, SETTINGS
from openmem.base.errors import EXIT_CODES
from openmem.cli.app import app
from openmem.setup.questions import QUESTIONS

DOCS = Path(__file__).resolve().parents[2] / "docs"
_MADE = re.compile(r"(<!-- made from (\w+) -->\n).*?(<!-- end -->)", re.S)


def commands() -> Iterator[tuple[str, Any]]:
    """Yield each command: its words and the parser's object."""

    def walk(node: Any, words: str) -> Iterator[tuple[str, Any]]:
        for name, child in node.commands.items():
            path = f"{words} {name}".strip()
            if getattr(child, "commands", None):
                yield from walk(child, path)
            else:
                yield path, child

    yield from walk(typer.main.get_command(app), "")


def options_of(command: Any) -> list[Any]:
    """Return a command's options, help aside."""
    return [
        param
        for param in command.params
        if param.param_type_name == "option" and "--help" not in param.opts
    ]


def spelled(option: Any) -> str:
    """Return an option as it is typed: `--role`, `--hooks/--no-hooks`, `-n, --dry-run`."""
    names = sorted(option.opts, key=lambda name: name.startswith("--"))
    text = ", ".join(names)
    return text + "".join(f"/{name}" for name in option.secondary_opts)


def _commands() -> str:
    lines: list[str] = []
    for path, command in commands():
        sentence, _, rest = (command.help or "").partition("\n\n")
        effect = rest.partition("Effect: ")[2].partition("\n\n")[0]
        example = rest.partition("Example: ")[2].strip()
        lines += [f"## openmem {path}", "", " ".join(sentence.split()), "", f"Effect: {effect}", ""]
        lines += [f"    {example}", ""]
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        rows = [(f"`{p.name.upper()}`", p.help or "") for p in arguments]
        rows += [(f"`{spelled(p)}`", p.help or "") for p in options_of(command)]
        if rows:
            lines += ["| word | what it does |", "| --- | --- |"]
            lines += [f"| {name} | {text} |" for name, text in rows]
            lines.append("")
    return "\n".join(lines)


def _settings() -> str:
    lines = [
        "| setting | variable | kind | default | what it does |",
        "| --- | --- | --- | --- | --- |",
    ]
    for setting in SETTINGS:
        kind = setting.kind
        if setting.choices:
            kind = " or ".join(f"`{choice}`" for choice in setting.choices)
        elif setting.minimum is not None and setting.maximum is not None:
            kind = f"{kind}, {setting.minimum:g} to {setting.maximum:g}"
        default = (
            str(setting.default).lower() if isinstance(setting.default, bool) else setting.default
        )
        narrows = {"off": " A project may switch it off.", "lower": " A project may lower it."}
        lines.append(
            f"| `{setting.name}` | `{setting.variable}` | {kind} | `{default}` | "
            f"{setting.help}{narrows.get(setting.narrows, '')} |"
        )
    for table, keys in FREE_TABLES.items():
        lines += [f"| `{table}.NAME.{key}` | – | str | – | See below. |" for key in keys]
    return "\n".join(lines) + "\n"


def _exits() -> str:
    lines = ["| code | meaning |", "| --- | --- |"]
    lines += [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    return "\n".join(lines) + "\n"


def _questions() -> str:
    lines = ["| answer | kind | flag | what it does |", "| --- | --- | --- | --- |"]
    lines += [f"| `{q.name}` | {q.kind} | `{q.flag}` | {q.help} |" for q in QUESTIONS]
    return "\n".join(lines) + "\n"


MAKERS = {
    "commands": _commands,
    "settings": _settings,
    "exits": _exits,
    "questions": _questions,
}


def remade(text: str) -> str:
    """Return a page with its made parts as the program says now."""
    return _MADE.sub(lambda m: m.group(1) + "\n" + MAKERS[m.group(2)]() + "\n" + m.group(3), text)
