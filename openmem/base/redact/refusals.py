"""What stands where a secret would stand and is none: a variable, a placeholder, a type, a path.

The same words (`password`, `token`) stand before real secrets and in plain code, so the rules that
go by words ask here. Each check gets the candidate, the whole match and the match's line.

The trap: a password of letters alone reads like an identifier. It is taken for a password only
where the name before it ends in a word for a password, where the place holds a value and no
expression (a quoted literal, an assignment, a line's end), and where none of its own words says
what it is; a token of letters alone only where its letters look drawn, not written.
"""

from __future__ import annotations

import re

_PLACEHOLDER = re.compile(
    r"""^(?:
        \$.* | %[A-Za-z_]+%.* | %[sdvr@].{0,2} | <.* | \{.* | \[.* | \*+ | \#+ | -+ | _+
      | (?:\w{1,16}[-_])?(?:[x.\u2026]{3,}|X{3,}|\.{3,}|\*{3,})
      | (?:your|my|the|some|example|dummy|fake|test|changeme|change-me|placeholder|redacted)
        [-_a-z]*
      | none | null | nil | true | false | undefined | optional | required | string | number
      | boolean | object | any | bytes | secret | password | passwd | token | apikey | api[-_]key
    )[.,;:!?]{0,2}$""",
    re.IGNORECASE | re.VERBOSE,
)
_PATH = re.compile(r"^(?:[~.]{0,2}/|[A-Za-z]:\\|\w{1,12}://|&)")
_TIME = re.compile(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}")
_HAS_LETTER = re.compile(r"[A-Za-z]")
# A name and its call, index or scope, a path of names, with digits at a word's end only.
_CODE = re.compile(r"^[A-Za-z_$][\w$]*(?:[.:/?&|-]{1,2}[A-Za-z_$0-9][\w$]*)*[?!:;,.]*$")
_WORDS_OF_CODE = re.compile(r"[._:/?&|$!;,-]+")
_LONGEST_WORD = 48  # of a name in code; also what keeps the next pattern's steps few
_WORD_OF_CODE = re.compile(r"[A-Za-z]*[0-9]{0,4}(?:[A-Z][a-z]{2,30}[A-Za-z]*)?[0-9]{0,4}[a-z]{0,3}")
_CAMEL = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_PORT = re.compile(r"^[0-9]{2,5}[?#,;&]")
_PASSWORD_NAME = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase|code)|pwd|(?<![a-z])pass(?:in|out)?|_pass|storepass|keypass)"
    r"[0-9]{0,2}['\"`\s]*(?:[:=>]|\bis\b|\bto\b|\s|$)"
)
# A constant that a call defines: `define('DB_PASSWORD', '...')`.
_PASSWORD_CONSTANT = re.compile(
    r"(?:PASSWORD|PASSWD|PASSPHRASE|PWD|PASS)[0-9]{0,2}['\"]\s*,\s*['\"]?$"
)
_ABOUT_A_SECRET = re.compile(
    r"(?:_(?:FILE|PATH|DIR|URL|URI|ENDPOINT|HOST|NAME|ARN|TTL|EXPIR[A-Z]{1,6}|LENGTH|SIZE|TYPE"
    r"|ALG[A-Z]{0,7}|ISSUER|LIMIT|COUNT|TIMEOUT|REGION|VERSION|SCOPES?|HEADER|PREFIX|POLICY)"
    r"|(?:PUBLIC|PRIMARY|FOREIGN|CACHE|PARTITION|SORT|IDEMPOTENCY|PUBLISHABLE|SHORTCUT)_KEY)"
    r"[\s\"']{0,4}[:=]{1,2}[\s\"']{0,4}$"
)
_WORDS_ABOUT = """
a an and any arg args as auth bool char class code col com conf config const copy custom data
debug def default do does edit else empty enter env error exists expr fail failed fake field
file form from func get getter has hash help hidden hide hint html icon id if in info input int
invalid is item json key keys kind label len length list load local login long map match max
message min missing mock mode msg name new no not null obj of ok old on only options or page
param pass path please policy prompt prop props pwd raw read ref reset row rule salt schema self
set setup short show source spec str strong submit svc task temp test text the this title to
toggle tooltip txt type unset update url use user username users util valid value values var
view visible weak when with wrong your
"""
_SAYS_WHAT_IT_IS = frozenset(_WORDS_ABOUT.split())
_TELLS_IN_A_WORD = (
    "passw", "secret", "token", "creden", "param", "valid", "require", "encrypt", "crypt",
    "string", "value", "field", "option", "config", "incorrect", "mismatch", "forgot", "confirm",
    "current", "example", "placeholder", "redact", "mask", "generat", "rotat", "random", "account",
    "buffer", "request", "response", "descri", "instruct", "character", "minimum", "manager",
    "undefined", "column", "varchar", "attribute", "missing", "expired", "changeme", "environ",
    "autocomplete", "identif", "authent", "authoriz", "permission", "denied", "forbidden",
)  # fmt: skip


