"""Codex: hooks.json (strict JSON), config.toml, hooks that must be trusted, MCP, base URL.

Idea: what is written follows from trials with the real program (docs/reference/codex.md).
Invariant: an active provider of the person's keeps its name and keys; only where it sends requests
changes. Trap: Codex trusts a hook by its place in the file and a hash, so ours are appended, never
put before somebody's, and are trusted only by a person's word.
"""
