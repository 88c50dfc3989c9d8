"""The names of our MCP tools, by what an agent may be allowed to call without asking each time.

Who writes an agent's permissions cannot import the server that has the tools, so the names stand
here; a test compares both. Invariant: a tool that removes something is never among the allowed.
"""

from __future__ import annotations

# What erases asks each time, whatever else a person agreed to.
ASKING = ("memory_forget",)
ALLOWABLE = (
    "smart_compact_search",
    "smart_compact_get",
    "smart_compact_sql",
    "context_status",
    "memory_search",
    "memory_add",
    "memory_correct",
    "memory_recall",
    "memory_reflect",
    "memory_list",
    "memory_history",
    "memory_status",
    "memory_provider_info",
    "memory_project_scope",
    "memory_export",
    "memory_import",
    "memory_consolidate",
)
