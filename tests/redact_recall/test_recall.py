"""How many made-up secrets are masked, and how much of what is none.

The floors are what was measured on 2026-11-30, less what another draw of the same kinds moves.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from openmem.base.redact import redact, rules, scan
from tests.redact_recall.garden import PER_KIND, garden, is_gone
from tests.redact_recall.harmless import harmless
from tests.redact_recall.letters import ALNUM
from tests.redact_recall.second import HARMLESS_MARKUP, second_set

KEY = b"k" * 32
# Words of small letters alone in a sentence, and tokens whose form stands in other text, too.
HARD_KINDS = {"password-in-prose": 0.75, "airtable": 0.6, "discord-bot": 0.7}


@pytest.fixture(params=["re2", "re"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "re":
        monkeypatch.setattr(rules, "re2_module", lambda: None)
        monkeypatch.setattr(scan, "re2_module", lambda: None)
    elif rules.re2_module() is None:
        pytest.skip("the re2 extra is not installed here")
    for cached in (rules._rules, rules.compile_pattern, scan._index, scan._keyword_set):
        cached.cache_clear()
    return str(request.param)


@pytest.mark.parametrize("seed", [20301130, 7])
def test_planted_secrets_are_masked(engine: str, seed: int) -> None:
    """Issue 3, "Show it": recall over a set that the rules were not written for."""
    planted, gone = Counter[str](), Counter[str]()
    for plant in garden(seed):
        planted[plant.kind] += 1
        gone[plant.kind] += is_gone(plant.secret, redact(plant.text, KEY).text)
    assert len(planted) >= 100 and min(planted.values()) >= PER_KIND
    assert sum(gone.values()) >= 0.985 * sum(planted.values())
    short = {
        kind: f"{gone[kind]} of {count}"
        for kind, count in planted.items()
        if gone[kind] < HARD_KINDS.get(kind, 0.8) * count
    }
    assert not short


def test_a_second_set_by_another_hand_is_masked(engine: str) -> None:
    """Issue 3, "Show it"; measured 2026-11-30: 96 % before markup was read, 99 % after."""
    planted = list(second_set(7))
    left = Counter(p.kind for p in planted if not is_gone(p.secret, redact(p.text, KEY).text))
    assert len(planted) > 550 and sum(left.values()) <= 0.02 * len(planted), left


def test_markup_without_a_secret_stays(engine: str) -> None:
    """Ours: forms and settings name passwords everywhere and hold none."""
    assert [text for text in HARMLESS_MARKUP if redact(text, KEY).count] == []


def test_what_only_looks_like_a_secret_stays(engine: str) -> None:
    """Issue 3: a session must stay readable; digests, ids, variables and code are no secrets."""
    masked = [text for text in harmless(20301130) if redact(text, KEY).count]
    assert not masked


def test_masking_leaves_json_in_json_readable(engine: str) -> None:
    """Ours: a tool's input is stored as JSON; a mask must not take a quote of it along."""
    seen = 0
    for plant in garden():
        if plant.place not in ("json", "json-in-json"):
            continue
        masked = redact(plant.text, KEY)
        if not masked.count:
            continue
        outer = json.loads(masked.text)
        if "stdout" in outer:
            outer = json.loads(outer["stdout"])
            assert outer["name"] == "app"
        seen += 1
    assert seen > 50


def test_a_secret_longer_than_its_rule_leaves_no_tail(engine: str) -> None:
    """Found by the plants: a session token of 460 characters kept its last 200."""
    secret = (ALNUM * 40)[:2100]
    for text in (f'session_token = "{secret}"', f"AWS_SESSION_TOKEN={secret} next"):
        masked = redact(text, KEY)
        assert is_gone(secret[300:], masked.text)
        assert masked.text.endswith(text[-1])