def is_placeholder(secret: str, match: str, line: str) -> bool:
    """Return whether a value only stands for a secret: a variable, a mask, a made-up word."""
    return bool(_PLACEHOLDER.match(secret)) or len(set(secret)) < 3


def is_masked(secret: str, match: str, line: str) -> bool:
    return "REDACTED" in secret or "${" in secret or is_placeholder(secret, match, line)


def is_no_url_password(secret: str, match: str, line: str) -> bool:
    """Return whether what stands between a colon and an @ is a port with what follows it."""
    return bool(_PORT.match(secret)) or is_masked(secret, match, line)


def is_example(secret: str, match: str, line: str) -> bool:
    return secret.endswith("EXAMPLE") or secret.endswith("EXAMPLEKEY")


def is_no_value(secret: str, match: str, line: str) -> bool:
    """Return whether a quoted literal after a name reads as code, a path or a placeholder."""
    if _stands_for_another(secret, match, line) or _counts_tokens(secret, match):
        return True
    return reads_as_code(secret) and not is_letters_password(secret, match)


def is_no_assigned(secret: str, match: str, line: str) -> bool:
    """Return whether what follows a name without quotes reads as code, a path, a placeholder."""
    return (
        _stands_for_another(secret, match, line)
        or _counts_tokens(secret, match)
        or reads_as_code(secret)
    )


def is_no_setting(secret: str, match: str, line: str) -> bool:
    """Return whether an environment assignment sets something about a secret, not the secret."""
    if is_masked(secret, match, line) or _counts_tokens(secret, match):
        return True
    return bool(_ABOUT_A_SECRET.search(match[: len(match) - len(secret)]))


def _counts_tokens(secret: str, match: str) -> bool:
    return secret.replace(".", "").replace(",", "").isdigit() and "token" in match.lower()


def is_no_header(secret: str, match: str, line: str) -> bool:
    """Return whether what follows `Authorization:` names a value and is none."""
    return _stands_for_another(secret, match, line) or reads_as_code(secret)


def is_no_plain_password(secret: str, match: str, line: str) -> bool:
    """Return whether the word after a name for a password is an identifier or plain prose."""
    if _stands_for_another(secret, match, line):
        return True
    return reads_as_code(secret) and _says_what_it_is(secret)


def is_no_said_password(secret: str, match: str, line: str) -> bool:
    """As above, in a sentence: there a word of small letters alone is a word."""
    if is_no_plain_password(secret, match, line):
        return True
    return secret.isalpha() and not looks_drawn(secret)


def _stands_for_another(secret: str, match: str, line: str) -> bool:
    return bool(
        is_masked(secret, match, line) or _PATH.match(secret) or _TIME.match(secret)
    ) or not (_HAS_LETTER.search(secret) or len(secret) >= 6)


def reads_as_code(value: str) -> bool:
    """Return whether a value is made of words: names, calls, paths; no word mixes in digits.

    `sha256`, `argv[1]` and `utf8_v2` are words, `i7NE12s` and `wGSZcAoGJ` are not.
    """
    value = value.lstrip("!&*~")
    if not _CODE.match(value):
        return not _HAS_LETTER.search(value)
    words = [word for word in _WORDS_OF_CODE.split(value) if word]
    return all(
        len(word) <= _LONGEST_WORD and _WORD_OF_CODE.fullmatch(word) and not looks_drawn(word)
        for word in words
    )


def looks_drawn(word: str) -> bool:
    """Return whether letters change case as nobody writes: parts of under three letters each."""
    if len(word) < 8 or word.isupper() or word.islower():
        return False
    parts = len(_CAMEL.findall(word))
    return parts >= 4 and len(word) < 3 * parts


def is_letters_password(secret: str, match: str) -> bool:
    """Return whether letters alone after a name are a password all the same."""
    name = match[: len(match) - len(secret)] if match.endswith(secret) else match.split(secret)[0]
    is_named = _PASSWORD_NAME.search(name) or _PASSWORD_CONSTANT.search(name)
    return bool(is_named) and not _says_what_it_is(secret)


def _says_what_it_is(secret: str) -> bool:
    """Return whether a value is one of the words that stand beside passwords in code and forms."""
    words = [part.lower() for word in _WORDS_OF_CODE.split(secret) for part in _CAMEL.findall(word)]
    lowered = secret.lower()
    return (
        any(word in _SAYS_WHAT_IT_IS for word in words)
        or any(tell in lowered for tell in _TELLS_IN_A_WORD)
        or "_" in secret.strip("_")
        or "." in secret.rstrip(".")
        or "::" in secret
        or "/" in secret
    )
