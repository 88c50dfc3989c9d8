"""The gate: may this workspace be stored, recalled, retained, and why.

One file, `policy.toml`, written by setup and read by hooks, proxy, store, MCP server and indexer
through `load_policy` and `decide`. It also says which bank a workspace has: `bank_of` is the one
function for reads and writes. Fails closed: a file that is missing, unreadable or invalid
answers no to everything. Precedence, for each use by itself: the rule with the most specific path
that states the use; then a rule by remote; then the default of the kind of workspace.
Source: design, sections 4 and 8.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping

from openmem.base.light import dataclass, field
from openmem.base.workspace import Workspace

USES = ("store", "recall", "retain")
KINDS = ("git", "other", "unregistered")
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What the person said of one folder (with all below it) or of remotes that match a pattern.

    `path`: absolute and resolved, or None; `remote`: `host/path` with `*`, or None.
    `uses`: only the uses the rule states. `why`: the person's words, may be empty.
    """

    path: str | None = None
    remote: str | None = None
    uses: tuple[tuple[str, bool], ...] = ()
    why: str = ""

    def states(self, use: str) -> bool | None:
        for name, allowed in self.uses:
            if name == use:
                return allowed
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A workspace folder from which one more bank may be read."""

    path: str
    bank: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A folder (with all below it) or remotes whose bank is another than their own.

    `path`: absolute and resolved, or None; `remote`: `host/path` with `*`, or None.
    """

    bank: str
    path: str | None = None
    remote: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The whole policy. `problem`: why the file cannot be used, empty when it can."""

    defaults: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    grants: tuple[Grant, ...] = ()
    links: tuple[Link, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer for one workspace; each use with its reason in one clause."""

    store: bool
    recall: bool
    retain: bool
    reasons: Mapping[str, str]

    def allows(self, use: str) -> bool:
        return bool(getattr(self, use))


def load_policy(path: str, home: str) -> Policy:
    """Read the policy file. Never raises: `problem` says what is wrong and everything is denied."""
    import tomllib

    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except FileNotFoundError:
        return Policy(problem=f"there is no policy at {path}; run `openmem setup`")
    except OSError as error:
        return Policy(problem=f"{path} cannot be read: {error.strerror}")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return Policy(problem=f"{path} does not parse: {error}")
    try:
        return decode_policy(document, home)
    except ValueError as error:
        return Policy(problem=f"{path}: {error}")


def decode_policy(document: Mapping[str, object], home: str) -> Policy:
    """Return the policy a parsed document states. ValueError names key and expected kind."""
    version = document.get("version")
    if version != VERSION:
        raise ValueError(f"version is {version!r}, expected {VERSION}")
    unknown = set(document) - {"version", "defaults", "rules", "grants", "links"}
    if unknown:
        raise ValueError(f"unknown key {sorted(unknown)[0]!r}")
    defaults: dict[str, dict[str, bool]] = {}
    stated = document.get("defaults", {})
    if not isinstance(stated, dict):
        raise ValueError("defaults: expected a table")
    for kind, uses in stated.items():
        if kind not in KINDS:
            raise ValueError(f"defaults.{kind}: expected one of {', '.join(KINDS)}")
        defaults[kind] = dict(_uses(uses, f"defaults.{kind}", extra=()))
    rules = tuple(_rule(entry, n, home) for n, entry in enumerate(_tables(document, "rules"), 1))
    grants = tuple(_grant(entry, n, home) for n, entry in enumerate(_tables(document, "grants"), 1))
    links = tuple(_link(entry, n, home) for n, entry in enumerate(_tables(document, "links"), 1))
    return Policy(defaults=defaults, rules=rules, grants=grants, links=links)


def _tables(document: Mapping[str, object], key: str) -> list[object]:
    value = document.get(key, [])
    if not isinstance(value, list):
        raise ValueError(f"{key}: expected an array of tables ([[{key}]])")
    return value


