"""Answers from flags, from a file, from a person, from the defaults: in that order.

Nothing is asked where nobody can answer: what is missing is named with its flag, all at once. An
answers file is TOML with the questions' names as keys; a key that no question has is an error,
because a mistyped answer that is silently a default is worse than none.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from openmem.base.errors import Unsupported, Usage
from openmem.setup.facts import Facts
from openmem.setup.questions import BY_NAME, QUESTIONS, Answer, Question

Ask = Callable[[Question, Facts, Answer], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """All answers. `stated`: names that flags, file or person gave; the rest are defaults.

    Questions that did not apply have no answer.
    """

    values: Mapping[str, Answer]
    stated: frozenset[str]

    def flag(self, name: str) -> bool:
        return self.values.get(name) is True

    def text(self, name: str) -> str:
        value = self.values.get(name, "")
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int:
        value = self.values.get(name, 0)
        return value if isinstance(value, int) else 0

    def names(self, name: str) -> tuple[str, ...]:
        value = self.values.get(name, ())
        return value if isinstance(value, tuple) else ()


def read_answers(path: str, facts: Facts) -> dict[str, Answer]:
    """Return the answers of a TOML file. Usage names file, key and what was expected."""
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise Usage(f"{path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Usage(f"{path} does not parse: {error}.") from None
    answers: dict[str, Answer] = {}
    for name, raw in document.items():
        if name not in BY_NAME:
            near = difflib.get_close_matches(name, BY_NAME, 1)
            hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(BY_NAME)}."
            raise Usage(f"{path}: there is no question {name!r}.", hint=hint)
        answers[name] = checked(BY_NAME[name], raw, facts, path)
    return answers


def answers_text(answered: Answered) -> str:
    """Return a file of these answers, which `read_answers` gives back; no key is in it."""
    lines = ["# Answers of openmem setup. Again, or elsewhere: openmem setup --answers FILE"]
    for question in QUESTIONS:
        value = answered.values.get(question.name)
        if value is not None:
            written = list(value) if isinstance(value, tuple) else value
            # A JSON string or list of strings is one of TOML too, but for DEL.
            text = json.dumps(written, ensure_ascii=False).replace("\x7f", "\\u007f")
            lines.append(f"{question.name} = {text}")
    return "\n".join(lines) + "\n"


def checked(question: Question, raw: object, facts: Facts, where: str) -> Answer:
    """Return `raw` as an answer to `question`. Usage when it is none."""
    value = _of_kind(question, raw)
    if value is None:
        raise Usage(f"{where}: {question.name} is {raw!r}, expected {question.expected}.")
    allowed = question.choices(facts)
    for word in _words(question, value):
        if word in question.planned:
            raise Unsupported(f"{word} is planned and not there yet.", code="planned")
        if word not in allowed:
            raise Usage(
                f"{where}: {question.name} is {word!r}, expected one of {', '.join(allowed)}."
            )
    complaint = question.check(value)
    if complaint:
        raise Usage(f"{where}: {question.name} is {raw!r}, {complaint}.")
    return value


def _of_kind(question: Question, raw: object) -> Answer | None:
    if question.kind == "bool":
        return raw if isinstance(raw, bool) else None
    if question.kind == "int":
        return raw if isinstance(raw, int) and not isinstance(raw, bool) else None
    if question.kind == "many":
        if isinstance(raw, list | tuple) and all(isinstance(word, str) for word in raw):
            return tuple(dict.fromkeys(raw))
        return None
    return raw if isinstance(raw, str) else None


def _words(question: Question, value: Answer) -> tuple[str, ...]:
    if question.kind == "choice":
        return (str(value),)
    return value if question.kind == "many" and isinstance(value, tuple) else ()


def gather(
    facts: Facts,
    *,
    flags: Mapping[str, Answer],
    file: Mapping[str, Answer],
    ask: Ask | None,
    takes_defaults: bool,
) -> Answered:
    """Return an answer to every question that applies.

    `ask`: puts a question to a person, None when nobody is there. Usage lists every question that
    has no answer then, with its flag.
    """
    # What was said outright is known to every question, also to those that come before it.
    known: dict[str, Answer] = {**file, **flags}
    values: dict[str, Answer] = {}
    missing: list[Question] = []
    for question in QUESTIONS:
        if question.name in flags or question.name in file:
            # Also when it would not be asked: what a person says outright is heard.
            values[question.name] = known[question.name]
            continue
        if not question.when(facts, known):
            continue
        proposed = question.proposed(facts, known)
        if takes_defaults or (ask is None and question.is_optional):
            values[question.name] = proposed
        elif ask is not None:
            values[question.name] = ask(question, facts, proposed)
        else:
            values[question.name] = proposed  # what depends on it is found too
            missing.append(question)
        known[question.name] = values[question.name]
    if missing:
        named = ", ".join(f"{q.name} ({q.flag})" for q in missing)
        raise Usage(
            f"no answer to: {named}.",
            hint="Give the flags, an --answers file, or --yes for the defaults.",
        )
    is_asked = ask is not None and not takes_defaults
    stated = frozenset(values) if is_asked else frozenset({*flags, *file})
    return Answered(values=values, stated=stated)
