"""The questions on a terminal. Ctrl-C at any of them raises KeyboardInterrupt; nothing is written.

This is the only module that loads questionary.
"""

from __future__ import annotations

import questionary

from openmem.setup.facts import Facts
from openmem.setup.questions import Answer, Question


def ask(question: Question, facts: Facts, default: Answer) -> Answer:
    """Put one question and return the answer. KeyboardInterrupt on Ctrl-C or end of input."""
    if question.kind == "bool":
        return bool(questionary.confirm(question.ask, default=bool(default)).unsafe_ask())
    if question.kind == "choice":
        choices = [questionary.Choice(name, value=name) for name in question.choices(facts)]
        choices += [
            questionary.Choice(name, value=name, disabled="planned") for name in question.planned
        ]
        return str(questionary.select(question.ask, choices, default=str(default)).unsafe_ask())
    if question.kind == "many":
        proposed = default if isinstance(default, tuple) else ()
        boxes = [
            questionary.Choice(facts.title_of(name), value=name, checked=name in proposed)
            for name in question.choices(facts)
            if name in facts.found_names
        ]
        return tuple(questionary.checkbox(question.ask, boxes).unsafe_ask())
    return _typed(question, default)


def _typed(question: Question, default: Answer) -> Answer:
    def complaint(text: str) -> bool | str:
        value = _value(question, text)
        if value is None:
            return f"expected {question.expected}"
        return question.check(value) or True

    text = questionary.text(question.ask, default=str(default), validate=complaint).unsafe_ask()
    value = _value(question, text)
    assert value is not None  # the validator let it pass
    return value


def _value(question: Question, text: str) -> Answer | None:
    text = text.strip()
    if question.kind == "text":
        return text
    try:
        return int(text)
    except ValueError:
        return None


def confirm(words: str, *, is_final: bool = False) -> bool:
    """Ask whether to go on. Yes is the default, because the plan has been shown, but not where
    something goes for good."""
    return bool(questionary.confirm(words, default=not is_final).unsafe_ask())


def unseen(words: str) -> str:
    """Return what a person types without it being shown. KeyboardInterrupt on Ctrl-C."""
    return str(questionary.password(words).unsafe_ask())
