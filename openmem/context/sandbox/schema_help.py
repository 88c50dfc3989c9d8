"""What an agent is told about the tables it can ask; the contract of `smart_compact_sql`.

Alone in its module, without imports: the MCP server reads it at each start of an agent.
"""

SCHEMA_HELP = (
    "One read-only SELECT on one session's SQLite database. "
    "messages(seq, role user|assistant|tool, kind text|tool_use|tool_result|thinking, name (tool), "
    "text, in_context 1|0 (0 = removed), echo, created_at); "
    "lines(message_seq, line_no, role, text, echo): one row per line, use it to count lines; "
    "events(at, kind, input_tokens, …). "
    "To count right, leave out assistant answers and results of these tools (echo = 1), which "
    "repeat lines: WHERE role IN ('user','tool') AND NOT echo. REGEXP works. "
    "Gives tab-separated rows: at most 200, cells of 2000 characters, 2 s."
)
