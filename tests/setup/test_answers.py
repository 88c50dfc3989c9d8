"""Questions as data: every answer has four ways in, and none is taken silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmem.agents.agent import Detected
from openmem.base.errors import Usage
from openmem.setup.answers import gather, read_answers
from openmem.setup.facts import Facts, KnownAgent
from openmem.setup.provider_questions import PROVIDER_QUESTIONS
from openmem.setup.questions import BY_NAME, QUESTIONS, Answer, Question

CLAUDE = KnownAgent(
    name="claude-code",
    title="Claude Code",
    detected=Detected(name="claude-code", title="Claude Code", version="2.1.332"),
    upstream="https://gateway.test",
)
FACTS = Facts(agents=(CLAUDE,), service_manager="systemd", port=8914)


def test_the_defaults_are_those_setup_yes_promises() -> None:
    """Issue 2: provider local, Claude Code if found, proxy on, git yes, everything else no."""
    answered = gather(FACTS, flags={}, file={}, ask=None, takes_defaults=True)
    assert answered.values == {
        "agents": ("claude-code",),
        "hooks": True,
        "mcp": True,
        "skill": True,
        "allow_tools": False,
        "keep_sessions": 30,
        "proxy": True,
        "port": 8914,
        "upstream": "https://gateway.test",
        "service": True,
        "store_git": True,
        "store_other": False,
    }
    assert answered.stated == frozenset()


def test_nothing_is_asked_that_does_not_apply() -> None:
    """Ours: no agent found, no service manager, a policy that exists."""
    answered = gather(
        Facts(has_policy=True), flags={"proxy": False}, file={}, ask=None, takes_defaults=True
    )
    assert answered.values == {"proxy": False}


def test_a_flag_wins_over_the_file_and_the_file_over_the_person() -> None:
    """Design, section 5: precedence."""
    asked: list[str] = []

    def ask(question: Question, facts: Facts, default: Answer) -> Answer:
        asked.append(question.name)
        return default

    answered = gather(
        FACTS,
        flags={"port": 9001},
        file={"port": 9002, "proxy": True, "store_other": True},
        ask=ask,
        takes_defaults=False,
    )
    assert answered.number("port") == 9001 and answered.flag("store_other")
    assert not {"port", "proxy", "store_other"} & set(asked)
    assert set(asked) | {"port", "proxy", "store_other"} == set(answered.values)


def test_with_nobody_to_ask_every_missing_answer_is_named_with_its_flag() -> None:
    """Design, section 5: no prompt without a terminal, fail naming the flag."""
    with pytest.raises(Usage) as told:
        gather(FACTS, flags={}, file={"proxy": True}, ask=None, takes_defaults=False)
    of_a_server = {question.name for question in PROVIDER_QUESTIONS}
    unasked = {"provider", "provider_plugin", "proxy", "trust_hooks", "keep_sessions"}
    missing = set(BY_NAME) - unasked - of_a_server
    for name in missing:
        assert f"{name} ({BY_NAME[name].flag})" in told.value.message
    assert "proxy (" not in told.value.message and "--yes" in told.value.hint


def test_a_person_who_leaves_at_a_question_leaves_everything() -> None:
    """Issue 2: Ctrl-C at each question."""
    for stop in [question.name for question in QUESTIONS if question.when(FACTS, {"proxy": True})]:

        def ask(question: Question, facts: Facts, default: Answer, stop: str = stop) -> Answer:
            if question.name == stop:
                raise KeyboardInterrupt
            return default

        with pytest.raises(KeyboardInterrupt):
            gather(FACTS, flags={}, file={}, ask=ask, takes_defaults=False)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("prot = 1", "Did you mean port?"),
        ("quux = 1", "Known: provider"),
        ("port = 'x'", "port is 'x', expected a whole number"),
        ("port = 70000", "expected 1 to 65535"),
        ("proxy = 1", "expected true or false"),
        ("agents = 'claude-code'", "expected a list of names"),
        ("agents = ['emacs']", "expected one of claude-code"),
        ("provider = 'cloud'", "expected one of local"),
        ("upstream = 'ftp://x'", "expected http://HOST"),
        ("upstream = 'https://x/?a=1'", "without ?"),
        ("port = ", "does not parse"),
    ],
)
def test_a_wrong_answer_is_named_by_file_key_and_what_was_expected(
    tmp_path: Path, text: str, told: str
) -> None:
    """House style, Errors; copier's answers files."""
    path = tmp_path / "answers.toml"
    path.write_text(text)
    with pytest.raises(Usage) as error:
        read_answers(str(path), FACTS)
    assert told in f"{error.value.message} {error.value.hint}"
    assert str(path) in error.value.message


def test_an_answers_file_reproduces_what_was_answered(tmp_path: Path) -> None:
    """Users' contract: `setup --answers file` reproduces a machine."""
    path = tmp_path / "answers.toml"
    path.write_text(
        "agents = ['claude-code']\nhooks = true\nmcp = false\nproxy = true\nport = 8913\n"
        "upstream = 'https://api.anthropic.com'\nservice = false\nstore_git = true\n"
        "store_other = false\n"
    )
    answered = gather(
        FACTS, flags={}, file=read_answers(str(path), FACTS), ask=None, takes_defaults=False
    )
    assert answered.stated == frozenset(answered.values) - {"keep_sessions"}
    assert answered.names("agents") and answered.number("keep_sessions") == 30  # as it is


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """House style, Errors."""
    with pytest.raises(Usage, match=r"none\.toml cannot be read"):
        read_answers(str(tmp_path / "none.toml"), FACTS)
