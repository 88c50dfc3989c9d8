"""A lean MCP server on stdio: the tools an agent calls to search what was removed.

Idea: JSON-RPC by hand on the standard library, because the official SDK costs 0.7 s at each start
of an agent. `wire` is lines, `protocol` is messages, `server` is the life of the process, `tools`
says what can be called and `context_tools` does it.
Invariant: nothing but protocol goes to standard output; a fault of ours is a result, not an end.
Trap: the agent waits for this process at every start. What a tool needs is imported when it is
first called; nothing here may import dataclasses (18 ms), sqlite3 or a pillar at the top.
"""
