"""Claude Code: settings.json (strict JSON), .claude.json, hooks, MCP, base URL."""
