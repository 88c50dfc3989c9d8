"""Completion scripts for shells, made from the commands as they are declared.

The scripts are plain text with the words in them: pressing Tab starts no python. They go to the
folders that shells read by themselves, so no start-up file is edited; zsh reads none without being
told, so there the person gets the line to add. They name the words of the version that wrote them.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from openmem.base.paths import Paths

SHELLS = ("bash", "zsh", "fish")
Words = Mapping[str, tuple[str, ...]]


def words_of(tree: Any) -> Words:
    """Return what may follow each command: `"context search"` → its options; groups first."""
    found: dict[str, tuple[str, ...]] = {}

    def walk(node: Any, path: str) -> None:
        children = getattr(node, "commands", None) or {}
        options = [
            name
            for param in node.params
            if param.param_type_name == "option"
            for name in (*param.opts, *param.secondary_opts)
            if name.startswith("--")
        ]
        found[path] = (*children, *options, "--help")
        for name, child in children.items():
            walk(child, f"{path} {name}".strip())

    walk(tree, "")
    return found


def script(shell: str, words: Words) -> str:
    """Return the completion script of a shell. `shell`: one of SHELLS."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](words)


def place(shell: str, paths: Paths) -> str:
    """Return where a shell, or its completion package, looks for a script of the user's."""
    data = paths.environ.get("XDG_DATA_HOME", "").strip() or f"{paths.home}/.local/share"
    config = paths.environ.get("XDG_CONFIG_HOME", "").strip() or f"{paths.home}/.config"
    return {
        "bash": f"{data}/bash-completion/completions/openmem",
        "zsh": f"{data}/zsh/site-functions/_openmem",
        "fish": f"{config}/fish/completions/openmem.fish",
    }[shell]


def _by_length(words: Words) -> list[tuple[str, str]]:
    """Return (path, words) with the longest path first, as `case` patterns are tried in order."""
    paths = sorted(words, key=lambda path: -len(path))
    return [(path, " ".join(words[path])) for path in paths]


def _bash(words: Words) -> str:
    cases = "\n".join(
        f"    {shlex.quote(' ' + path if path else '')}*) words={shlex.quote(text)};;"
        for path, text in _by_length(words)
    )
    return f"""\
# Completion of openmem for bash; written by `openmem completion bash`.
_openmem() {{
  local path='' word words=''
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case $word in -*) ;; *) path="$path $word";; esac
  done
  case "$path" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _openmem openmem
"""


def _zsh(words: Words) -> str:
    cases = "\n".join(
        f"    {shlex.quote(' ' + path if path else '')}*) compadd -- {text};;"
        for path, text in _by_length(words)
    )
    return f"""\
#compdef openmem
# Completion of openmem for zsh; written by `openmem completion zsh`.
_openmem() {{
  local line='' word
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    [[ $word == -* ]] || line="$line $word"
  done
  case "$line" in
{cases}
  esac
  _files
}}
_openmem "$@"
"""


def _fish(words: Words) -> str:
    lines = ["# Completion of openmem for fish; written by `openmem completion fish`."]
    for path, text in sorted((path, " ".join(found)) for path, found in words.items()):
        if not path:
            test = "__fish_use_subcommand"
        else:
            test = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in path.split())
        lines.append(f"complete -c openmem -n {shlex.quote(test)} -a {shlex.quote(text)}")
    return "\n".join(lines) + "\n"
