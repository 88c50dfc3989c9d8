"""A lean MCP server on stdio: the tools an agent calls to search what was removed."""
