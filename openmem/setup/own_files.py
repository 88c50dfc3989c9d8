"""Changes of openmem's own two files, `policy.toml` and `config.toml`, as plans.

Both belong to the person once they exist: an edit touches the keys it must, comments and order
stay. A file that does not parse, or says what we do not understand, is refused, never replaced.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping

from openmem.base.config import check, flatten, setting_of
from openmem.base.errors import InvalidConfig, NotFound
from openmem.base.paths import Paths
from openmem.base.policy import USES, VERSION, decode_policy
from openmem.base.settings import Value
from openmem.plan.action import Action, Edit, Json
from openmem.plan.edit.planner import plan_toml_edit, plan_write
from openmem.plan.system import System

_POLICY_HEAD = """\
# Who may be stored, recalled and retained. Hooks, proxy, store and tools all obey this file;
# when it is missing or does not parse, the answer is no to everything.
#   store   sessions are recorded        recall   earlier sessions may be searched
#   retain  turns are kept as memories
# For one folder: `openmem policy explain PATH`, `openmem policy allow PATH`, `… deny PATH`.
"""


def policy_text(*, store_git: bool, store_other: bool) -> bytes:
    """Return a new policy file; sessions whose folder is not known are never stored."""
    lines = [_POLICY_HEAD, f"version = {VERSION}"]
    for kind, allowed in (("git", store_git), ("other", store_other), ("unregistered", False)):
        lines += ["", f"[defaults.{kind}]"]
        lines += [f"{use} = {'true' if allowed else 'false'}" for use in USES]
    return ("\n".join(lines) + "\n").encode()


def plan_policy(
    system: System, paths: Paths, *, store_git: bool | None, store_other: bool | None
) -> list[Action]:
    """Return the write of the policy. None: not said, so an existing file keeps what it holds.

    InvalidConfig when the file there cannot be used.
    """
    path = paths.policy_file
    if _read_policy(system, paths) is None:
        data = policy_text(store_git=store_git is not False, store_other=store_other is True)
        return plan_write(system, path, data, "who may be stored, recalled, retained", 0o600)
    edits = [
        Edit(keys=("defaults", kind, use), op="set", value=allowed)
        for kind, allowed in (("git", store_git), ("other", store_other))
        if allowed is not None
        for use in USES
    ]
    return plan_toml_edit(system, path, edits, why="the defaults of the policy")


def plan_rule(
    system: System,
    paths: Paths,
    *,
    path: str | None,
    remote: str | None,
    uses: Mapping[str, bool],
    reason: str,
) -> list[Action]:
    """Return the write that makes a rule for a folder or for remotes say `uses`.

    `path`: absolute; the rule that names the same folder is changed, else one is added. With no
    policy yet, one is made that says no to everything else.
    """
    document = _read_policy(system, paths)
    words = ", ".join(f"{use} {'yes' if allowed else 'no'}" for use, allowed in uses.items())
    why = f"{words} for {path or remote}"
    if document is None:
        head = policy_text(store_git=False, store_other=False)
        return plan_write(
            system, paths.policy_file, head + _rule_text(path, remote, uses, reason), why, 0o600
        )
    number = _rule_number(document, paths.home, path, remote)
    if number is None:
        rule: dict[str, Json] = {"path": path} if path else {"remote": remote}
        rule.update(uses)
        if reason:
            rule["why"] = reason
        edits = [Edit(keys=("rules",), op="append", value=rule)]
    else:
        values: dict[str, Json] = {**uses, **({"why": reason} if reason else {})}
        edits = [
            Edit(keys=("rules", number, name), op="set", value=value)
            for name, value in values.items()
        ]
    return plan_toml_edit(system, paths.policy_file, edits, why=why)


def plan_link(
    system: System, paths: Paths, *, path: str | None, remote: str | None, bank: str
) -> list[Action]:
    """Return the write that lets a folder or remotes use a bank. InvalidConfig on a bad name.

    The link that names the same folder or remotes is changed, else one is added. Without a policy
    there is nothing to link in: InvalidConfig says so.
    """
    document = _read_policy(system, paths)
    if document is None:
        raise InvalidConfig(
            f"there is no policy at {paths.policy_file}.", hint="Make one: openmem setup"
        )
    number = _link_number(document, paths.home, path, remote)
    why = f"{path or remote} uses bank {bank}"
    if number is None:
        link: dict[str, Json] = {"path": path} if path else {"remote": remote}
        edits = [Edit(keys=("links",), op="append", value={**link, "bank": bank})]
    else:
        edits = [Edit(keys=("links", number, "bank"), op="set", value=bank)]
    return plan_toml_edit(system, paths.policy_file, edits, why=why)


def plan_unlink(
    system: System, paths: Paths, *, path: str | None, remote: str | None
) -> list[Action]:
    """Return the write that takes a link out. NotFound when there is none."""
    document = _read_policy(system, paths)
    number = _link_number(document, paths.home, path, remote) if document else None
    if number is None:
        raise NotFound(f"no link names {path or remote}.", hint="`openmem policy show` lists them.")
    edit = Edit(keys=("links", number), op="remove")
    why = f"{path or remote} uses its own bank"
    return plan_toml_edit(system, paths.policy_file, [edit], why=why)


def _link_number(
    document: Mapping[str, object], home: str, path: str | None, remote: str | None
) -> int | None:
    for number, link in enumerate(decode_policy(document, home).links):
        if (path and link.path == os.path.realpath(path)) or (remote and link.remote == remote):
            return number
    return None


def _rule_text(
    path: str | None, remote: str | None, uses: Mapping[str, bool], reason: str
) -> bytes:
    import json  # a JSON string is a TOML string, but for DEL, which no path of ours holds

    named = {"path": path, "remote": remote, "why": reason}
    lines = ["", "[[rules]]"]
    lines += [
        f"{key} = {json.dumps(text, ensure_ascii=False)}" for key, text in named.items() if text
    ]
    lines += [f"{use} = {'true' if allowed else 'false'}" for use, allowed in uses.items()]
    return ("\n".join(lines) + "\n").encode()


def _rule_number(
    document: Mapping[str, object], home: str, path: str | None, remote: str | None
) -> int | None:
    for number, rule in enumerate(decode_policy(document, home).rules):
        if (path and rule.path == os.path.realpath(path)) or (remote and rule.remote == remote):
            return number
    return None


def _read_policy(system: System, paths: Paths) -> dict[str, object] | None:
    """Return the parsed policy, None when there is none. InvalidConfig when it cannot be used."""
    document = _parsed(system, paths.policy_file)
    if document is not None:
        try:
            decode_policy(document, paths.home)
        except ValueError as error:
            raise InvalidConfig(f"{paths.policy_file}: {error}. Nothing was written.") from None
    return document


def _parsed(system: System, path: str) -> dict[str, object] | None:
    data = system.read(path)
    if data is None:
        return None
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path} does not parse: {error}. Nothing was written.") from None


def plan_config(
    system: System,
    paths: Paths,
    *,
    values: Mapping[str, Value],
    routes: Mapping[str, str],
    why: str,
) -> list[Action]:
    """Return the write that makes the settings file state `values` and `routes`.

    `values`: by dotted name, all of them stated, because the agents' settings repeat the port and
    must not part from ours when a default changes. `routes`: agent → upstream.
    """
    edits = [
        Edit(keys=tuple(name.split(".")), op="set", value=check(setting_of(name), value, "answer"))
        for name, value in values.items()
    ]
    edits += [
        Edit(keys=("routes", agent, "upstream"), op="set", value=url)
        for agent, url in routes.items()
    ]
    return plan_toml_edit(system, paths.config_file, edits, why=why, mode=_mode(system, paths))


def plan_setting(system: System, paths: Paths, name: str, value: Value) -> list[Action]:
    """Return the write that states one setting, also when it is the default."""
    keys = tuple(name.split("."))
    edit = Edit(keys=keys, op="set", value=check(setting_of(name), value, "value"))
    return plan_toml_edit(
        system, paths.config_file, [edit], why=f"{name} = {value}", mode=_mode(system, paths)
    )


def plan_route(system: System, paths: Paths, agent: str, upstream: str) -> list[Action]:
    """Return the write that states where an agent's requests go."""
    edit = Edit(keys=("routes", agent, "upstream"), op="set", value=upstream)
    why = f"requests of {agent} go to {upstream}"
    return plan_toml_edit(system, paths.config_file, [edit], why=why, mode=_mode(system, paths))


def plan_unset(system: System, paths: Paths, name: str) -> list[Action]:
    """Return the write that takes a setting out, so that its default holds. NotFound if absent."""
    keys = tuple(name.split("."))
    if name not in flatten(_parsed(system, paths.config_file) or {}):
        raise NotFound(f"{paths.config_file} does not state {name}.")
    edit = Edit(keys=keys, op="remove")
    return plan_toml_edit(system, paths.config_file, [edit], why=f"the default of {name} holds")


def _mode(system: System, paths: Paths) -> int | None:
    """Return the mode for a settings file that does not exist yet; an existing one keeps its."""
    return None if system.stat(paths.config_file) else 0o600
