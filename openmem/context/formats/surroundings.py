"""What Codex itself says in the person's or the developer's role, and how it is told apart.

Idea: Codex tells the model of its environment, permissions, project instructions, hooks and
sub-agents in messages of their own, each beginning with a tag. They are no prompt of a person.
Invariant: a text counts as surroundings only if it begins with one of these; a tag further in is
what somebody wrote.
Source: Codex 0.171.0, observed.
"""

from __future__ import annotations

import re

# Told once or on change; the newest of each is in force.
_STATES = re.compile(
    r"\s*<(environment_context|user_instructions|permissions|collaboration_mode|multi_agent_role"
    r"|multi_agent_mode|model_switch|model_instructions|tools|skills_instructions"
    r"|apps_instructions|plugins_instructions|personality_spec)\b"
)
_PROJECT = re.compile(r"\s*(?:# AGENTS\.md instructions|<INSTRUCTIONS>)")
# The developer's role tells the others; in the person's role they are the person's words.
_OF_PERSONS_ROLE = ("environment_context", "user_instructions", "project_instructions")
# About one moment: they belong to the turn in which they stand.
_MOMENTS = re.compile(r"\s*<(?:hook_prompt|turn_aborted|subagent_notification|skill)\b")
_FOLDER = re.compile(r"<cwd>(/[^<\n\0]*)</cwd>")
_LOOKED_AT_CHARS = 20_000

COMPACTIONS = frozenset({"compaction", "compaction_summary", "context_compaction"})
SUMMARY = "Another language model started to solve this problem"
COMPACTION = "You are performing a CONTEXT CHECKPOINT COMPACTION"


def state_in(text: str) -> str:
    """Return the name of the state that a text tells: "environment_context"; "" for none."""
    if _PROJECT.match(text):
        return "project_instructions"
    match = _STATES.match(text)
    return match.group(1) if match else ""


def is_surroundings(text: str) -> bool:
    """Return whether a text in the person's role is Codex's own."""
    return state_in(text) in _OF_PERSONS_ROLE or _MOMENTS.match(text) is not None


def is_summary(text: str) -> bool:
    """Return whether a text is what Codex puts in place of a compacted history."""
    return text.startswith(SUMMARY)


def is_compaction_row(role: str, kind: str, text: str) -> bool:
    """Return whether a stored block stands for a history that Codex compacted."""
    if role == "user":
        return is_summary(text)
    return (role, kind) == ("system", "other") and any(
        text.startswith(f'{{"type":"{name}"') for name in COMPACTIONS
    )


def folder_in(text: str) -> str:
    """Return the working folder that an environment text names, "" when it is none."""
    if not text.lstrip().startswith("<environment_context>"):
        return ""
    match = _FOLDER.search(text[:_LOOKED_AT_CHARS])
    return match.group(1).rstrip() if match else ""
