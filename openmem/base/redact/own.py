"""Our own rules for secrets with a form: key blocks, and vendors' keys that gitleaks has narrower.

Each repeat is bounded. Secrets that only the words beside them give away are in `named.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from openmem.base.redact.prefixes import prefix_keywords, prefix_pattern
from openmem.base.redact.refusals import is_example, is_masked, is_placeholder

_EDGE = r"(?<![A-Za-z0-9_-])"
_END = r"(?![A-Za-z0-9_-])"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRule:
    """As `rules.Rule`, with one refusal."""

    name: str
    pattern: str
    keywords: tuple[str, ...]
    reach: int = 400
    group: int = 0
    entropy: float = 0.0
    anchored: bool = False
    refuse: Callable[[str, str, str], bool] | None = None


FORMED_RULES: tuple[OwnRule, ...] = (
    OwnRule(
        name="private-key",
        keywords=("private key",),
        reach=20_000,
        group=-1,
        pattern=r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[\s\S]{0,18000}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:(?:\\n|\\r|[\s>|0-9\u2192]){0,14}"
        r"(?:[A-Za-z0-9+/=]{16,120}|[A-Z][A-Za-z-]{3,20}: [^\n\\]{0,99})){0,300})",
    ),
    OwnRule(
        name="openssh-key",
        keywords=("b3blbnnzac1rzxktdj",),
        reach=20_000,
        anchored=True,
        group=-1,
        pattern=r"b3BlbnNzaC1rZXktdj[A-Za-z0-9+/=\s\\n]{60,18000}",
    ),
    OwnRule(
        name="anthropic",
        keywords=("sk-ant-",),
        anchored=True,
        group=-1,
        pattern=_EDGE + r"sk-ant-[a-z0-9]{2,12}-[A-Za-z0-9_-]{16,256}",
    ),
    OwnRule(
        name="openai",
        keywords=("sk-",),
        anchored=True,
        group=-1,
        refuse=is_masked,
        pattern=_EDGE + r"sk-(?:(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,256}"
        r"|[A-Za-z0-9]{32,64}" + _END + ")",
    ),
    OwnRule(
        name="openrouter",
        keywords=("sk-or-",),
        anchored=True,
        group=-1,
        pattern=_EDGE + r"sk-or-v1-[a-f0-9]{40,80}" + _END,
    ),
    OwnRule(
        name="github",
        keywords=("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        anchored=True,
        group=-1,
        pattern=_EDGE + r"(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})" + _END,
    ),
    OwnRule(
        name="aws-key-id",
        keywords=("akia", "asia", "abia", "acca"),
        anchored=True,
        group=-1,
        refuse=is_example,
        pattern=_EDGE + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}" + _END,
    ),
    OwnRule(
        name="aws-secret",
        keywords=("secret", "aws"),
        group=1,
        refuse=is_example,
        entropy=3.0,
        pattern=r"(?i:(?:aws|secret)[a-z0-9_ .-]{0,30}[\"']?\s{0,4}[:=]{1,2}>?\s{0,4}[\"']?)"
        r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
    OwnRule(
        name="google",
        keywords=("aiza",),
        anchored=True,
        group=-1,
        refuse=is_placeholder,
        pattern=_EDGE + r"AIza[A-Za-z0-9_-]{35}" + _END,
    ),
    OwnRule(
        name="google-oauth",
        keywords=("ya29.", "1//0", "gocspx-"),
        anchored=True,
        group=-1,
        pattern=_EDGE
        + r"(?:ya29\.[A-Za-z0-9_-]{20,512}|1//0[A-Za-z0-9_-]{30,256}|GOCSPX-[A-Za-z0-9_-]{20,40})",
    ),
    OwnRule(
        name="huggingface",
        keywords=("hf_",),
        anchored=True,
        group=-1,
        pattern=_EDGE + r"hf_[A-Za-z0-9]{34,40}" + _END,
    ),
    OwnRule(
        name="slack-hook",
        keywords=("hooks.slack.com",),
        group=1,
        pattern=r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_+-]{20,200})",
    ),
    OwnRule(
        name="discord-hook",
        keywords=("/api/webhooks/",),
        group=1,
        pattern=r"discord(?:app)?\.com/api/webhooks/([0-9]{15,22}/[A-Za-z0-9_-]{40,120})",
    ),
    OwnRule(
        name="telegram-bot",
        keywords=(":aa",),
        group=-1,
        pattern=_EDGE + r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,34}" + _END,
    ),
    OwnRule(
        name="azure-key",
        keywords=("accountkey", "sharedaccesskey", "sharedaccesssignature", "sig="),
        group=1,
        pattern=r"(?i:(?:accountkey|sharedaccesskey|[?&;]sig)\s{0,2}=\s{0,2})"
        r"([A-Za-z0-9+/%]{32,128}={0,2})",
    ),
    OwnRule(
        name="jwt",
        keywords=("eyj",),
        reach=12_000,
        anchored=True,
        group=-1,
        pattern=_EDGE
        + r"eyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,8000}(?:\.[A-Za-z0-9_-]{8,1000})?",
    ),
    OwnRule(
        name="discord-bot",
        keywords=("discord", "bot_token", "bottoken", "bot token"),
        group=-1,
        entropy=4.0,
        pattern=_EDGE
        + r"[MNO][DTGjTWZ][A-Za-z0-9_-]{21,26}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,42}"
        + _END,
    ),
    OwnRule(
        name="airtable",
        keywords=("airtable",),
        group=-1,
        pattern=_EDGE + r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}" + _END,
    ),
    OwnRule(
        name="mapbox",
        keywords=("sk.eyj",),
        anchored=True,
        group=-1,
        pattern=_EDGE + r"sk\.eyJ[A-Za-z0-9_-]{20,400}\.[A-Za-z0-9_-]{20,64}" + _END,
    ),
    OwnRule(
        name="wallet-phrase",
        keywords=("mnemonic", "seed phrase", "seed_phrase", "recovery phrase"),
        group=1,
        pattern=r"(?i:(?:mnemonic|(?:seed|recovery)[ _]phrase)[\s\"'`]{0,4}(?:is|:|=)[\s\"'`]{0,4})"
        r"((?:[a-z]{3,8} ){11,23}[a-z]{3,8})",
    ),
)

VENDOR_RULE = OwnRule(
    name="vendor-key",
    keywords=prefix_keywords(),
    reach=500,
    anchored=True,
    group=-1,
    entropy=2.6,
    pattern=prefix_pattern(),
)