def _uses(value: object, where: str, extra: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected a table")
    found: list[tuple[str, bool]] = []
    for name, allowed in value.items():
        if name in extra:
            continue
        if name not in USES:
            raise ValueError(f"{where}.{name}: unknown, expected {', '.join(USES)}")
        if not isinstance(allowed, bool):
            raise ValueError(f"{where}.{name}: expected true or false")
        found.append((name, allowed))
    return tuple(found)


def _text(entry: Mapping[str, object], key: str, where: str) -> str | None:
    value = entry.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise ValueError(f"{where}.{key}: expected text")
    return value


def _rule(entry: object, number: int, home: str) -> Rule:
    where = f"rules[{number}]"
    uses = _uses(entry, where, extra=("path", "remote", "why"))
    assert isinstance(entry, dict)
    path, remote = _text(entry, "path", where), _text(entry, "remote", where)
    if (path is None) == (remote is None):
        raise ValueError(f"{where}: expected either path or remote")
    if not uses:
        raise ValueError(f"{where}: expected at least one of {', '.join(USES)}")
    return Rule(
        path=_resolved(path, home) if path else None,
        remote=remote,
        uses=uses,
        why=_text(entry, "why", where) or "",
    )


def _grant(entry: object, number: int, home: str) -> Grant:
    where = f"grants[{number}]"
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: expected a table")
    path, bank = _text(entry, "path", where), _text(entry, "bank", where)
    if path is None or bank is None:
        raise ValueError(f"{where}: expected path and bank")
    return Grant(path=_resolved(path, home), bank=check_bank(bank, f"{where}.bank"))


def _link(entry: object, number: int, home: str) -> Link:
    where = f"links[{number}]"
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: expected a table")
    unknown = set(entry) - {"path", "remote", "bank"}
    if unknown:
        raise ValueError(f"{where}.{sorted(unknown)[0]}: unknown, expected path, remote, bank")
    path, remote = _text(entry, "path", where), _text(entry, "remote", where)
    if (path is None) == (remote is None):
        raise ValueError(f"{where}: expected either path or remote")
    bank = check_bank(_text(entry, "bank", where) or "", f"{where}.bank")
    return Link(path=_resolved(path, home) if path else None, remote=remote, bank=bank)


def check_bank(name: str, where: str) -> str:
    """Return a bank's name when it can be one: printable, without blanks. ValueError."""
    if not name or len(name) > 200 or not name.isprintable() or any(c.isspace() for c in name):
        raise ValueError(f"{where}: {name[:40]!r} is not a bank's name")
    return name


def _resolved(path: str, home: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    if not os.path.isabs(path):
        raise ValueError(f"path {path!r} is not absolute")
    return os.path.realpath(path)


def _is_inside(folder: str, root: str) -> bool:
    return folder == root or folder.startswith(root.rstrip("/") + "/")


def _places(workspace: Workspace) -> tuple[str, ...]:
    """Return the folders a path rule may name: the folder itself and its repository's home.

    A linked worktree stands elsewhere on disk but is the same project, so a rule on the
    repository's main folder reaches it too.
    """
    places = [workspace.folder]
    if workspace.common_dir and os.path.basename(workspace.common_dir) == ".git":
        places.append(os.path.dirname(workspace.common_dir))
    return tuple(places)


def decide(policy: Policy, workspace: Workspace | None) -> Decision:
    """Return what may be done in a workspace; None is a session whose folder is not known."""
    answers: dict[str, bool] = {}
    reasons: dict[str, str] = {}
    for use in USES:
        answers[use], reasons[use] = _answer(policy, workspace, use)
    return Decision(reasons=reasons, **answers)


def _answer(policy: Policy, workspace: Workspace | None, use: str) -> tuple[bool, str]:
    if policy.problem:
        return False, policy.problem
    if workspace is None:
        kind = "unregistered"
    else:
        by_path = [
            (len(rule.path), rule)
            for rule in policy.rules
            if rule.path
            and rule.states(use) is not None
            and any(_is_inside(place, rule.path) for place in _places(workspace))
        ]
        if by_path:
            longest = max(length for length, _ in by_path)
            matching = [rule for length, rule in by_path if length == longest]
            return _strictest(matching, use, f"rule for {matching[0].path}")
        by_remote = [
            rule
            for rule in policy.rules
            if rule.remote
            and rule.states(use) is not None
            and any(fnmatch.fnmatchcase(remote, rule.remote) for remote in workspace.remotes)
        ]
        if by_remote:
            return _strictest(by_remote, use, f"rule for remote {by_remote[0].remote}")
        kind = "git" if workspace.git_root else "other"
    allowed = policy.defaults.get(kind, {}).get(use, False)
    names = {"git": "git repositories", "other": "other folders", "unregistered": "no folder known"}
    return allowed, f"default for {names[kind]}"


def _strictest(rules: list[Rule], use: str, reason: str) -> tuple[bool, str]:
    """Return no when any of several equal rules says no."""
    allowed = all(rule.states(use) for rule in rules)
    why = next((rule.why for rule in rules if rule.why), "")
    return allowed, f"{reason}: {why}" if why else reason


def bank_of(policy: Policy, workspace: Workspace) -> str:
    """Return the bank of a workspace, for reads and writes alike.

    The link with the most specific path decides, then a link by remote, then the workspace itself.
    """
    places = _places(workspace)
    best: Link | None = None
    for link in policy.links:
        is_here = link.path and any(_is_inside(place, link.path) for place in places)
        if is_here and len(link.path or "") > len((best.path if best else "") or ""):
            best = link
    if best is None:
        best = next(
            (
                link
                for link in policy.links
                if link.remote
                and any(fnmatch.fnmatchcase(remote, link.remote) for remote in workspace.remotes)
            ),
            None,
        )
    return best.bank if best else workspace.bank


def may_read_bank(policy: Policy, workspace: Workspace | None, bank: str) -> bool:
    """Return whether a workspace may read a bank: its own, or one a grant names."""
    if workspace is None or policy.problem or not decide(policy, workspace).recall:
        return False
    if bank == bank_of(policy, workspace):
        return True
    return any(
        grant.bank == bank and any(_is_inside(place, grant.path) for place in _places(workspace))
        for grant in policy.grants
    )
