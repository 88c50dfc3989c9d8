"""Our own rules: secrets that have no vendor's prefix, and forms that break off in the middle.

Each repeat is bounded. What a candidate must not be (a variable, a placeholder, a path, a type) is
said by one function, because the same words stand before real secrets and in plain code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_EDGE = r"(?<![A-Za-z0-9_-])"
_END = r"(?![A-Za-z0-9_-])"

_PLACEHOLDER = re.compile(
    r"""^(?:
        \$.* | %[A-Za-z_]+%.* | <.* | \{\{.* | \[.* | \*+ | x{3,} | X{3,} | \.{3,} | -+ | _+
      | (?:your|my|the|some|example|dummy|fake|test|changeme|change-me|placeholder|redacted)
        [-_a-z]*
      | none | null | nil | true | false | undefined | optional | required | string | number
      | boolean | object | any | bytes | secret | password | passwd | token | apikey | api[-_]key
    )$""",
    re.IGNORECASE | re.VERBOSE,
)
_CODE = re.compile(r"^[A-Za-z_$][\w$]*(?:[.:/?&|-]{1,2}[A-Za-z_$][\w$]*)*[?!:;,.]*$")
_PATH = re.compile(r"^(?:[~.]{0,2}/|[A-Za-z]:\\|https?://)")
_TIME = re.compile(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}")
_HAS_DIGIT = re.compile(r"[0-9]")
_HAS_LETTER = re.compile(r"[A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRule:
    """As `rules.Rule`, with one refusal."""

    name: str
    pattern: str
    keywords: tuple[str, ...]
    reach: int = 400
    group: int = 0
    entropy: float = 0.0
    refuse: Callable[[str, str, str], bool] | None = None


def is_placeholder(secret: str, match: str, line: str) -> bool:
    """Return whether a value only stands for a secret: a variable, a mask, a made-up word."""
    return bool(_PLACEHOLDER.match(secret)) or len(set(secret)) < 3


def is_no_password(secret: str, match: str, line: str) -> bool:
    """Return whether what follows `password:` reads as code, a path or a placeholder.

    A value of letters alone is an identifier as often as a password; it counts as a secret only
    where the line is an environment assignment (`NAME=value`), which the rule for those covers.
    """
    if is_placeholder(secret, match, line) or _PATH.match(secret) or _TIME.match(secret):
        return True
    if secret.replace(".", "").replace(",", "").isdigit() and "token" in match.lower():
        return True  # a count of tokens
    if not _HAS_DIGIT.search(secret):
        return bool(_CODE.match(secret)) or not _HAS_LETTER.search(secret)
    # A call, an index or an attribute chain with a digit in a name: hashlib.sha256, argv[1]
    return bool(_CODE.match(secret) and ("." in secret or "::" in secret or "_" in secret))


def _is_example(secret: str, match: str, line: str) -> bool:
    return secret.endswith("EXAMPLE") or secret.endswith("EXAMPLEKEY")


def _is_masked(secret: str, match: str, line: str) -> bool:
    return "REDACTED" in secret or is_placeholder(secret, match, line)


_NAME = (
    r"(?:pass(?:word|wd|phrase)|pwd|secret|token|api[_-]?key|apikey|access[_-]?key|auth[_-]?key"
    r"|private[_-]?key|signing[_-]?key|encryption[_-]?key|client[_-]?secret|credentials?)"
)
_ASSIGN_WORDS = (
    "passw", "passphrase", "pwd", "secret", "token", "api_key", "api-key", "apikey",
    "access_key", "access-key", "accesskey", "auth_key", "private_key", "signing_key",
    "encryption_key", "credential", "authkey", "privatekey",
)  # fmt: skip

OWN_RULES: tuple[OwnRule, ...] = (
    OwnRule(
        name="private-key",
        keywords=("private key",),
        reach=20_000,
        group=-1,
        pattern=r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[\s\S]{0,18000}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:(?:\\n|\\r|[\s>|]){0,8}"
        r"(?:[A-Za-z0-9+/=]{16,120}|[A-Z][A-Za-z-]{3,20}: [^\n\\]{0,99})){0,300})",
    ),
    OwnRule(
        name="openssh-key",
        keywords=("b3blbnnzac1rzxktdj",),
        reach=20_000,
        group=-1,
        pattern=r"b3BlbnNzaC1rZXktdj[A-Za-z0-9+/=\s\\n]{60,18000}",
    ),
    OwnRule(
        name="anthropic",
        keywords=("sk-ant-",),
        group=-1,
        pattern=_EDGE + r"sk-ant-[a-z0-9]{2,12}-[A-Za-z0-9_-]{16,256}",
    ),
    OwnRule(
        name="openai",
        keywords=("sk-",),
        group=-1,
        refuse=_is_masked,
        pattern=_EDGE + r"sk-(?:(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,256}"
        r"|[A-Za-z0-9]{32,64}" + _END + ")",
    ),
    OwnRule(
        name="openrouter",
        keywords=("sk-or-",),
        group=-1,
        pattern=_EDGE + r"sk-or-v1-[a-f0-9]{40,80}" + _END,
    ),
    OwnRule(
        name="github",
        keywords=("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        group=-1,
        pattern=_EDGE + r"(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})" + _END,
    ),
    OwnRule(
        name="aws-key-id",
        keywords=("akia", "asia", "abia", "acca"),
        group=-1,
        refuse=_is_example,
        pattern=_EDGE + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}" + _END,
    ),
    OwnRule(
        name="aws-secret",
        keywords=("secret", "aws"),
        group=1,
        refuse=_is_example,
        entropy=3.0,
        pattern=r"(?i:(?:aws|secret)[a-z0-9_ .-]{0,30}[\"']?\s{0,4}[:=]{1,2}>?\s{0,4}[\"']?)"
        r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
    OwnRule(
        name="google",
        keywords=("aiza",),
        group=-1,
        refuse=is_placeholder,
        pattern=_EDGE + r"AIza[A-Za-z0-9_-]{35}" + _END,
    ),
    OwnRule(
        name="google-oauth",
        keywords=("ya29.", "1//0", "gocspx-"),
        group=-1,
        pattern=_EDGE
        + r"(?:ya29\.[A-Za-z0-9_-]{20,512}|1//0[A-Za-z0-9_-]{30,256}|GOCSPX-[A-Za-z0-9_-]{20,40})",
    ),
    OwnRule(
        name="huggingface",
        keywords=("hf_",),
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
        group=-1,
        pattern=_EDGE
        + r"eyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,8000}(?:\.[A-Za-z0-9_-]{8,1000})?",
    ),
    OwnRule(
        name="url-password",
        keywords=("://",),
        group=1,
        refuse=_is_masked,
        pattern=r"(?i:\b[a-z][a-z0-9+.-]{1,20}://)[^\s:/@\"'<>]{0,128}:([^\s/@\"'<>]{1,256})@",
    ),
    OwnRule(
        name="authorization",
        keywords=("authorization", "bearer ", "x-api-key", "api-key:"),
        group=1,
        refuse=is_no_password,
        pattern=r"(?i:(?:(?:proxy-)?authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
        r"(?:bearer|basic|token|apikey)?\s{0,3}|\bbearer\s{1,3}"
        r"|x-api-key[\"']?\s{0,3}[:=]\s{0,3}[\"']?|[a-z-]{0,20}api-key:\s{0,3}))"
        r"([A-Za-z0-9._~+/=-]{16,2000})",
        reach=2200,
    ),
    OwnRule(
        name="cookie",
        keywords=("cookie:", 'cookie":'),
        reach=2400,
        group=1,
        refuse=is_placeholder,
        entropy=2.8,
        pattern=r"(?i:(?:set-)?cookie[\"']?:\s{0,3}[\"']?(?:[\w.-]{1,64}=[^;\s]{0,64};\s{0,3}){0,20}"
        r"[\w.-]{0,32}(?:sess|sid|auth|token|jwt|csrf|login|remember)[\w.-]{0,32}=)"
        r"([^;\s\"',]{12,2000})",
    ),
    OwnRule(
        name="curl-user",
        keywords=("curl", "wget", "http "),
        reach=1200,
        group=1,
        refuse=_is_masked,
        pattern=r"(?i:\b(?:curl|wget|https?)\b[^\n]{0,600}?\s(?:-u|--user|--proxy-user|-a|--auth)"
        r"(?:=|\s{1,3}|(?=[\"'\w])))[\"']?[^\s:\"']{1,100}:([^\s\"']{3,200})",
    ),
    OwnRule(
        name="password-option",
        keywords=(
            "--password",
            "--passwd",
            "--token",
            "--secret",
            "--api-key",
            "pgpassword",
            "sshpass",
            "mysql",
            "redis-cli",
        ),
        group=1,
        refuse=is_placeholder,
        pattern=r"(?i:(?:--(?:[a-z]{1,20}-)?(?:password|passwd|token|secret|api-key|apikey)(?:=|\s{1,3})"
        r"|\bsshpass\s{1,3}-p\s{0,3}|\bmysql(?:dump)?\b[^\n]{0,200}?\s-p"
        r"|\bredis-cli\b[^\n]{0,200}?\s-a\s{1,3}))[\"']?([^\s\"'`,;<>(){}\[\]-][^\s\"'`;<>(){}\[\]]{5,200})",
    ),
    OwnRule(
        name="env-secret",
        keywords=_ASSIGN_WORDS,
        group=1,
        refuse=is_placeholder,
        pattern=r"(?m:(?:^|[\s;&|\"'`(])(?:export\s{1,3}|set\s{1,3}|-e\s{0,2}|ENV\s{1,3})?"
        r"[A-Z][A-Z0-9_]{0,60}?(?:PASSWORD|PASSWD|PASSPHRASE|PWD|PASS|SECRET|TOKEN|API_?KEY"
        r"|ACCESS_?KEY|PRIVATE_?KEY|SIGNING_?KEY|ENCRYPTION_?KEY|CREDENTIALS?)[A-Z0-9_]{0,20}"
        r"=[\"']?)([^\s\"'`;<>(){}\[\]$][^\s\"'`;<>(){}\[\]]{5,250})",
    ),
    OwnRule(
        name="password",
        keywords=_ASSIGN_WORDS,
        group=1,
        entropy=2.5,
        refuse=is_no_password,
        pattern=r"(?i:" + _NAME + r"[\w]{0,20}[\"'`]?\s{0,3}(?::=|=>|=|:)\s{0,3}"
        r"(?:[a-z]{1,6}\s{0,2}[\"'])?[\"'`]?)"
        r"([^\s\"'`,;<>(){}\[\]$*][^\s\"'`,;<>(){}\[\]]{7,250})",
    ),
    OwnRule(
        name="netrc",
        keywords=("machine ",),
        group=1,
        refuse=is_placeholder,
        pattern=r"\bmachine\s{1,4}\S{1,120}\s{1,8}login\s{1,4}\S{1,120}\s{1,8}password\s{1,4}(\S{3,200})",
    ),
)
