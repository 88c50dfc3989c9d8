"""Secrets masked before anything is stored or sent to a provider; fails closed.

Idea: gitleaks' rules as data, and generic rules of ours for what those leave out. A rule is tried
only near its keywords, so text without any costs a few substring searches.
Invariant: works on decoded text; a secret becomes `[REDACTED:rule:hash8]`, keyed with the
installation's key, so that equal secrets stay equal and the mask gives nothing away; masking
twice changes nothing.
Trap: never feed it raw JSON (an escape's letter reads as part of a token) nor ids that link
records together. Every look-around is bounded by a window, so no input makes a rule quadratic.
"""

from __future__ import annotations

from dataclasses import dataclass

from openmem.base.redact.scan import Finding, find_secrets

__all__ = ["Finding", "Redacted", "find_secrets", "mask_of", "redact"]


@dataclass(frozen=True, slots=True)
class Redacted:
    """The masked text and the rules that masked something, one name a secret; never a value."""

    text: str
    kinds: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.kinds)


def mask_of(rule: str, secret: str, key: bytes) -> str:
    """Return the mask of a secret: equal secrets give equal hash8 under one key."""
    import hashlib  # costs a hook that masks nothing several milliseconds
    import hmac

    digest = hmac.new(key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
    return f"[REDACTED:{rule}:{digest[:8]}]"


def redact(text: str, key: bytes) -> Redacted:
    """Return `text` with its secrets masked. Idempotent."""
    findings = find_secrets(text)
    if not findings:
        return Redacted(text)
    parts: list[str] = []
    done = 0
    for finding in findings:
        parts.append(text[done : finding.start])
        parts.append(mask_of(finding.rule, text[finding.start : finding.end], key))
        done = finding.end
    parts.append(text[done:])
    return Redacted("".join(parts), tuple(finding.rule for finding in findings))
