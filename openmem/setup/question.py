"""What a question is, as data: name, kind, default, when, check, flag, words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from openmem.setup.facts import Facts

Answer = bool | int | str | tuple[str, ...]
Answers = Mapping[str, Answer]


def always(facts: Facts, answers: Answers) -> bool:
    return True


def nothing_wrong(value: Answer) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question. `kind`: bool, int, text, choice (one of `choices`) or many (some of them).

    `flag`: as typed, both spellings for a bool; `ask`: the words on the terminal; `help`: what the
    flag does. `when`: whether it is asked, given the answers before it. `check`: a complaint or "".
    `default_after`: the default when it depends on answers before it. `planned`: choices that are
    refused in words of their own. `is_optional`: the default leaves everything as it is, so that
    where nobody can be asked nobody has to answer.
    """

    name: str
    kind: str
    flag: str
    ask: str
    help: str
    default: Callable[[Facts], Answer]
    choices: Callable[[Facts], tuple[str, ...]] = lambda facts: ()
    when: Callable[[Facts, Answers], bool] = always
    check: Callable[[Answer], str] = nothing_wrong
    default_after: Callable[[Facts, Answers], Answer] | None = None
    planned: tuple[str, ...] = ()
    is_optional: bool = False

    def proposed(self, facts: Facts, answers: Answers) -> Answer:
        """Return the default, given the answers before."""
        return self.default_after(facts, answers) if self.default_after else self.default(facts)

    @property
    def expected(self) -> str:
        """What a right answer looks like, in words."""
        return {
            "bool": "true or false",
            "int": "a whole number",
            "text": "text",
            "choice": "one of the choices",
            "many": "a list of names",
        }[self.kind]


def check_port(value: Answer) -> str:
    return "" if isinstance(value, int) and 1 <= value <= 65535 else "expected 1 to 65535"


def check_days(value: Answer) -> str:
    return "" if isinstance(value, int) and 1 <= value <= 99_999 else "expected 1 to 99999"


def check_url(value: Answer) -> str:
    try:
        parts = urlsplit(str(value))
        has_place = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        has_place = False
    if not has_place:
        return "expected http://HOST or https://HOST"
    return "expected an address without ? and #" if parts.query or parts.fragment else ""
