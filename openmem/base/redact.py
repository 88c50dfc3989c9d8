"""Secrets masked before anything is stored or sent to a provider; fails closed.

Works on decoded text, never on raw JSON. A secret becomes `[REDACTED:rule:hash8]`, where hash8 is
keyed with the installation's key: equal secrets stay equal, so counts and search still work, and
the mask gives nothing away. Every repeat is bounded, so no input makes a rule quadratic.
Source: vendors' published formats; measured beside gitleaks' rules, which the full set adds.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

_EDGE = r"(?<![A-Za-z0-9_-])"
_END = r"(?![A-Za-z0-9_-])"


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret. `needle`: lower-case text that must occur before the pattern is tried.

    `pattern`: its group `secret`, else the whole match, is masked.
    """

    name: str
    needle: str
    pattern: re.Pattern[str]


def _rule(name: str, needle: str, pattern: str, flags: int = 0) -> Rule:
    return Rule(name, needle, re.compile(pattern, flags))


RULES: tuple[Rule, ...] = (
    _rule(
        "private-key",
        "private key",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"[\s\S]{0,16384}?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    ),
    _rule("anthropic", "sk-ant-", _EDGE + r"sk-ant-[a-z0-9]{2,12}-[A-Za-z0-9_-]{16,256}"),
    _rule("openai", "sk-", _EDGE + r"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,256}"),
    _rule("openai", "sk-", _EDGE + r"sk-[A-Za-z0-9]{32,64}" + _END),
    _rule("github", "gh", _EDGE + r"gh[pousr]_[A-Za-z0-9]{36,255}" + _END),
    _rule("github", "github_pat_", _EDGE + r"github_pat_[A-Za-z0-9_]{22,255}" + _END),
    _rule("gitlab", "glpat-", _EDGE + r"glpat-[A-Za-z0-9_-]{20,64}"),
    _rule("aws-key-id", "", _EDGE + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}" + _END),
    _rule(
        "aws-secret",
        "aws",
        r"(?i:aws[a-z0-9_ .-]{0,24}(?:secret|access)[a-z0-9_ .-]{0,24}"
        r"[\"']?\s{0,4}[:=]{1,2}>?\s{0,4}"
        r"[\"']?)(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
    _rule("google", "aiza", _EDGE + r"AIza[A-Za-z0-9_-]{35}" + _END),
    _rule("google-oauth", "ya29.", _EDGE + r"ya29\.[A-Za-z0-9_-]{20,512}"),
    _rule("slack", "xox", _EDGE + r"xox[abeoprs]-[A-Za-z0-9-]{10,255}"),
    _rule("stripe", "_live_", _EDGE + r"(?:sk|rk)_live_[A-Za-z0-9]{16,128}" + _END),
    _rule("npm", "npm_", _EDGE + r"npm_[A-Za-z0-9]{36}" + _END),
    _rule("pypi", "pypi-", _EDGE + r"pypi-AgE[A-Za-z0-9_-]{50,512}"),
    _rule("huggingface", "hf_", _EDGE + r"hf_[A-Za-z0-9]{34,40}" + _END),
    _rule(
        "azure-storage",
        "accountkey",
        r"(?i:accountkey\s{0,2}=\s{0,2})(?P<secret>[A-Za-z0-9+/]{86}==)",
    ),
    _rule(
        "jwt",
        "eyj",
        _EDGE + r"eyJ[A-Za-z0-9_-]{8,2048}\.eyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{8,1024}",
    ),
    _rule(
        "url-password",
        "://",
        r"(?i:[a-z][a-z0-9+.-]{1,20}://)[^\s:/@\"'<>]{0,128}:(?P<secret>[^\s:/@\"'<>]{1,256})@",
    ),
)

_EXAMPLES = frozenset({"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"})


@dataclass(frozen=True, slots=True)
class Redacted:
    """The masked text and how many secrets of which rule it held; never a value."""

    text: str
    kinds: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.kinds)


def mask_of(rule: str, secret: str, key: bytes) -> str:
    """Return the mask of a secret: equal secrets give equal masks under one key."""
    digest = hmac.new(key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
    return f"[REDACTED:{rule}:{digest[:8]}]"


def redact(text: str, key: bytes) -> Redacted:
    """Return `text` with its secrets masked. Idempotent: masks are never masked again."""
    lowered = text.lower() if any(c.isupper() for c in text[:4096]) or len(text) > 4096 else text
    kinds: list[str] = []
    for rule in RULES:
        if rule.needle and rule.needle not in lowered:
            continue
        text = _apply(rule, text, key, kinds)
    return Redacted(text, tuple(kinds))


def _apply(rule: Rule, text: str, key: bytes, kinds: list[str]) -> str:
    def mask(match: re.Match[str]) -> str:
        group = "secret" if "secret" in rule.pattern.groupindex else 0
        secret = match.group(group)
        if (
            secret in _EXAMPLES
            or secret.startswith(("[REDACTED", "$", "{{"))
            or set(secret) <= {"*", "x", "."}
        ):
            return match.group(0)
        kinds.append(rule.name)
        start, end = match.span(group)
        whole = match.group(0)
        offset = match.start()
        return whole[: start - offset] + mask_of(rule.name, secret, key) + whole[end - offset :]

    return rule.pattern.sub(mask, text)
