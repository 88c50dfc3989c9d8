"""The rules: gitleaks' file, read as data, and our own for what it leaves out.

A rule is compiled when a text first holds one of its keywords: most processes need few of the
240, and a hook needs none. With the `re2` extra Google's linear-time engine compiles them; else
the standard library does, after a port of the Go syntax it does not know.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from openmem.base.redact.named import NAMED_RULES
from openmem.base.redact.own import FORMED_RULES, VENDOR_RULE, OwnRule

DATA_FILE = "gitleaks.toml"
# gitleaks rules that our own rule of the same kind replaces (wider, and bounded).
_GENERIC = frozenset({"generic-api-key"})
_REPLACED = frozenset({"private-key", "jwt", "curl-auth-user", "curl-auth-header", "pkcs12-file"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of secret.

    `keywords`: lower case; one must occur near a match. `reach`: characters before and after a
    keyword that a match may span. `group`: the group that is the secret, 0 for the first that
    took part, -1 for the whole match. `anchored`: a match begins where a keyword does, so it is
    tried only there. `entropy`: bits a character the secret needs at least.
    `refuse`: says that a candidate (secret, whole match, its line) is none.
    """

    name: str
    source: str
    keywords: tuple[str, ...]
    reach: int = 400
    group: int = 0
    entropy: float = 0.0
    anchored: bool = False
    refuse: tuple[Callable[[str, str, str], bool], ...] = field(default=())


def load_rules() -> tuple[Rule, ...]:
    """Return all rules; where two match the same place, the first names it.

    A form names better than the words beside it: our forms, gitleaks' rules, the vendors' prefixes,
    then the rules that go by words.
    """
    return _rules()


@functools.cache
def _rules() -> tuple[Rule, ...]:
    import tomllib

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), DATA_FILE)
    with open(path, "rb") as file:
        document = tomllib.load(file)
    shared = _refusals(document["allowlist"])
    # gitleaks means file paths by some rules; a session's text has none to go by.
    taken = [r for r in document["rules"] if "regex" in r and r["id"] not in _REPLACED]
    foreign = [_foreign(entry, shared) for entry in taken if "path" not in entry]
    return (
        *(_own(rule) for rule in FORMED_RULES),
        *(rule for rule in foreign if rule.name not in _GENERIC),
        *(_own(rule) for rule in (VENDOR_RULE, *NAMED_RULES)),
        *(rule for rule in foreign if rule.name in _GENERIC),
    )


def _own(rule: OwnRule) -> Rule:
    return Rule(
        name=rule.name,
        source=rule.pattern,
        keywords=rule.keywords,
        reach=rule.reach,
        group=rule.group,
        entropy=rule.entropy,
        anchored=rule.anchored,
        refuse=(rule.refuse,) if rule.refuse else (),
    )


def _foreign(entry: Mapping[str, Any], shared: tuple[Callable[[str, str, str], bool], ...]) -> Rule:
    refuse = list(shared)
    for allowlist in entry.get("allowlists", ()):
        refuse.extend(_refusals(allowlist))
    return Rule(
        name=entry["id"],
        source=_without_lead(entry["regex"]),
        keywords=tuple(word.lower() for word in entry["keywords"]),
        reach=1200 if "{100,}" in entry["regex"] or "{250,}" in entry["regex"] else 400,
        group=entry.get("secretGroup", 0),
        entropy=float(entry.get("entropy", 0.0)),
        anchored=entry["id"] in _GENERIC,
        refuse=tuple(refuse),
    )


def _without_lead(source: str) -> str:
    """Return a rule without the free characters before its keyword.

    They are no part of the secret, and trying fifty lengths of them at every letter of a long
    word is what makes these rules slow.
    """
    lead = r"(?i)[\w.-]{0,50}?"
    return "(?i)" + source[len(lead) :] if source.startswith(lead) else source


def _refusals(allowlist: Mapping[str, Any]) -> tuple[Callable[[str, str, str], bool], ...]:
    """Return the checks of one allowlist; those that name only file paths give none."""
    checks: list[Callable[[str, str, str], bool]] = []
    target = {"match": 1, "line": 2}.get(allowlist.get("regexTarget", "secret"), 0)
    sources = allowlist.get("regexes", ())
    if sources:
        compiled = [compile_pattern(source) for source in sources]
        checks.append(
            lambda secret, match, line: any(
                pattern.search((secret, match, line)[target]) for pattern in compiled
            )
        )
    words = tuple(word.lower() for word in allowlist.get("stopwords", ()))
    if words:
        checks.append(lambda secret, match, line: _holds(secret.lower(), words))
    if allowlist.get("condition") == "AND" and len(checks) > 1:
        return (lambda *parts: all(check(*parts) for check in checks),)
    return tuple(checks)


def _holds(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text for word in words)


def engine_name() -> str:
    """Return which engine compiles the rules: `re2` or `re`."""
    return "re2" if re2_module() else "re"


@functools.cache
def re2_module() -> Any:
    """Return (module, options) of the re2 extra, None without it."""
    try:
        import re2  # the extra
    except ImportError:
        return None
    options = re2.Options()
    options.log_errors = False
    return (re2, options)


@functools.cache
def compile_pattern(source: str, *, stdlib: bool = False) -> Any:
    """Return a compiled pattern: re2 where it can, else the standard library on the ported text."""
    found = None if stdlib else re2_module()
    if found:
        module, options = found
        try:
            return module.compile(source, options=options)
        except module.error:
            pass  # look-behind in our own rules; a repeat over 1000
    return re.compile(port(source))


_POSIX = {"alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "digit": "0-9", "upper": "A-Z", "lower": "a-z"}


def port(source: str) -> str:
    """Return Go regular-expression text as the standard library reads it.

    `(?i)` in the middle holds to the end of its group: it becomes `(?i:` closed there. `\\z` is
    `\\Z`; POSIX classes are spelt out; unbounded repeats of any character get a bound.
    """
    text = source.replace(r"\z", r"\Z")
    for name, members in _POSIX.items():
        text = text.replace(f"[:{name}:]", members)
    return _scope_flags(text)


def _scope_flags(text: str) -> str:
    out: list[str] = []
    opened: list[int] = [0]  # per open group: how many `(?i:` of ours it holds
    in_class = False
    i = 0
    while i < len(text):
        char = text[i]
        if char == "\\":
            out.append(text[i : i + 2])
            i += 2
            continue
        if in_class:
            if char == "[":
                out.append("\\")  # a bracket inside a class: literal, but a future warning
            in_class = char != "]" or out[-1] in ("[", "[^")
            out.append(char)
        elif char == "[":
            in_class = True
            negated = text.startswith("[^", i)
            out.append("[^" if negated else "[")
            i += 1 if negated else 0
        elif text.startswith("(?i)", i):
            opened[-1] += 1
            out.append("(?i:")
            i += 4
            continue
        elif char == "(":
            opened.append(0)
            out.append(char)
        elif char == ")":
            out.append(")" * (opened.pop() + 1))
        elif char == "|" and opened[-1]:
            # the flag also holds in the group's next alternatives
            count = opened[-1]
            out.append(")" * count + "|" + "(?i:" * count)
        else:
            out.append(char)
        i += 1
    out.append(")" * opened[0])
    return "".join(out)
