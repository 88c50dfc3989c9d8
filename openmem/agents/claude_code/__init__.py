"""Claude Code: settings.json (strict JSON), .claude.json, hooks, MCP, base URL.

Idea: what is written follows from trials with the real program (docs/reference/claude-code.md).
Invariant: an entry is ours if it holds our launcher's name; nothing else is. Trap: the program
ignores a settings.json with a comment or a trailing comma as a whole, so it must stay strict.
"""
