"""Cursor: hooks.json, mcp.json, a skill; no proxy, because its requests go to its own service.

Idea: what is written follows from its documentation; no program of it could be tried
(docs/reference/compatibility.md). Invariant: an entry is ours if it holds our launcher's name.
Trap: Cursor also runs the hooks of Claude Code's settings; our hook knows its payload and says
nothing there.
"""
