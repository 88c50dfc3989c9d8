"""What the wizard asks, as data: name, kind, default, when, check, flag, words.

The terminal, the flags of `setup`, the answers file and the reference page all follow from this
one table, so a question without a flag cannot be written (a test compares them). Defaults are
functions of what was found on the machine, so the second run proposes what is in force.
Source: design, section 5; copier's answers files.
"""

from __future__ import annotations

from collections.abc import Mapping

from openmem.memory.providers.registry import PLANNED
from openmem.setup.facts import Facts
from openmem.setup.provider_questions import PROVIDER_QUESTIONS
from openmem.setup.question import Answer, Answers, Question, check_days, check_port, check_url
from openmem.setup.sessions_kept import claude_days


def _has_agents(facts: Facts, answers: Answers) -> bool:
    return bool(answers.get("agents"))


def _is_plugin(facts: Facts, answers: Answers) -> bool:
    """Return whether the plug-in of before holds: it is the one provider's it was chosen for."""
    chosen = facts.integration == "provider"
    return chosen and answers.get("provider", facts.provider) == facts.provider


def _has_hooks_of_ours(facts: Facts, answers: Answers) -> bool:
    return _has_agents(facts, answers) and answers.get("provider_plugin") is not True


def _has_proxy(facts: Facts, answers: Answers) -> bool:
    return bool(answers.get("proxy"))


QUESTIONS: tuple[Question, ...] = (
    Question(
        name="provider",
        kind="choice",
        flag="--provider",
        ask="Where do memories live?",
        help="Where memories live: local (embedded, no server, no key), hindsight, mem0 or cognee. "
        "Planned: graphiti, letta, zep.",
        default=lambda facts: facts.provider,
        choices=lambda facts: facts.providers,
        when=lambda facts, answers: len(facts.providers) > 1,
        planned=PLANNED,
    ),
    *PROVIDER_QUESTIONS,
    Question(
        name="agents",
        kind="many",
        flag="--agent",
        ask="Which agents are wired?",
        help="Wire this agent; may be repeated. Left out: every agent that is found.",
        default=lambda facts: facts.found_names,
        choices=lambda facts: facts.agent_names,
        when=lambda facts, answers: bool(facts.found_names),
    ),
    Question(
        name="provider_plugin",
        kind="bool",
        flag="--provider-plugin/--no-provider-plugin",
        ask="Let the provider's own plug-in recall and keep, in the place of openmem's hooks?",
        help="Let the provider's own plug-in take the place of openmem's hooks; MCP stays.",
        default=lambda facts: facts.integration == "provider",
        default_after=_is_plugin,
        when=lambda facts, answers: _has_agents(facts, answers) and _is_plugin(facts, answers),
    ),
    Question(
        name="hooks",
        kind="bool",
        flag="--hooks/--no-hooks",
        ask="Install session hooks, so that a session is known by its folder?",
        help="Install the hooks that tell openmem of a session and its folder.",
        default=lambda facts: True,
        when=_has_hooks_of_ours,
    ),
    Question(
        name="trust_hooks",
        kind="bool",
        flag="--trust-hooks/--no-trust-hooks",
        ask="Let Codex run these hooks without asking you first? What they run is shown below.",
        help="Mark openmem's own hooks as trusted in Codex, which else passes them over.",
        default=lambda facts: False,
        when=lambda facts, answers: (
            bool(answers.get("hooks")) and "codex" in _names(answers.get("agents"))
        ),
    ),
    Question(
        name="mcp",
        kind="bool",
        flag="--mcp/--no-mcp",
        ask="Give the agents the search tools (an MCP server)?",
        help="Give the agents the search tools, as an MCP server.",
        default=lambda facts: facts.mcp_of == "openmem",
        when=_has_agents,
    ),
    Question(
        name="skill",
        kind="bool",
        flag="--skill/--no-skill",
        ask="Give the agents the skill that says when to use these tools?",
        help="Give the agents the skill that says when to use these tools.",
        default=lambda facts: True,
        when=lambda facts, answers: _has_agents(facts, answers) and bool(answers.get("mcp")),
    ),
    Question(
        name="allow_tools",
        kind="bool",
        flag="--allow-tools/--no-allow-tools",
        ask="Let the agents call these tools without asking you each time?",
        help="Let agents call openmem's tools without asking each time; what erases still asks.",
        default=lambda facts: False,
        when=lambda facts, answers: _has_agents(facts, answers) and bool(answers.get("mcp")),
    ),
    Question(
        name="keep_sessions",
        kind="int",
        flag="--keep-sessions",
        ask="For how many days may Claude Code keep its own session files? It deletes older ones.",
        help="Days that Claude Code keeps its own session files; it deletes older ones.",
        default=lambda facts: claude_days(facts.retentions),
        when=lambda facts, answers: "claude-code" in _names(answers.get("agents")),
        check=check_days,
        is_optional=True,
    ),
    Question(
        name="proxy",
        kind="bool",
        flag="--proxy/--no-proxy",
        ask="Run the proxy that records sessions, and send the agents through it?",
        help="Run the recording proxy and send the wired agents through it.",
        default=lambda facts: facts.proxy_enabled,
    ),
    Question(
        name="port",
        kind="int",
        flag="--port",
        ask="On which port of 127.0.0.1?",
        help="Port of the proxy on 127.0.0.1; the next free one when it is taken.",
        default=lambda facts: facts.port,
        when=_has_proxy,
        check=check_port,
    ),
    Question(
        name="upstream",
        kind="text",
        flag="--upstream",
        ask="Where does the proxy send Claude Code's requests?",
        help="Where the proxy sends Claude Code's requests; the address in force if left out.",
        default=lambda facts: facts.upstream_of("claude-code"),
        when=lambda facts, answers: (
            _has_proxy(facts, answers) and "claude-code" in _names(answers.get("agents"))
        ),
        check=check_url,
    ),
    Question(
        name="service",
        kind="bool",
        flag="--service/--no-service",
        ask="Keep the proxy reachable through the service manager, across logins?",
        help="Keep the proxy with the user's service manager; else a process of our own does.",
        default=lambda facts: True,
        when=lambda facts, answers: _has_proxy(facts, answers) and bool(facts.service_manager),
    ),
    Question(
        name="store_git",
        kind="bool",
        flag="--store-git/--no-store-git",
        ask="Keep sessions that run in git repositories?",
        help="Store, recall and retain sessions in git repositories.",
        default=lambda facts: True,
        when=lambda facts, answers: not facts.has_policy,
    ),
    Question(
        name="store_other",
        kind="bool",
        flag="--store-other/--no-store-other",
        ask="Keep sessions in every other folder too?",
        help="Store, recall and retain sessions in every other folder.",
        default=lambda facts: False,
        when=lambda facts, answers: not facts.has_policy,
    ),
)

BY_NAME: Mapping[str, Question] = {question.name: question for question in QUESTIONS}


def _names(value: Answer | None) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


__all__ = ["BY_NAME", "QUESTIONS", "Answer", "Answers", "Question"]
