"""Whose request it is: session, thread, folder."""

from __future__ import annotations

import json

import pytest

from openmem.context.proxy.recording import identity

REMINDER = "<system-reminder>\n" + "The project's instructions. " * 80 + "\n</system-reminder>"
BILLING = "x-anthropic-billing-header: cc_version=2.1.332.344; cc_entrypoint=cli; cch={};"
ENVIRONMENT = (
    "# Environment\nYou have been invoked in the following environment: \n"
    " - Primary working directory: {}\n - Is a git repository: true\n - Platform: linux\n"
)


def user(*texts):
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def test_the_session_id_is_taken_in_the_contracts_order():
    """Context-store contract, Session id."""
    headers = {
        "x-openmem-session-id": " ours ",
        "x-claude-code-session-id": "claude",
        "session_id": "late",
        "x-session-id": "later",
        "conversation_id": "last",
    }
    user_id = json.dumps({"device_id": "d", "session_id": "in-json"})
    expected = ["ours", "claude", "in-json", "cache-key", "late", "later", "last", ""]
    found = [identity.stated_session_id(headers, user_id, "cache-key")]
    for name in ("x-openmem-session-id", "x-claude-code-session-id"):
        del headers[name]
        found.append(identity.stated_session_id(headers, user_id, "cache-key"))
    found.append(identity.stated_session_id(headers, "", "cache-key"))
    for name in ("session_id", "x-session-id", "conversation_id"):
        found.append(identity.stated_session_id(headers, "", ""))
        del headers[name]
    found.append(identity.stated_session_id(headers, "", ""))
    assert found == expected


@pytest.mark.parametrize(
    ("user_id", "sid"),
    [
        ("user_0a1b_account__session_7d0e3f9a-1b2c", "7d0e3f9a-1b2c"),
        ("user_0a1b_account__session_short", ""),
        ('{"session_id": "a/b:c"}', "a_b_c"),
        ('{"session_id": 7}', ""),
        ("{not json_session_12345678", "12345678"),
        ("", ""),
        (None, ""),
        ({"session_id": "x"}, ""),
    ],
)
def test_the_user_id_is_read_in_both_its_forms(user_id, sid):
    """Context-store contract, Session id, sources 3."""
    assert identity.stated_session_id({}, user_id, "") == sid


def test_a_made_id_ignores_the_attribution_and_tells_conversations_apart():
    """Users' report 41: `cch` differs in each request, the first 2 KB are equal in all."""
    system = "You are an agent."
    one = identity.made_session_id([BILLING.format("1"), system], user(REMINDER, "fix the login"))
    same = identity.made_session_id([BILLING.format("2"), system], user(REMINDER, "fix the login"))
    other = identity.made_session_id([BILLING.format("3"), system], user(REMINDER, "add a test"))
    assert one == same
    assert one != other
    assert one.startswith("fp-")
    assert len(one) == 19


def test_a_made_id_leans_on_no_shared_head():
    """The same, when the equal head is no reminder, or is one text with the prompt."""
    head = "Shared context of the project. " * 70
    assert identity.made_session_id([], user(head, "a")) != identity.made_session_id(
        [], user(head, "b")
    )
    assert identity.made_session_id([], user(head + "a")) != identity.made_session_id(
        [], user(head + "b")
    )
    assert identity.made_session_id([], user(REMINDER)) != identity.made_session_id(
        [], user(REMINDER + " ")
    )


def test_a_made_id_survives_markers_and_the_string_form():
    """Newest models, section 2.3: clients flip these on each request."""
    marked = user("hello")
    marked["content"][0]["cache_control"] = {"type": "ephemeral"}
    plain = identity.made_session_id(["s"], {"role": "user", "content": "hello"})
    assert identity.made_session_id(["s"], marked) == plain


@pytest.mark.parametrize("folder", ["/home/dev/project", "/srv/Acme & Co/web site (2)"])
def test_the_folder_is_read_from_the_agents_own_environment_text(folder):
    """Captures of Claude Code 2.1.332 with older and newest models; OpenCode 1.18.33."""
    text = ENVIRONMENT.format(folder)
    reminder = user(REMINDER, f"<system-reminder>\n{text}</system-reminder>", "prompt")
    assert identity.stated_folder([], [reminder]) == folder
    system_message = {"role": "system", "content": "Hook text first.\n" + text}
    assert identity.stated_folder([], [user("prompt"), system_message]) == folder
    env = f"Here is some useful information:\n<env>\n  Working directory: {folder}\n  Platform: x\n"
    assert identity.stated_folder(["You are OpenCode.", env], [user("hi")]) == folder


