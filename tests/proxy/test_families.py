"""Sub-agents of sub-agents: whose session they are, from headers alone."""

from __future__ import annotations

import itertools

import pytest

from openmem.context.proxy.recording.families import Families
from openmem.context.proxy.recording.identity import LANE_HEADERS, agent_id_of, stated_session_id


def headers(child: str, parent: str = "", name: str = "x-session-id") -> dict[str, str]:
    return {name: child, **({"x-parent-session-id": parent} if parent else {})}


def whose(found: dict[str, str]) -> tuple[str, str]:
    return stated_session_id(found, "", ""), agent_id_of(found)


@pytest.mark.parametrize("name", ["x-session-id", "x-opencode-session"])
def test_any_depth_belongs_to_the_session_at_the_top(name: str) -> None:
    """Brief: nested children at any depth; OpenCode 1.18.33 names only the one above."""
    families = Families()
    names = [f"ses_{depth}" for depth in range(30)]
    assert families.under_the_top(headers(names[0], name=name)) == headers(names[0], name=name)
    for parent, child in itertools.pairwise(names):
        found = families.under_the_top(headers(child, parent, name))
        assert whose(found) == ("ses_0", child)
        assert next(found[one] for one in LANE_HEADERS if found.get(one)) == "ses_0"
        assert families.under_the_top(found) == found  # told twice of one request


def test_what_is_not_known_is_the_top_and_another_family_stays_apart() -> None:
    """Ours: after a restart the one above is all that is known."""
    families = Families()
    families.under_the_top(headers("ses_b", "ses_a"))
    assert whose(families.under_the_top(headers("ses_y", "ses_x"))) == ("ses_x", "ses_y")
    assert whose(families.under_the_top(headers("ses_c", "ses_b"))) == ("ses_a", "ses_c")
    plain = {"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"}
    assert families.under_the_top(plain) is plain


def test_a_circle_and_a_session_above_itself_end() -> None:
    """Brief: cycles must not hang; each keeps the parent that it names."""
    families = Families()
    assert whose(families.under_the_top(headers("ses_a", "ses_a"))) == ("ses_a", "ses_a")
    families.under_the_top(headers("ses_a", "ses_b"))
    assert whose(families.under_the_top(headers("ses_b", "ses_a"))) == ("ses_a", "ses_b")
    assert whose(families.under_the_top(headers("ses_c", "ses_b"))) == ("ses_b", "ses_c")


def test_what_is_remembered_is_bounded_and_a_family_in_use_stays() -> None:
    """Ours: headers are anybody's on this machine."""
    families = Families()
    families.under_the_top(headers("ses_b", "ses_a"))
    for number in range(10_000):
        families.under_the_top(headers(f"ses_n{number}", "ses_m"))
        if number % 1000 == 0:
            families.under_the_top(headers("ses_c", "ses_b"))
    assert len(families._above) <= 4096
    assert whose(families.under_the_top(headers("ses_c", "ses_b"))) == ("ses_a", "ses_c")


def test_what_the_plug_in_says_counts_first() -> None:
    """Ours: the plug-in knows the top also after the proxy began anew."""
    found = Families().under_the_top({**headers("ses_c", "ses_b"), "x-openmem-session-id": "ses_a"})
    assert whose(found) == ("ses_a", "ses_c")