def test_nobody_else_can_name_the_folder():
    """Design, section 6: the folder decides what may be stored; only the agent states it."""
    text = ENVIRONMENT.format("/allowed")
    for messages in (
        [user(text)],
        [user("<b>" + text)],
        [{"role": "assistant", "content": text}],
        [{"role": "user", "content": [{"type": "tool_result", "content": text}]}],
        [{"role": "system", "content": "Working directory: /allowed"}],
    ):
        assert identity.stated_folder([], messages) == ""
    assert identity.stated_folder(["Primary working directory: relative/x"], []) == ""


def side(**changes):
    values = {
        "has_tools": False,
        "max_tokens": 512,
        "system": [],
        "messages": [user("hello")],
        "headers": {},
    }
    return identity.is_side_request(**{**values, **changes})


def test_titles_and_warm_ups_are_told_from_conversations():
    """Users' report 42; the agents' own errands as they describe themselves."""
    assert side(max_tokens=1)
    assert side(messages=[user("quota")])
    assert side(messages=[user("Warmup")])
    assert side(system=["You are a title generator. You output ONLY a thread title."])
    assert side(
        system=["Analyze if this message indicates a new conversation topic. If it does, …"]
    )
    assert side(messages=[user("Generate a title for this conversation:\n"), user("fix it")])


def test_a_conversation_is_never_taken_for_an_errand():
    """The same, the other way round: what is left out is lost."""
    assert not side()
    assert not side(max_tokens=16)
    assert not side(messages=[user("Please write a title for my blog post about cats")])
    assert not side(messages=[user("quota exceeded when I run the build, why?")])
    assert not side(max_tokens=1, has_tools=True)
    assert not side(max_tokens=1, headers={"x-claude-code-agent-id": "a1"})
    assert not side(messages=[user("a"), user("b"), user("c"), user("quota")])


def test_sub_agents_are_known_by_header_or_attribution():
    """Agents' facts, 3.2: sub-agents share the session id."""
    assert identity.is_sub_agent({"x-claude-code-agent-id": "a1"}, [])
    assert identity.is_sub_agent({}, [BILLING.format("1") + " cc_is_subagent=true;"])
    assert not identity.is_sub_agent({}, [BILLING.format("1")])
    assert not identity.is_sub_agent({}, ["Is cc_is_subagent=true a header?"])


def test_a_sub_agent_of_opencode_belongs_to_the_session_it_works_for():
    """Issue 7 part 2: its own session headers; seen with OpenCode 1.18.33."""
    child = {"x-session-id": "ses_child", "x-session-affinity": "ses_child"}
    assert identity.stated_session_id(child, "", "") == "ses_child"
    assert not identity.is_sub_agent(child, [])
    child["x-parent-session-id"] = "ses_parent"
    assert identity.stated_session_id(child, "", "ses_child") == "ses_parent"
    assert identity.agent_id_of(child) == "ses_child"
    assert identity.is_sub_agent(child, [])
    zen = {"x-opencode-session": "ses_zen", "x-parent-session-id": "ses_parent"}
    assert identity.agent_id_of(zen) == "ses_zen"
    assert identity.stated_session_id({"x-opencode-session": "ses_zen"}, "", "") == "ses_zen"


def test_the_agent_is_the_routes_else_the_user_agents():
    """Design, section 7: each agent's address carries its name."""
    assert identity.agent_of("claude-code", {"user-agent": "opencode/1"}) == "claude-code"
    assert identity.agent_of("", {"user-agent": "claude-cli/2.1.332 (external)"}) == "claude-code"
    assert identity.agent_of("", {"user-agent": "opencode/1.18.33 ai-sdk"}) == "opencode"
    assert identity.agent_of("", {"user-agent": "curl/8"}) == ""
    assert identity.agent_of("opencode-anthropic", {}) == "opencode"
